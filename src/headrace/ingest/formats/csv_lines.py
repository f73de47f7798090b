"""CSV as NDJSON lines, whole columns at a time. The stream's fields decide how a cell is read."""

from __future__ import annotations

import codecs
import csv
import io
import re
import unicodedata
from collections import deque
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Literal

import orjson
import pyarrow as pa
import pyarrow.csv as pcsv

from headrace.errors import IngestError
from headrace.ingest.formats.byte_source import ByteSource
from headrace.language.identifiers import LONGEST_NAME, is_plain
from headrace.parse.csv_rows import cell_converter
from headrace.parse.json_text import Text, json_lines, line_bytes

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


def field_names(titles: Sequence[str]) -> list[str]:
    """A field's name for each title: the title itself if it can be one, else the nearest that can."""
    names: list[str] = []
    for number, title in enumerate(titles, 1):
        name = title if is_plain(title) and "__" not in title else _nearest(title, number)
        if name.lower() in (other.lower() for other in names):
            name = f"{name[: LONGEST_NAME - 4]}_{number}"
        names.append(name)
    return names


def match_titles(titles: Sequence[str], fields: Container[str]) -> list[str]:
    """The field of the stream that each title is for; a title without a field stays as it is."""
    return [
        title if title in fields or name not in fields else name
        for title, name in zip(titles, field_names(titles), strict=True)
    ]


def _nearest(title: str, number: int) -> str:
    letters = unicodedata.normalize("NFKD", title.replace("ß", "ss")).encode("ascii", "ignore").decode()
    name = re.sub(r"[^a-z0-9]+", "_", letters.lower()).strip("_")[: LONGEST_NAME - 7].rstrip("_")
    if not name:
        return f"column_{number}"
    if not name[0].isalpha():
        return f"column_{name}"
    return name if is_plain(name) else f"{name}_column"


BLOCK_BYTES = 4 << 20  # read at once; no row may be longer
MOST_BAD_ROWS = 200_000  # buffered until a good one: a file without any has another delimiter
DELIMITERS = ",;\t|"

_QUOTED = re.compile(rb'"(?:[^"]|"")*"')

_NO_HEADER = "CSV without a header needs the names of its columns: `headrace send --fields`, in HTTP `?fields=`"


class _Bad(deque[tuple[int, bytes]]):
    """Rows of another width, by number; at most `most` are buffered until a good row."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most


def csv_lines(
    source: ByteSource,
    types: Mapping[str, str],
    *,
    delimiter: str | None = None,
    names: Sequence[str] | None = None,
    block_bytes: int = BLOCK_BYTES,
    most_bad_rows: int = MOST_BAD_ROWS,
) -> Iterator[bytes]:
    """Lines in pieces. `types` are the stream's fields; without `names` the first row must hold them."""
    text = ByteSource(Utf8(source))
    if not text.look(1):
        return
    delimiter = delimiter or sniff_delimiter(text.look())
    header = list(names) if names else match_titles(read_titles(text, delimiter), types)
    _check_header(header, types)
    if not text.look(1):
        return
    bad = _Bad(most_bad_rows)
    convert = [cell_converter(types.get(name, "STRING")) for name in header]
    row = 0
    for batch in _batches(text, header, delimiter, bad, block_bytes):
        cells = [change(column) for change, column in zip(convert, batch.columns, strict=True)]
        pieces, row = _in_order(json_lines(header, cells, len(batch)), bad, row)
        if pieces:
            yield restore_bytes(b"".join(pieces))
    if bad:  # pyarrow returns no batch before the first good row
        yield restore_bytes(b"".join(line for _, line in bad))


class _Filled:
    """Fills every read completely: pyarrow treats each read as a separate block."""

    closed = False

    def __init__(self, source: ByteSource) -> None:
        self.read = source.read_at_most

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


def _batches(source: ByteSource, header: list[str], delimiter: str, bad: _Bad, block_bytes: int) -> Iterator[Any]:
    def keep(row: pcsv.InvalidRow) -> Literal["skip", "error"]:
        if len(bad) >= bad.most:
            return "error"
        bad.append((row.number - 1, orjson.dumps(_cells(row.text, delimiter)) + b"\n"))
        return "skip"

    try:
        yield from pcsv.open_csv(
            pa.PythonFile(_Filled(source), mode="r"),
            read_options=pcsv.ReadOptions(use_threads=False, column_names=header, block_size=block_bytes),
            parse_options=pcsv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=keep),
            convert_options=pcsv.ConvertOptions(
                column_types=dict.fromkeys(header, pa.large_string()),
                check_utf8=False,  # `Utf8` has checked it
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        raise IngestError(
            "the CSV cannot be read",
            found=str(error).partition("\n")[0],
            expected=f"as many cells as the header has, and rows of at most {block_bytes >> 20} MB; "
            "is the delimiter right, and is there a quote that does not close?",
        ) from error


def _cells(row: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader(io.StringIO(row, newline=""), delimiter=delimiter), [])
    except csv.Error:  # a cell above Python's limit, usually after a quote that does not close
        return [row]


def _in_order(lines: Text, bad: _Bad, row: int) -> tuple[list[bytes], int]:
    """Good lines and bad ones in the order of the rows; `row` is the number of the next row, before and after."""
    pieces: list[bytes] = []
    start = 0
    while True:
        while bad and bad[0][0] == row:
            pieces.append(bad.popleft()[1])
            row += 1
        if start == len(lines):
            return pieces, row
        rest = len(lines) - start
        count = min(rest, bad[0][0] - row) if bad else rest
        pieces.append(line_bytes(lines.slice(start, count)).to_pybytes())
        start, row = start + count, row + count


# The header


def sniff_delimiter(head: bytes) -> str:
    """The delimiter that the first row has most of, outside quotes."""
    first = _QUOTED.sub(b"", head).lstrip(b"\r\n").partition(b"\n")[0].decode(errors="replace")
    return max(DELIMITERS, key=first.count)


def read_titles(source: ByteSource, delimiter: str) -> list[str]:
    """The titles of the columns; the source continues after them."""
    head = source.look()
    consumed = 0

    def lines() -> Iterator[str]:
        nonlocal consumed
        for line in head.splitlines(keepends=True):
            consumed += len(line)
            yield line.decode(errors="replace")

    rows = csv.reader(lines(), delimiter=delimiter)
    try:
        names = next((row for row in rows if row), [])
    except csv.Error as error:
        raise IngestError("the header of the CSV cannot be read", found=str(error)) from error
    source.skip(consumed)
    return [name.strip() for name in names]


def _check_header(names: list[str], types: Mapping[str, str]) -> None:
    columns = ", ".join(repr(name) for name in names[:10])
    twice = sorted({name for name in names if names.count(name) > 1})
    if not all(names) or twice:
        raise IngestError(
            "the header of the CSV cannot be used",
            found=f"the column '{twice[0]}' twice" if all(names) else f"a column without a name, in {columns}",
            expected="a first row that names each column once",
            fix=_NO_HEADER,
        )
    if not set(names) & set(types):
        raise IngestError(
            "the header of the CSV contains no field of the stream",
            found=columns,
            expected=f"some of {', '.join(types)}",
            fix=_NO_HEADER,
        )
