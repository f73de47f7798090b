"""Endpoints of the page: the workspace at `/`, its graph, one view at `/views/NAME`, signing in, and what they load."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from headrace.errors import NotFoundError
from headrace.html import data, tag
from headrace.web.body import read_body
from headrace.web.guard import Sessions, is_page
from headrace.web.page.page_frame import ASSETS, HEADERS, WITH_FORMS, asset, brand, document
from headrace.web.page.pages import Cache, Page, WorkspacePage
from headrace.web.replies import NamedRoute

if TYPE_CHECKING:
    from headrace.api.server_verbs import ServerVerbs

MOST_FORM = 16 << 10


def page_routes(verbs: ServerVerbs, wrong_token_s: float) -> APIRouter:
    """The page. Plain functions run in a thread: they read the store."""
    routes = APIRouter(include_in_schema=False, route_class=NamedRoute)
    pages = WorkspacePage(verbs)
    cache: Cache[Page] = Cache()

    token = verbs.runtime.workspace.settings.token
    headers = {**HEADERS, **WITH_FORMS} if token else HEADERS

    def reply(key: str, make: Callable[[], Page]) -> Response:
        status, body = cache.get(key, make)
        return HTMLResponse(body.encode(errors="replace"), status, headers=headers)

    @routes.get("/")
    def workspace() -> Response:
        return reply("/", pages.workspace)

    @routes.get("/graph")
    def graph() -> Response:
        return reply("/graph", pages.graph)

    @routes.get("/views/{view}")
    def one_view(view: str, request: Request) -> Response:
        parameters = request.query_params.multi_items()
        return reply(f"{view}?{_query(request)}", lambda: pages.view(view, parameters))

    @routes.get("/views/{view}/explain")
    def explain(view: str, request: Request) -> Response:
        parameters = request.query_params.multi_items()
        return reply(f"{view}/explain?{_query(request)}", lambda: pages.explain(view, parameters))

    @routes.get("/page/{name}")
    def part(name: str) -> Response:
        if name not in ASSETS:
            raise NotFoundError(f"the page has no file '{name}'", expected=", ".join(ASSETS))
        headers = {**HEADERS, "cache-control": "public, max-age=31536000, immutable"}  # its address names its content
        return Response(asset(name), headers=headers, media_type=ASSETS[name])

    if token:
        _add_login(routes, verbs.runtime.workspace.name, Sessions(token), wrong_token_s)
    return routes


def _add_login(routes: APIRouter, workspace: str, sessions: Sessions, wrong_token_s: float) -> None:
    headers = {**HEADERS, **WITH_FORMS}

    @routes.get("/login")
    def ask_token(request: Request) -> Response:
        return HTMLResponse(login_page(workspace, _target(request.query_params.get("next"))), headers=headers)

    @routes.post("/login")
    async def sign_in(request: Request) -> Response:
        form = parse_qs((await read_body(request, MOST_FORM)).decode(errors="replace"))
        target = _target(form.get("next", [None])[0])
        if not sessions.is_token(form.get("token", [""])[0].strip()):
            await asyncio.sleep(wrong_token_s)
            return HTMLResponse(login_page(workspace, target, wrong=True), 401, headers=headers)
        return _go(target, sessions.begin(secure=request.scope["scheme"] == "https"))

    @routes.post("/logout")
    async def sign_out(request: Request) -> Response:
        return _go("/login", sessions.end(secure=request.scope["scheme"] == "https"))


def _query(request: Request) -> str:
    return str(request.scope["query_string"], "latin-1")


def _go(target: str, cookie: str) -> Response:
    return RedirectResponse(target, 303, headers={**HEADERS, "set-cookie": cookie})


def _target(path: str | None) -> str:
    """The page after signing in: only a page of this server."""
    return path if path and is_page(path.partition("?")[0]) and path.isprintable() else "/"


def login_page(workspace: str, target: str, *, wrong: bool = False) -> str:
    """The form; it leads to `target`."""
    message = "That is not the token of this workspace." if wrong else None
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
        tag("p", message, class_="bad", role="alert") if message else None,
        form,
        id="live",
        class_="login",
        tabindex=-1,
    )
    return document(f"Sign in · {workspace} · Headrace", tag("div", brand(), class_="top"), main)
