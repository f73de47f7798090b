"""CSV as NDJSON lines, whole columns at a time. The stream's fields decide how a cell is read.

A row with more or fewer cells than the header becomes an array of its cells, which the parser refuses.
"""

from __future__ import annotations

import csv
import io
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import orjson
import pyarrow as pa
import pyarrow.csv as pcsv

from headrace.errors import IngestError
from headrace.ingest.formats.source import ByteSource
from headrace.ingest.formats.titles import match_titles
from headrace.ingest.formats.unicode import Utf8, restore_bytes
from headrace.parse.cells import cell_converter
from headrace.parse.json_text import Text, json_lines, line_bytes

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
        """Nothing to close."""


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
    """Good lines and bad ones as the rows came; `row` is the number of the next row, before and after."""
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
