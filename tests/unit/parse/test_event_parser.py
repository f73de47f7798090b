"""One verdict per event, whatever its neighbours: the fast parser and the second one agree."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.define.catalog import parse
from headrace.parse.event_parser import Parser
from headrace.parse.frames import frame_lines
from tests import wording

(STREAM,) = parse(
    """CREATE STREAM s (id BIGINT NOT NULL, word STRING, small INT, ratio DOUBLE, price DECIMAL(8,2), flag BOOLEAN,
    day DATE, at TIMESTAMP NOT NULL, WATERMARK FOR at)"""
).streams.values()
PARSER = Parser(STREAM)
ARRIVED_US = 1_800_000_000_000_000
GOOD = b'{"id":1,"at":"2026-03-01T12:00:00Z"}'


def _text(event: dict[str, Any]) -> bytes:
    return json.dumps(event, ensure_ascii=False).encode("utf-8", "replace")


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**64), 2**64),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=6),
    st.sampled_from(["1.50", "1.555", "2026-03-01", "2026-03-01T12:00:00Z", "2026-02-30", "2026-03-01T24:00:00Z"]),
    st.lists(st.integers(), max_size=2),
)
names = st.sampled_from(["id", "word", "small", "ratio", "price", "flag", "day", "at", "other"])
frames = st.one_of(
    st.dictionaries(names, scalars, max_size=6).map(lambda d: json.dumps(d).encode()),
    st.dictionaries(names, scalars, max_size=4).map(lambda d: _text({"id": 7, "at": "2026-03-01T12:00:00Z", **d})),
    st.sampled_from([b"{", b"[]", b"null", b"{}", b'{"id":1}{"id":2}', b'{"id":1,"id":2}', b"\xff", b'"x"', b"5",
                     b'{"ratio":NaN}', b'{"id":1e2}', b'{"id":1,"at":"2026-03-01T12:00:00Z","ratio":-Infinity}']),
)  # fmt: skip


def verdict(lines: list[bytes]) -> list[tuple[Any, ...]]:
    framed = frame_lines(b"\n".join(lines))
    parsed = PARSER.parse(framed, ARRIVED_US)
    reasons = parsed.reasons.to_pylist() if parsed.reasons is not None else [None] * len(framed)
    rows = parsed.columns.to_pylist()
    return [("refused",) if reason else tuple(row.values()) for row, reason in zip(rows, reasons, strict=True)]


@given(st.lists(frames, min_size=1, max_size=8))
def test_neighbours_do_not_matter(lines: list[bytes]) -> None:
    lines = [line for line in lines if line.strip() and b"\n" not in line]
    together = verdict(lines)
    for line, row in zip(lines, together, strict=True):
        assert repr(verdict([line])) == repr([row])  # alone
        assert repr(verdict([line, GOOD])[0]) == repr(row)  # beside a good one
        assert repr(verdict([line, b"{"])[0]) == repr(row)  # where the second parser reads it for sure


@pytest.mark.parametrize(
    ("line", "values"),
    [
        (b'{"at":"2026-03-01T12:00:00Z"}', ("id",)),
        (b'{"id":1}', ("at",)),
        (b'{"id":"x","at":"2026-03-01T12:00:00Z"}', ("id", "BIGINT")),
        (b'{"id":1.5,"at":"2026-03-01T12:00:00Z"}', ("1.5",)),
        (b'{"id":1,"small":2147483648,"at":"2026-03-01T12:00:00Z"}', ("2147483648", "2147483647")),
        (b'{"id":1,"ratio":NaN,"at":"2026-03-01T12:00:00Z"}', ("ratio", "DOUBLE")),
        (b'{"id":1,"price":1.234,"at":"2026-03-01T12:00:00Z"}', ("price", "DECIMAL(8,2)")),
        (b'{"id":1,"flag":1,"at":"2026-03-01T12:00:00Z"}', ()),
        (b'{"id":1,"day":"yesterday","at":"2026-03-01T12:00:00Z"}', ("day", "DATE")),
        (b'{"id":1,"at":1740830400000}', ()),
        (b'{"id":1,"at":"1969-12-31T23:59:59Z"}', ("at", "1970")),
        (b'{"id":1,"at":"2099-01-01T00:00:00Z"}', ("at",)),
        (b'{"id":1,"id":2,"at":"2026-03-01T12:00:00Z"}', ("id",)),
        (b"[1]", ()),
        (b'["1","x"]', ("2",)),
        (b'{"id":1', ()),
        (b'{"id":1}\xff', ("UTF", "8")),
        (b'{"id":1,"word":"\\ud800","at":"2026-03-01T12:00:00Z"}', ()),
    ],
)
def test_reasons_name_field_found_and_expected(line: bytes, values: tuple[str, ...]) -> None:
    reasons = PARSER.parse(frame_lines(line), ARRIVED_US).reasons
    assert reasons is not None
    wording.check(reasons[0].as_py(), *values)


def test_computed_fields_are_evaluated_and_checked() -> None:
    (stream,) = parse(
        "CREATE STREAM s (ts BIGINT, at TIMESTAMP NOT NULL AS timestamp_millis(ts), WATERMARK FOR at)"
    ).streams.values()
    parsed = Parser(stream).parse(frame_lines(b'{"ts":1740830400000}\n{"ts":null}\n{}'), ARRIVED_US)
    assert parsed.columns["at"][0].as_py().isoformat() == "2025-03-01T12:00:00+00:00"
    assert parsed.reasons is not None
    assert [reason is None for reason in parsed.reasons.to_pylist()] == [True, False, False]


def test_lines_are_framed_without_blank_ones() -> None:
    framed = frame_lines(b'\r\n {"a":1} \r\n\n{"b":2}')
    assert [framed[i] for i in range(len(framed))] == [b'{"a":1}', b'{"b":2}']
    assert len(frame_lines(b"")) == len(frame_lines(b"\n\n")) == 0
    assert np.array_equal(framed.take(np.array([False, True])).starts, framed.starts[1:])


def test_white_space_of_any_length_is_trimmed_quickly() -> None:
    framed = frame_lines(b" " * 3_000_000 + b"{}" + b"\t" * 3_000_000 + b"\n" + b" " * 3_000_000)
    assert [framed[i] for i in range(len(framed))] == [b"{}"]


@pytest.mark.parametrize("digits", ["5,0", "38,0", "3,3", "38,38", "8,2"])
def test_decimals_of_any_digits_are_judged_alike_alone_and_together(digits: str) -> None:
    (stream,) = parse(f"CREATE STREAM d (x DECIMAL({digits}))").streams.values()
    numbers = ["0", "5", "-5", "99999", "100000", "0.5", "-0.125", "0.1234", "1.0", "1e2", "5.", '"7"', "1" * 38, "NaN"]
    frames_of = frame_lines(b"\n".join(f'{{"x":{number}}}'.encode() for number in numbers))
    parser = Parser(stream)

    def verdicts(start: int, stop: int) -> list[tuple[Any, bool]]:
        parsed = parser.parse(frames_of.slice(start, stop), ARRIVED_US)
        reasons = parsed.reasons.to_pylist() if parsed.reasons is not None else [None] * (stop - start)
        return [(v, r is None) for v, r in zip(parsed.columns["x"].to_pylist(), reasons, strict=True)]

    together = verdicts(0, len(numbers))
    assert together == [verdicts(i, i + 1)[0] for i in range(len(numbers))]
    assert any(good for _, good in together)
    assert not all(good for _, good in together)
