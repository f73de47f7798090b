"""Sign-in to the page by a signed cookie that expires, since a browser sends no bearer header.

The cookie gives access to the page only; requests that change something still require the token.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie

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
