"""Secrets of connectors: references to the environment or to a file, revealed at the last moment and never shown."""

from __future__ import annotations

import os
import re
from pathlib import Path

from headrace.errors import SecretError

PREFIX = "secret:"
FILE_PREFIX = "secret:file:"
HIDDEN = "***"

_SENSITIVE = re.compile(
    r"(^|[._-])(password|passwd|passphrase|pwd|secret|token|credentials?|authorization|jaas|api[._-]?key"
    r"|private[._-]?key|access[._-]?key|key[._-]?pem|cookie)([._-]|$)"
)
# Words that name a secret in the query of a URL, besides those of options: Azure's `sig`, Google's `key`.
_IN_QUERY = re.compile(r"(^|[._-])(sig|signature|key|auth|code|credential|session|jwt|hash|apikey)([._-]|$)")
_QUERY = re.compile(r"(?P<before>[?&](?P<name>[^\s=&#'\"]+)=)[^\s&#'\"]+")
# What http and https URLs may hold before their host and behind it: a token as the user, a webhook's path.
_HTTP_USER = re.compile(r"(?P<before>\bhttps?://)[^\s/'\"]*(?=@)", re.IGNORECASE)
_HTTP_PATH = re.compile(r"(?P<before>\bhttps?://[^\s/?#'\"]+/)[^\s?#'\"]+", re.IGNORECASE)
_OPTION = re.compile(r"(?P<before>(?P<name>[\w.-]+)[`\"']?\s*=\s*')(?P<value>[^']*)(?=')")
# The password of a URL: everything up to the last @ before the path, since a password may hold an @ of its own.
_URL_PASSWORD = re.compile(r"(?P<before>\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/]*(?=@)", re.IGNORECASE)
_WORD_PASSWORD = re.compile(
    r"(?P<before>\b(?:password|passwd|pwd|token|secret)\s*=\s*)(?:'[^']*'|[^\s&;,]+)", re.IGNORECASE
)


def is_secret(value: str) -> bool:
    """Whether a value refers to a secret: `secret:NAME` or `secret:file:/path`."""
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
    """Whether the name of an option says that its value is a secret."""
    return _SENSITIVE.search(name.lower()) is not None


def shown(name: str, value: str) -> str:
    """The value of an option as it may be printed: a reference as written, a secret in plain text as ***."""
    if is_secret(value):
        return value
    return HIDDEN if is_sensitive(name) else without_passwords(value)


def shown_change(name: str, before: str | None, after: str | None) -> str:
    """The change of an option as it may be printed, also where what has changed is the secret part."""
    old, new = ("none" if value is None else shown(name, value) for value in (before, after))
    return f"{name}: {old} → {new}" if old != new else f"{name}: changed (hidden)"


def without_passwords(text: str) -> str:
    """A text, such as a URL or the message of a driver, without the passwords in it.

    Of http and https URLs neither the user nor the path is shown: for many webhooks these are the secret.
    """
    text = _HTTP_USER.sub(rf"\g<before>{HIDDEN}", text)
    text = _HTTP_PATH.sub(rf"\g<before>{HIDDEN}", text)
    text = _URL_PASSWORD.sub(rf"\g<before>{HIDDEN}", text)
    text = _QUERY.sub(_hide_in_query, text)
    return _WORD_PASSWORD.sub(rf"\g<before>{HIDDEN}", text)


def without_secret_options(line: str) -> str:
    """A line of a definition in which the values of options that hold secrets are stars; it stays as long as it is."""

    def hide(option: re.Match[str]) -> str:
        value = option["value"]
        return option["before"] + (value if shown(option["name"], value) == value else "*" * len(value))

    return _OPTION.sub(hide, line)


def _hide_in_query(parameter: re.Match[str]) -> str:
    name = parameter["name"].lower()
    return parameter["before"] + HIDDEN if is_sensitive(name) or _IN_QUERY.search(name) else parameter[0]
