"""The form that asks for the token, since a browser cannot send it as a header."""

from __future__ import annotations

from headrace.web.page.frame import brand, document
from headrace.web.page.html import data, tag


def login_page(workspace: str, target: str, *, wrong: bool = False) -> str:
    """The form; it leads to `target`."""
    said = "That is not the token of this workspace." if wrong else None
    form = tag(
        "form",
        tag("input", type="hidden", name="next", value=target),
        tag(
            "label",
            tag("span", "Token (the setting token of the workspace)"),
            tag("input", type="password", name="token", required=True, autofocus=True, autocomplete="current-password"),
        ),
        tag("button", "Sign in"),
        method="post",
        action="/login",
    )
    main = tag(
        "main",
        tag("h1", data(workspace)),
        tag("p", said, class_="bad", role="alert") if said else None,
        form,
        id="live",
        class_="login",
        tabindex=-1,
    )
    return document(f"Sign in · {workspace} · Headrace", tag("div", brand(), class_="top"), main)
