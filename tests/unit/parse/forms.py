"""The tables of docs/parsing.md and each parser's result for a line; run as a module, it prints the first table."""

from __future__ import annotations

import ast
import re
import sys
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.define.catalog import parse
from headrace.define.model import Stream
from headrace.parse.columnar_parser import Columnar
from headrace.parse.event_parser import Parser
from headrace.parse.event_verdict import Refused, SecondParser
from headrace.parse.frames import frame_lines
from headrace.parse.uniform_parser import Uniform
from headrace.types import arrow_type

PAGE = Path(__file__).parents[3] / "docs" / "parsing.md"
ARRIVED_US = 1_800_000_000_000_000
REFUSED = "–"
TYPES = (
    "STRING", "BOOLEAN", "INT", "BIGINT", "DOUBLE", "DECIMAL(8,2)", "DATE", "TIMESTAMP", "ARRAY<INT>", "STRUCT<a: INT>",
    "MAP<STRING, INT>",
)  # fmt: skip
FORMS = (
    "", "null", "true", "5", "-5", "-0", "2147483648", "9223372036854775808", "5.0", "1e3", "1.25", "1.255", "1e-7",
    "1e400",
    "NaN", "-Infinity", '"text"', '""', '"5"', '"1.25"', '"true"', r'"\u0000"', r'"\ud83d\ude00"', r'"\ud800"',
    '"2026-03-01"', '"2026-03-01T12:00:00Z"', '"2026-03-01T12:00:00+05:30"', '"2026-03-01T12:00:00"',
    '"2026-03-01 12:00:00.5"', '"2026-03-01T12:00:00.123456789Z"', '"2026-02-30"', '"2026-03-01T24:00:00Z"',
    '"2016-12-31T23:59:60Z"', '"0000-01-01"', '"0001-01-01"', '"9999-12-31T23:59:59.999999Z"', "[]", "[1, null]",
    '[1, "2"]', "[[1]]", "{}", '{"a": 1}', '{"a": null, "b": [1]}', '{"a": "1"}', '{"a": 1, "a": 2}',
    '{"b": 1, "b": 2}',
)  # fmt: skip


@lru_cache
def stream_of(type_: str) -> Stream:
    """A stream with one field of this type."""
    (stream,) = parse(f"CREATE STREAM s (v {type_})").streams.values()
    return stream


@lru_cache
def parsers(stream: Stream) -> tuple[Columnar, SecondParser, Parser]:
    """The fast parser, the second one, and the one that uses both."""
    return Columnar(stream.fields), SecondParser(stream.fields), Parser(stream)


def line(form: str) -> bytes:
    """An event whose field has this form."""
    return b'{"v":%b}' % form.encode() if form else b"{}"


def fast(stream: Stream, frame: bytes) -> dict[str, Any] | None:
    """The fast parser's values; None where it has no result."""
    table = parsers(stream)[0].read(frame_lines(frame))
    return None if table is None else comparable(table.to_pylist()[0])


def uniform(stream: Stream, frames: list[bytes]) -> list[dict[str, Any] | None]:
    """The values of the fastest parser for each frame; None where it has no result."""
    part = Uniform(stream.fields).read(frame_lines(b"\n".join(frames)))
    if part is None:
        return [None] * len(frames)
    rows = iter(part[0].to_pylist())
    return [comparable(next(rows)) if fits else None for fits in part[1].tolist()]


def second(stream: Stream, frame: bytes) -> dict[str, Any] | str:
    """The second parser's values, or its reason; its verdict is always the same as its reading."""
    judged = parsers(stream)[1].refusal(frame)
    try:
        values = parsers(stream)[1].read(frame)
    except Refused:
        assert judged is not None
        return judged
    assert judged is None
    return {name: comparable(value) for name, value in _in_arrow(stream, values).items()}


def _in_arrow(stream: Stream, values: list[Any]) -> dict[str, Any]:
    pairs = zip(stream.fields, values, strict=True)
    return {field.name: pa.array([value], arrow_type(field.type))[0].as_py() for field, value in pairs}


def comparable(value: Any) -> Any:
    """A value as text, in which equal times of any zone are equal, and 0.0 is not -0.0."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, dict):
        return {name: comparable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [comparable(item) for item in value]
    return repr(value)


def cell(stream: Stream, form: str) -> str:
    """The cell of the table for a form."""
    outcome = second(stream, line(form))
    if isinstance(outcome, str):
        return REFUSED
    value = _in_arrow(stream, parsers(stream)[1].read(line(form)))["v"]
    return "NULL" if value is None else f"`{as_text(value)}`"


def as_text(value: Any) -> str:
    """A value as the table writes it."""
    if isinstance(value, datetime):
        return value.isoformat(sep=" ").replace("+00:00", "")
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {as_text(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        keyed = bool(value) and isinstance(value[0], tuple)
        items = [f"{item[0]} → {as_text(item[1])}" if keyed else as_text(item) for item in value]
        return f"[{', '.join(items)}]"
    if isinstance(value, bool):
        return str(value).lower()
    return "NULL" if value is None else ascii(value) if isinstance(value, str) else str(value)


def render_table() -> str:
    """The first table of docs/parsing.md."""
    lines = ["| JSON | " + " | ".join(f"`{of}`" for of in TYPES) + " |", "|---" * (len(TYPES) + 1) + "|"]
    for form in FORMS:
        title = f"`{form}`" if form else "missing"
        lines.append(f"| {title} | " + " | ".join(cell(stream_of(of), form) for of in TYPES) + " |")
    return "\n".join(lines)


def table_of(title: str) -> list[list[str]]:
    """The rows of the table below a heading of docs/parsing.md."""
    section = PAGE.read_text().split(f"## {title}\n")[1].split("\n## ")[0]
    rows = [row.strip("|").split("|") for row in re.findall(r"^\|.*\|$", section, re.MULTILINE)]
    return [[part.strip() for part in row] for row in rows[2:]]


def unescaped(text: str) -> bytes:
    """The bytes that a table writes as `…`."""
    content: bytes = ast.literal_eval("b'''" + text.strip("`") + "'''")
    return content


if __name__ == "__main__":
    sys.stdout.write(render_table() + "\n")
