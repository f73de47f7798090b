"""The cells of CSV as JSON: the type of a field decides how the text of its cell is read."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from headrace.parse.json_text import Text, quote

_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_BOOLEAN = r"^(?i:true|false)$"
_NUMERIC = ("INT", "BIGINT", "DOUBLE", "DECIMAL")
_NESTED = ("ARRAY", "STRUCT", "MAP")


def cell_converter(type_: str) -> Callable[[Text], Text]:
    """From the text of cells to JSON, for a field of this type."""
    if type_.startswith(_NUMERIC):
        return lambda cells: _bare(_without_empty(cells), _NUMBER)
    if type_ == "BOOLEAN":
        return lambda cells: _bare(_without_empty(cells), _BOOLEAN, lower=True)
    if type_.startswith(_NESTED):
        return lambda cells: _nested(_without_empty(cells))
    return quote if type_ == "STRING" else lambda cells: quote(_without_empty(cells))


def _without_empty(cells: Text) -> Text:
    """Only a string can be empty: "" in quotes is NULL for other types too."""
    empty = pc.equal(pc.binary_length(cells), 0)
    return pc.if_else(empty, pa.scalar(None, cells.type), cells) if pc.any(empty).as_py() else cells


def _bare(cells: Text, pattern: str, *, lower: bool = False) -> Text:
    """Unchanged if they match the pattern; else as a string, which the parser refuses with a reason."""
    fits = pc.match_substring_regex(cells, pattern)
    if pc.all(fits).as_py() is False:
        cells = pc.ascii_trim_whitespace(cells)
        fits = pc.match_substring_regex(cells, pattern)
    texts = pc.ascii_lower(cells) if lower else cells
    return texts if pc.all(fits).as_py() is not False else pc.if_else(fits, texts, quote(cells))


def _nested(cells: Text) -> Text:
    """JSON in a cell, if it is valid: other text could add fields to the row."""
    import duckdb  # takes 0.1 s to import, and few streams have nested fields

    with duckdb.connect() as connection:
        connection.register("cells", pa.table({"cell": cells}))
        valid = connection.sql("SELECT json_valid(cell) AS valid FROM cells").to_arrow_table().column("valid")
    # A line break between tokens would end the line.
    flat = pc.replace_substring_regex(cells, r"[\r\n]", " ")
    return pc.if_else(valid.combine_chunks(), flat, quote(cells))
