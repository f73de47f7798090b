"""The page at `/`: streams and views as plain HTML, rendered here, every value escaped."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from starlette.responses import HTMLResponse

if TYPE_CHECKING:
    from headrace.runtime import Runtime

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1d2433; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .3rem .8rem .3rem 0; }
th { font-weight: 600; border-bottom: 1px solid #c8ccd4; } td { border-bottom: 1px solid #eceef2; }
.number { text-align: right; font-variant-numeric: tabular-nums; } .bad { color: #a8201a; }
@media (prefers-color-scheme: dark) { body { background: #14171d; color: #dfe3ea; } th, td { border-color: #333a46; } }
"""
_HEADERS = {
    # Nothing is loaded from anywhere; the style is inline, scripts there are none.
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


def page_routes(runtime: Runtime) -> APIRouter:
    """The page, over a runtime."""
    routes = APIRouter()

    @routes.get("/", response_class=HTMLResponse, include_in_schema=False)
    def page() -> HTMLResponse:
        return HTMLResponse(render_page(runtime.status()), headers=_HEADERS)

    return routes


def render_page(status: dict[str, Any]) -> str:
    """The page for a status."""
    name = escape(str(status["workspace"]))
    streams = [
        [s["name"], _count(s["events"]), _count(s["dead_letters"]), s["newest_event"] or "–", _fault(s["error"])]
        for s in status["streams"]
    ]
    views = [
        [v["name"], v["stream"], ", ".join(v["keys"]) or "–", _freshness(v), _fault(v["stalled"])]
        for v in status["views"]
    ]
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=5>"
        f"<meta name=viewport content='width=device-width'><title>{name} · Headrace</title>"
        f"<style>{_STYLE}</style><h1>{name}</h1><p>{escape(str(status['state']))}</p>"
        f"<h2>Streams</h2>{_table(['stream', 'events', 'dead letters', 'newest event', 'trouble'], streams)}"
        f"<h2>Views</h2>{_table(['view', 'stream', 'keys', 'freshness', 'trouble'], views)}</html>"
    )


def _table(titles: list[str], rows: Iterable[list[str]]) -> str:
    head = "".join(f"<th>{title}" for title in titles)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}" for cell in row) for row in rows)
    return f"<table><tr>{head}{body}</table>" if body else "<p>none</p>"


def _count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def _fault(text: str | None) -> str:
    return text or "–"


def _freshness(view: dict[str, Any]) -> str:
    ms = view["freshness_ms"]
    return str(view["freshness_reason"] or "unknown") if ms is None else f"{ms:,} ms"
