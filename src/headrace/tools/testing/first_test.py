"""The first test of inferred definitions: some sampled events, and the rows that the view has of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.define.catalog import Catalog
from headrace.define.model import TEXT, Stream
from headrace.errors import HeadraceError
from headrace.format import iso
from headrace.lake.added_fields import parser_of
from headrace.parse.frames import frame
from headrace.serve.answer import Answer
from headrace.serve.question import Question
from headrace.tools.testing.comparison import compare_outcome
from headrace.tools.testing.direct_engine import Engine, QuickEngine, Request
from headrace.tools.testing.given_events import FAR_US, GivenEvent, GivenEvents, arrange, read_given
from headrace.tools.testing.written_tests import read_text
from headrace.tools.testing.yaml_file import Items, parse_document

MOST_EVENTS = 3
LONGEST_LINE = 2_000  # bytes of an event that is still worth reading in a test
LEFT_OUT = ("window_end", "settled")  # columns that the first test does not name
HEADING = """\
# Tests of the definitions: `headrace test` runs them, without a server.
"""


def first_test(catalog: Catalog, stream: Stream, view: str, lines: bytes) -> str | None:
    """A test file whose test passes; None if no event of the sample is good, or only Spark computes the view."""
    engine = QuickEngine()
    try:
        good = _good_lines(stream, lines)
        return _write(engine, catalog, stream, view, good) if good else None
    except HeadraceError:
        return None
    finally:
        engine.close()


def _good_lines(stream: Stream, lines: bytes) -> list[bytes]:
    frames = frame(stream.format, lines)
    reasons = parser_of(stream).parse(frames, FAR_US).reasons or pa.nulls(len(frames), pa.string())
    verdicts = zip(frames, reasons.to_pylist(), strict=True)
    good = (line for line, reason in verdicts if reason is None and len(line) <= LONGEST_LINE)
    return list(islice(good, MOST_EVENTS))


def _write(engine: Engine, catalog: Catalog, stream: Stream, view: str, lines: Sequence[bytes]) -> str | None:
    request = Request(Question.of(view), whole=True)
    sample = GivenEvents(stream, (tuple(map(GivenEvent, lines)),))
    answer = engine.run(catalog, arrange([sample]), request).answers[0].answer
    events = "".join(f"      - {_event(stream, line.decode())}\n" for line in lines)
    rows = "".join(f"      - {row}\n" for row in write_rows(answer))
    text = (
        f"{HEADING}- name: the first events of the file are counted\n"
        f"  given:\n    {stream.name}:\n{events}  ask: {{view: {view}}}\n  expect:\n    rows:\n{rows}"
    )
    # YAML takes some characters for others: the file is written only if it says the same.
    tests, errors = read_text(text)
    if errors:
        return None
    read = read_given(stream, tests[0].events[stream.name][1], Path())
    outcome = engine.run(catalog, arrange([read]), request)
    keys = [key.name for key in catalog.views[view].keys]
    return None if compare_outcome(tests[0].expected, outcome, keys, ordered=False) else text


def _event(stream: Stream, line: str) -> str:
    """The event in YAML: most JSON is, and a line in quotes is taken as it is."""
    if stream.format != TEXT:
        try:
            document = parse_document(f"- {line}", "")
            same = isinstance(document, Items) and json.loads(document.items[0].json()) == json.loads(line)
        except (HeadraceError, ValueError):
            same = False
        if same:
            return line
    return "'" + line.replace("'", "''") + "'"


def write_rows(answer: Answer) -> list[str]:
    """Write its rows in YAML."""
    return [
        "{" + ", ".join(f"{_name(name)}: {_cell(value)}" for name, value in row.items() if name not in LEFT_OUT) + "}"
        for row in answer.rows()
    ]


def _name(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name, ensure_ascii=False)


def _cell(value: Any) -> str:
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, date):
        return value.isoformat()
    return format(value, "f") if isinstance(value, Decimal) else json.dumps(value, ensure_ascii=False, default=str)
