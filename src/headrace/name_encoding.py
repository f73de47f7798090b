"""Names of streams, views and the like, whatever their characters, in file names, cursors and commands."""

from __future__ import annotations

import re
from shlex import quote

_OTHERS = re.compile(rb"[^A-Za-z0-9_]")
_ESCAPED = re.compile(r"(?:~[0-9a-f]{2})+")

shell = quote  # a name as an argument of a command


def encode_name(name: str) -> str:
    """A name in letters, digits, _ and ~; a plain name is unchanged. `decode_name` reads it back.

    So it is one part of a path that cannot lead elsewhere. File systems, URLs, Hadoop and Delta take ~ as it is.
    """
    return _OTHERS.sub(lambda found: b"~%02x" % found[0][0], name.encode(errors="surrogatepass")).decode()


def decode_name(text: str) -> str:
    """The name that `encode_name` wrote."""
    return _ESCAPED.sub(lambda found: bytes.fromhex(found[0].replace("~", "")).decode(errors="replace"), text)
