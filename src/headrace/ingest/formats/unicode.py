"""Text that should be UTF-8. Other bytes pass through unchanged, so that the parser can refuse their event."""

from __future__ import annotations

import codecs
import re

from headrace.errors import IngestError
from headrace.ingest.formats.source import ByteSource

_MARK = "\U0010fffe"  # a noncharacter, never used for exchange; two hexadecimal digits follow
_MARKED = re.compile(_MARK.encode() + rb"([0-9a-f]{2})")
_OTHERS = {codecs.BOM_UTF32_LE: "UTF-32", codecs.BOM_UTF32_BE: "UTF-32"} | {
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


def _mark(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "".join(f"{_MARK}{byte:02x}" for byte in error.object[error.start : error.end]), error.end


codecs.register_error("headrace.mark", _mark)


class Utf8:
    """Reads UTF-8 without its byte order mark; other bytes are marked until `restore_bytes`."""

    def __init__(self, source: ByteSource) -> None:
        head = source.look(4)
        for mark, name in _OTHERS.items():
            if head.startswith(mark):
                raise IngestError(
                    "the text is not in UTF-8",
                    found=f"the byte order mark of {name}",
                    fix=f"convert it: iconv -f {name} -t UTF-8",
                )
        self._source = source
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("headrace.mark")

    def read(self, size: int = -1, /) -> bytes:
        """Some bytes, none at the end; it may be more than `size` where bytes are marked."""
        while block := self._source.read(size):
            if text := self._decoder.decode(block):
                return text.encode()
        return self._decoder.decode(b"", final=True).encode()


def restore_bytes(lines: bytes) -> bytes:
    """Replaces marks by the bytes that they stand for."""
    return _MARKED.sub(lambda match: bytes.fromhex(match[1].decode()), lines) if _MARK.encode() in lines else lines
