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


def without_passwords(text: str) -> str:
    """A text, such as a URL or the message of a driver, without the passwords in it."""
    text = _URL_PASSWORD.sub(rf"\g<before>{HIDDEN}", text)
    return _WORD_PASSWORD.sub(rf"\g<before>{HIDDEN}", text)
