"""docs/parsing.md says what both parsers do, cell by cell."""

from __future__ import annotations

import pytest

from headrace.define.catalog import parse
from headrace.parse.block_checks import DEEPEST
from headrace.parse.frames import frame_lines
from tests.unit.parse.forms import (
    ARRIVED_US,
    FORMS,
    REFUSED,
    TYPES,
    cell,
    fast,
    line,
    parsers,
    second,
    stream_of,
    table_of,
    unescaped,
)

FIRST = table_of("Types and JSON")
CELLS = [(type_, row[0], text) for row in FIRST for type_, text in zip(TYPES, row[1:], strict=True)]
(LINES,) = parse("CREATE STREAM s (id BIGINT NOT NULL, word STRING)").streams.values()
(TIMED,) = parse("CREATE STREAM s (at TIMESTAMP, WATERMARK FOR at)").streams.values()


def test_every_form_is_in_the_table() -> None:
    assert [row[0] for row in FIRST] == [f"`{form}`" if form else "missing" for form in FORMS]


@pytest.mark.parametrize(("type_", "title", "text"), CELLS)
def test_a_cell_is_what_both_parsers_say(type_: str, title: str, text: str) -> None:
    form = "" if title == "missing" else title.strip("`")
    stream, frame = stream_of(type_), line(form)
    assert cell(stream, form) == text
    assert fast(stream, frame) == (None if text == REFUSED else second(stream, frame))


@pytest.mark.parametrize(("source", "outcome"), table_of("Lines"))
def test_a_line_becomes_what_the_table_says(source: str, outcome: str) -> None:
    frame = unescaped(source)
    for lines in ([frame], [frame] * 20, [b'{"id":7}', frame, b"{"] * 9):
        parsed = parsers(LINES)[2].parse(frame_lines(b"\n".join(lines)), ARRIVED_US)
        at = lines.index(frame)
        reason = parsed.reasons[at].as_py() if parsed.reasons is not None else None
        assert outcome == ("accepted" if reason is None else f"refused: {reason}")


@pytest.mark.parametrize(("source", "outcome"), table_of("Event times"))
def test_an_event_time_must_make_sense(source: str, outcome: str) -> None:
    frame = b'{"at":%b}' % source.strip("`").encode()
    for lines in ([frame], [b'{"at":"2026-01-01"}'] * 20 + [frame]):
        reasons = parsers(TIMED)[2].parse(frame_lines(b"\n".join(lines)), ARRIVED_US).reasons
        reason = reasons[-1].as_py() if reasons is not None else None
        assert outcome == ("accepted" if reason is None else f"refused: {reason}")


@pytest.mark.parametrize("opening", ["[", '{"x":'])
@pytest.mark.parametrize("inside", ['"}]}]"', "1"])
def test_depth_has_one_limit_for_both_parsers(opening: str, inside: str) -> None:
    closing = "]" if opening == "[" else "}"
    for depth, good in ((DEEPEST - 1, True), (DEEPEST, False), (50_000, False)):
        frame = ('{"id":1,"other":' + opening * depth + inside + closing * depth + "}").encode()
        values = {"id": "1", "word": "None"}
        assert fast(LINES, frame) == (values if good else None)
        assert second(LINES, frame) == (values if good else f"nested more than {DEEPEST} deep")
