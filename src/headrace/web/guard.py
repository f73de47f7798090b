"""Checks access of every request: token, session and origin; an unexpected exception becomes a 500 and a stack trace
in the log.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import time
from collections.abc import Callable
from functools import lru_cache
from http.cookies import CookieError, SimpleCookie
from urllib.parse import quote, urlsplit

import structlog
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.disk import from_system
from headrace.errors import (
    BadRequestError,
    ForbiddenError,
    HeadraceError,
    InternalError,
    UnauthorizedError,
    WorkspaceError,
)
from headrace.web.replies import reply_error, whole_path

LASTS_S = 12 * 3600


def is_page(path: str) -> bool:
    """Whether the cookie gives access to a path."""
    return path in ("/", "/graph") or path.startswith("/views/")


def is_open(path: str) -> bool:
    """Whether a path needs no sign-in: the login form and its assets, which show nothing of the workspace."""
    return path in ("/login", "/logout") or path.startswith("/page/")


def is_linkable(path: str) -> bool:
    """Whether other sites may link to a path: to a page that is rendered at once, not one that runs a Spark job."""
    return path == "/login" or (is_page(path) and path.count("/") < 3)


class Sessions:
    """Creates and checks cookies. They are signed with the token: nothing is stored, and a new token ends them."""

    def __init__(self, token: str, now: Callable[[], float] = time.time) -> None:
        self._token = token.encode()
        self._now = now
        # Browsers share cookies between ports of a host; the name keeps two servers from signing each other out.
        self.cookie = f"headrace_{self._sign('cookie')[:8]}"

    def is_token(self, text: str) -> bool:
        """Whether this is the token, compared in constant time."""
        return hmac.compare_digest(text.encode(), self._token)

    def begin(self, *, secure: bool) -> str:
        """A Set-Cookie header that signs in."""
        until = str(int(self._now()) + LASTS_S)
        return self._set(f"{until}.{self._sign(until)}", LASTS_S, secure)

    def end(self, *, secure: bool) -> str:
        """A Set-Cookie header that signs out."""
        return self._set("", 0, secure)

    def holds(self, header: str) -> bool:
        """Whether a Cookie header contains a valid session that has not expired."""
        try:
            cookie = SimpleCookie(header).get(self.cookie)
        except CookieError:
            return False
        until, _, signature = (cookie.value if cookie else "").partition(".")
        if not hmac.compare_digest(signature.encode(), self._sign(until).encode()):
            return False
        return self._now() < int(until)

    def _sign(self, text: str) -> str:
        return hmac.new(self._token, f"headrace page {text}".encode(), hashlib.sha256).hexdigest()

    def _set(self, value: str, seconds: int, secure: bool) -> str:
        end = "; Secure" if secure else ""
        return f"{self.cookie}={value}; Max-Age={seconds}; Path=/; HttpOnly; SameSite=Strict{end}"


OPEN_PATHS = {"/health"}  # needs no token: load balancers call it

log = structlog.get_logger("headrace.web")


class Guard:
    """The outermost layer; bare ASGI, since it is on the path of every request."""

    def __init__(self, app: ASGIApp, host: str, token: str | None) -> None:
        self._app = app
        self._host = host
        self._expected = f"Bearer {token}" if token else None
        self._sessions = Sessions(token) if token else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False
        scope["path"] = whole_path(scope)

        async def watched(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            refusal = self._refuse(scope)
            answer = _reply_refusal(refusal, scope) if refusal else self._app
            await answer(scope, receive, watched)
        except ClientDisconnect:
            return  # no client to reply to, and nothing was stored
        except Exception as error:
            log.exception("request failed", method=scope["method"], path=scope["path"])
            if not started:
                failure = from_system(error) if isinstance(error, OSError) else None
                failure = failure or InternalError("internal error", fix="its log has the details")
                await reply_error(failure)(scope, receive, send)

    def _refuse(self, scope: Scope) -> HeadraceError | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if host and not host_name(host):
            return BadRequestError("the header Host is not a host", found=repr(host[:80]), expected="such as localhost")
        if self._expected is None or self._sessions is None:
            return _refuse_other_site(scope, headers) or self._refuse_other_host(host)
        authorization = headers.get("authorization", "")
        if scope["path"] in OPEN_PATHS or hmac.compare_digest(authorization.encode(), self._expected.encode()):
            return None
        # The cookie allows reading pages but no changes, so that other sites cannot use it to change anything.
        is_signed_in_page = (
            is_page(scope["path"]) and scope["method"] == "GET" and self._sessions.holds(headers.get("cookie", ""))
        )
        if is_signed_in_page or is_open(scope["path"]):
            return _refuse_other_site(scope, headers)
        return UnauthorizedError(
            "a token is required",
            expected="a header 'Authorization: Bearer …'",
            fix="the token is the setting `token` of its workspace",
        )

    def _refuse_other_host(self, host: str) -> HeadraceError | None:
        """Without a token, any web page that the user opens could read from loopback by DNS rebinding."""
        name = host_name(host) or ""
        if is_loopback(name) or name == self._host:
            return None
        return ForbiddenError(
            "without a token this server accepts only local host names",
            found=f"host '{host}'",
            expected="127.0.0.1 or localhost",
            fix="set `token` in headrace.toml to use another host name",
        )


@lru_cache(maxsize=64)
def host_name(host: str) -> str | None:
    """The name or address in a Host header, without its port; None if the header is not well-formed."""
    try:
        parts = urlsplit(f"//{host}")
        well_formed = parts.netloc == host and parts.port != 0 and "@" not in host
    except ValueError:
        return None
    return parts.hostname if well_formed else None


def _refuse_other_site(scope: Scope, headers: Headers) -> HeadraceError | None:
    """The error for a request from a page of another site; such pages may only link to pages of this server.

    Browsers send Origin with requests that change something or read the reply, and Sec-Fetch-Site with all.
    """
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
    if origin is not None and origin.partition("://")[2] != headers.get("host", ""):
        return ForbiddenError("pages of other sites may not use this server", found=f"origin {origin[:200]}")
    if site in ("none", "same-origin") or _is_link(scope, headers):
        return None
    return ForbiddenError(
        "pages of other sites may not use this server",
        found=f"Sec-Fetch-Site: {site[:80]}",
        fix="open the address itself, not from another page",
    )


def _is_link(scope: Scope, headers: Headers) -> bool:
    """Whether a person follows a link to a page that starts no work."""
    followed = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return followed and scope["method"] == "GET" and is_linkable(scope["path"])


def _reply_refusal(refusal: HeadraceError, scope: Scope) -> Response:
    """A browser is redirected to the login form; other clients get the error."""
    wants_page = "text/html" in Headers(scope=scope).get("accept", "")
    if isinstance(refusal, UnauthorizedError) and wants_page and is_page(scope["path"]) and scope["method"] == "GET":
        target = quote(scope["path"], safe="/")
        return RedirectResponse(f"/login?next={quote(target, safe='')}", 303, headers={"cache-control": "no-store"})
    return reply_error(refusal)


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_exposure(host: str, token: str | None) -> None:
    """Refuse to listen on an address that other machines can reach, without a token."""
    if not token and not is_loopback(host):
        raise WorkspaceError(
            f"host '{host}' can be reached from other machines, and no token is set",
            fix="set `token` in headrace.toml (or HEADRACE_TOKEN), or listen on 127.0.0.1",
        )
