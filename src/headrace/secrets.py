"""Secrets of connectors: references to the environment or to a file, revealed at the last moment and never shown."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from headrace.errors import SecretError

PREFIX = "secret:"
FILE_PREFIX = "secret:file:"
HIDDEN = "***"

# Parts of names of options and parameters, without separators and case: api_key, apiKey and X-Api-Key are one.
_SENSITIVE = re.compile(
    r"password|passwd|passphrase|pwd|secret|token|credential|authorization|jaas|oauthbearerconfig|signature|cookie"
    r"|(api|private|access|subscription|keystore)key|keypem|^headers?.*(auth|sig|session|key|jwt)"
)
# Words that name a secret in the query of a URL, besides those of options: Azure's `sig`, Google's `key`.
_IN_QUERY = re.compile(r"(^|[._-])(sig|key|auth|code|session|jwt|hash)([._-]|$)")
_QUERY = re.compile(r"(?P<before>[?&](?P<name>[^\s=&#'\"]+)=)[^\s&#'\"]+")
_HTTP = re.compile(r"\bhttps?://[^\s'\"]*[^\s'\".,;:)]", re.IGNORECASE)
_URL = re.compile(
    r"(?P<scheme>(?:[a-z][a-z0-9+.-]*:)?//|(?!.*//))(?P<user>[^/?#\\]*@)?(?P<host>(?:\[[\da-f:.]*\]|[^/?#\\@:\[]*)(?::\d*)?)"
    r"(?P<rest>(?:[/?#\\][^@]*)?)",
    re.IGNORECASE,
)
_URL_OPTIONS = ("url", "webhook")
_NO_SCHEME = re.compile(r"(//)?[^/\s=]*\w\.\w[^/\s=]*[/?#]")  # of a value that is meant as a URL: hooks.example.com/…
_POSTGRES = re.compile(r"(jdbc:)?postgres(ql)?:", re.IGNORECASE)
_OPTION = re.compile(
    r"""(?P<before>(?P<name>[\w.-]+)[`"']?\s*[=:]?\s*)(?P<value>'(?:[^']|'')*(?:'|$)|"(?:[^"\\]|\\.)*(?:"|$))"""
)
# The password of a URL: everything up to the last @, since a password may hold an @ or a / of its own.
_URL_PASSWORD = re.compile(r"(?P<before>\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)\S*(?=@)", re.IGNORECASE)
_WORD_PASSWORD = re.compile(
    r"(?P<before>\b(?:password|passwd|pwd|token|secret)\s*=\s*)(?:'[^']*'|[^\s&;,]+)", re.IGNORECASE
)
_SHORTEST = 4  # characters of a part of a URL that is looked for in messages


def is_secret(value: str) -> bool:
    """Return whether a value refers to a secret: `secret:NAME` or `secret:file:/path`."""
    return value.startswith(PREFIX)


def reveal(value: str) -> str:
    """The value that a reference stands for; a value that is none is returned as it is.

    Called where a client is made, and nowhere before. Raises SecretError, which names the reference only.
    """
    if value.startswith(FILE_PREFIX):
        return _read(value)
    if not is_secret(value):
        return value
    name = value.removeprefix(PREFIX)
    secret = os.environ.get(name)
    if secret is None:
        raise SecretError(
            f"the secret '{value}' is not set",
            expected=f"an environment variable {name}" if name else "a name after secret:",
            fix=f"set {name or 'it'} where the server starts, or write secret:file:/path",
        )
    return secret


def _read(value: str) -> str:
    path = Path(value.removeprefix(FILE_PREFIX))
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SecretError(
            f"the secret '{value}' cannot be read: {reason}", fix="create the file, readable for the server's user"
        ) from None  # the cause could hold bytes of the file
    return text.removesuffix("\n").removesuffix("\r")


def is_sensitive(name: str) -> bool:
    """Return whether the name of an option says that its value is a secret."""
    return _SENSITIVE.search(re.sub(r"[^a-z0-9]", "", name.lower())) is not None


def shown(name: str, value: str) -> str:
    """The value of an option as it may be printed: a reference as written, a secret in plain text as ***."""
    if is_secret(value):
        return value
    if is_sensitive(name):
        return HIDDEN
    return host_only(value) if _is_url(name, value) else without_passwords(value)


def _is_url(name: str, value: str) -> bool:
    if _HTTP.match(value):
        return True
    written = _NO_SCHEME.match(value) or "://" in value
    return name.lower() in _URL_OPTIONS and bool(written) and not _POSTGRES.match(value)


def host_only(url: str) -> str:
    """Scheme, host and port of a URL: for many webhooks user, path or query are the secret."""
    parts = _URL.fullmatch(url)
    if parts is None:  # no URL, or where its host ends is not clear
        scheme, separator, _ = url.partition("://")
        return f"{scheme}{separator}{HIDDEN}" if separator else HIDDEN
    user = f"{HIDDEN}@" if parts["user"] else ""
    rest = f"/{HIDDEN}" if len(parts["rest"]) > 1 else parts["rest"]
    return f"{parts['scheme']}{user}{parts['host']}{rest}"


def shown_change(name: str, before: str | None, after: str | None) -> str:
    """The change of an option as it may be printed, also where what has changed is the secret part."""
    old, new = ("none" if value is None else shown(name, value) for value in (before, after))
    return f"{name}: {old} → {new}" if old != new else f"{name}: changed (hidden)"


def without_passwords(text: str) -> str:
    """A text, such as a URL or the message of a driver, without the passwords in it.

    Of http and https URLs only scheme, host and port are shown.
    """
    text = _HTTP.sub(lambda url: host_only(url[0]), text)
    text = _URL_PASSWORD.sub(rf"\g<before>{HIDDEN}", text)
    text = _QUERY.sub(_hide_in_query, text)
    return _WORD_PASSWORD.sub(rf"\g<before>{HIDDEN}", text)


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """A text without these secrets, the longest first, and without passwords."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return without_passwords(text)


def parts_of_url(url: str) -> Iterator[str]:
    """The parts of an http URL that its server may repeat in an answer: user, path and query, and their parts."""
    parts = urlsplit(url)
    path = f"{parts.path}?{parts.query}" if parts.query else parts.path
    values = (value for _, value in parse_qsl(parts.query, separator="&"))
    pieces = (path, parts.path, parts.query, *parts.path.split("/"), *values, parts.username, parts.password)
    for part in filter(None, pieces):
        yield from {each for each in (part, unquote(part)) if len(each) >= _SHORTEST}


def without_secret_options(line: str) -> str:
    """A line of a definition in which the values of options that hold secrets are stars; it stays as long as it is."""

    def hide(option: re.Match[str]) -> str:
        quoted = option["value"]
        quote, value, end = quoted[0], quoted[1:].removesuffix(quoted[0]), quoted[0] * (quoted[1:].endswith(quoted[0]))
        same = shown(option["name"], value) == value
        return option["before"] + (quoted if same else f"{quote}{'*' * len(value)}{end}")

    # Also a URL whose name stands in another line.
    return _HTTP.sub(lambda url: url[0] if host_only(url[0]) == url[0] else "*" * len(url[0]), _OPTION.sub(hide, line))


def _hide_in_query(parameter: re.Match[str]) -> str:
    name = parameter["name"].lower()
    return parameter["before"] + HIDDEN if is_sensitive(name) or _IN_QUERY.search(name) else parameter[0]
