"""Events that are rows of CSV, without a header: the type of each field decides how the text of its cell is read."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pcsv

from headrace.define.model import Field
from headrace.engine.duckdb_session import DuckdbSession
from headrace.parse.frames import Frames, frame_lines
from headrace.parse.json_text import Text, json_lines, line_bytes, quote

_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_BOOLEAN = r"^(?i:true|false)$"
_NUMERIC = ("INT", "BIGINT", "DOUBLE", "DECIMAL")
_NESTED = ("ARRAY", "STRUCT", "MAP")


def cell_converter(type_: str) -> Callable[[Text], Text]:
    """The converter from the text of cells to JSON, for a field of this type."""
    if type_.startswith(_NUMERIC):
        return lambda cells: _bare(_without_empty(cells), _NUMBER)
    if type_ == "BOOLEAN":
        return lambda cells: _bare(_without_empty(cells), _BOOLEAN, lower=True)
    if type_.startswith(_NESTED):
        return lambda cells: _nested(_without_empty(cells))
    return quote if type_ == "STRING" else lambda cells: quote(_without_empty(cells))


def _without_empty(cells: Text) -> Text:
    """Replace empty cells by NULL, as only a string can be empty: "" in quotes is NULL for other types too."""
    empty = pc.equal(pc.binary_length(cells), 0)
    return pc.if_else(empty, pa.scalar(None, cells.type), cells) if pc.any(empty).as_py() else cells


def _bare(cells: Text, pattern: str, *, lower: bool = False) -> Text:
    """The cells unchanged if they match the pattern; else as strings, which the parser refuses with a reason."""
    fits = pc.match_substring_regex(cells, pattern)
    if pc.all(fits).as_py() is False:
        cells = pc.ascii_trim_whitespace(cells)
        fits = pc.match_substring_regex(cells, pattern)
    texts = pc.ascii_lower(cells) if lower else cells
    return texts if pc.all(fits).as_py() is not False else pc.if_else(fits, texts, quote(cells))


def _nested(cells: Text) -> Text:
    """JSON in a cell, if it is valid: other text could add fields to the row."""
    valid = (
        DuckdbSession().query("SELECT json_valid(cell) AS valid FROM cells", cells=pa.table({"cell": cells})).column(0)
    )
    # A line break between tokens would end the line.
    flat = pc.replace_substring_regex(cells, r"[\r\n]", " ")
    return pc.if_else(valid.combine_chunks(), flat, quote(cells))


_TEXT = pa.large_string()


class RowReader:
    """Turns rows into JSON objects, which the parser of JSON judges: types have one meaning in both formats."""

    def __init__(self, fields: Sequence[Field], delimiter: str = ",") -> None:
        self._delimiter = delimiter
        self._names = [field.name for field in fields]
        self._convert = [cell_converter(str(field.type)) for field in fields]

    def read(self, lines: pa.Array) -> tuple[Frames, pa.Array | None]:
        """An object for each row, `{}` for those that are refused, and the reasons; a NULL is refused already."""
        count = len(lines)
        if not count:
            return frame_lines(b""), None
        cells = self._split_plain(lines) if self._are_plain(lines) else None
        if cells is not None:
            return self._as_objects(cells), None
        columns = [np.empty(count, dtype=object) for _ in self._names]
        reasons: list[str | None] = [None] * count
        for index, line in enumerate(lines.to_pylist()):
            row, reasons[index] = self._split(line)
            for column, cell in zip(columns, row, strict=True):
                column[index] = cell
        frames = self._as_objects([pa.array(column, _TEXT) for column in columns])
        return frames, pa.array(reasons, pa.string()) if any(reasons) else None

    @staticmethod
    def _are_plain(lines: pa.Array) -> bool:
        """Return whether no row has a quote or a line break: then the cells are what is between the commas."""
        return lines.null_count == 0 and not pc.any(pc.match_substring_regex(lines, '["\r\n]')).as_py()

    def _split_plain(self, lines: pa.Array) -> list[pa.Array] | None:
        """The cells of rows without quotes; None if one has another number of cells."""
        body = pc.binary_join_element_wise(lines.cast(_TEXT), pa.scalar("", _TEXT), pa.scalar("\n", _TEXT))
        try:
            table = pcsv.read_csv(
                pa.BufferReader(line_bytes(body)),
                read_options=pcsv.ReadOptions(
                    use_threads=False, column_names=self._names, block_size=max(1 << 20, 2 * body.nbytes)
                ),
                parse_options=pcsv.ParseOptions(delimiter=self._delimiter, quote_char=False, ignore_empty_lines=False),
                convert_options=pcsv.ConvertOptions(
                    column_types=dict.fromkeys(self._names, _TEXT),
                    check_utf8=False,
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            )
        except pa.ArrowInvalid:
            return None
        return [column.combine_chunks() for column in table.columns] if len(table) == len(lines) else None

    def _split(self, line: str | None) -> tuple[list[str | None], str | None]:
        """The cells of one row: NULL where one is empty and not in quotes."""
        nothing: list[str | None] = [None] * len(self._names)
        if line is None:
            return nothing, None
        try:
            rows = list(csv.reader(io.StringIO(line, newline=""), delimiter=self._delimiter, strict=True))
        except csv.Error as error:
            return nothing, f"not a row of CSV: {error}"
        if len(rows) != 1:
            return nothing, f"{len(rows)} rows of CSV in one event"
        if len(rows[0]) > len(self._names):
            return nothing, f"{len(rows[0])} cells, and the stream has {len(self._names)} fields"
        # A field that is added to a stream is the last one: rows from before have no cell for it.
        return [cell or None for cell in rows[0]] + nothing[len(rows[0]) :], None

    def _as_objects(self, cells: list[pa.Array]) -> Frames:
        texts = [change(column) for change, column in zip(self._convert, cells, strict=True)]
        return frame_lines(memoryview(line_bytes(json_lines(self._names, texts, len(cells[0])))))
