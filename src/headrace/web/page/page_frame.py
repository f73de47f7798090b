"""The frame of every page: head, connection status, foot, and security headers."""

from __future__ import annotations

import hashlib
from datetime import datetime
from functools import cache
from pathlib import Path

from headrace.html import Html, Part, join, tag

ASSETS = {"style.css": "text/css", "graph.css": "text/css", "script.js": "text/javascript", "icon.svg": "image/svg+xml"}
FOLDER = Path(__file__).parent / "assets"
# Under no-referrer a browser sends forms with `Origin: null`, which the server refuses.
WITH_FORMS = {"referrer-policy": "same-origin"}
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@cache
def asset(name: str) -> bytes:
    """A file that the page loads from this server."""
    return (FOLDER / name).read_bytes()


@cache
def build() -> str:
    """A hash of the assets; a page with another hash reloads itself."""
    return hashlib.sha256(b"".join(asset(name) for name in ASSETS)).hexdigest()[:12]


def document(title: str, *parts: Part, live: datetime | None = None, reload_s: int = 5) -> str:
    """A page. `live` is when its numbers were read; such a page keeps itself up to date.

    Without JavaScript it reloads itself after `reload_s` seconds.
    """
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="robots", content="noindex"),
        tag("title", title),
        tag("link", rel="icon", href=f"/page/icon.svg?{build()}", type="image/svg+xml"),
        tag("link", rel="stylesheet", href=f"/page/style.css?{build()}"),
        tag("link", rel="stylesheet", href=f"/page/graph.css?{build()}"),
    ]
    if live is not None:
        head.append(tag("script", src=f"/page/script.js?{build()}", defer=True))
        head.append(tag("noscript", Html(f'<meta http-equiv="refresh" content="{reload_s}">')))
    body = tag(
        "body",
        tag("a", "Skip to content", href="#live", class_="skip"),
        tag("div", id="connection", role="status", aria_live="polite"),
        *parts,
        data_build=build(),
        data_at=f"{live:%H:%M:%S} UTC" if live else None,
    )
    return join(Html("<!doctype html>"), tag("html", tag("head", *head), body, lang="en"))


def brand(*crumbs: Part) -> Html:
    """The top line with the breadcrumbs."""
    return tag("nav", tag("a", "Headrace", href="/", class_="brand"), *crumbs, aria_label="Breadcrumb")
