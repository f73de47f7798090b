"""What bad lines cost: how many lines each parser reads, and how many calls that takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from headrace.define.catalog import parse
from headrace.parse.columnar_parser import Columnar
from headrace.parse.event_parser import Parser
from headrace.parse.event_verdict import SecondParser
from headrace.parse.frames import Frames, frame_lines
from headrace.parse.json_objects import PIECE, PROBE
from headrace.parse.uniform_parser import Uniform
from tests.calls import calls_of

(STREAM,) = parse(
    """CREATE STREAM s (id BIGINT NOT NULL, word STRING, small INT, ratio DOUBLE, flag BOOLEAN, at TIMESTAMP NOT NULL,
    WATERMARK FOR at)"""
).streams.values()
ARRIVED_US = 1_800_000_000_000_000
GOOD = [
    b'{"id":%d,"word":"w%d","small":%d,"ratio":%.3f,"flag":true,"at":"2026-03-01T12:00:%02dZ"}'
    % (i, i % 100, i, i / 7, i % 60)
    for i in range(60_000)
]
BAD: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda line: line[:-5],
    "no JSON": lambda line: b"GET " + line[2:-1],
    "wrong type": lambda line: line.replace(b'"small":', b'"small":"x","other":'),
    "out of range": lambda line: line.replace(b'"small":', b'"small":99999999999'),
    "no such time": lambda line: line.replace(b"T12:", b"T25:"),
    "twice": lambda line: line[:-1] + b',"id":5}',
    "not UTF-8": lambda line: line.replace(b'"w', b'"\xff'),
    "missing": lambda line: line.replace(b'"id"', b'"key"'),
}


@pytest.fixture
def lines_read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many lines each parser was given: the two for many lines together, and the slow one for one at a time."""
    counts: Counter[str] = Counter()

    def count(parser: type, method: str, name: str) -> None:
        read = getattr(parser, method)

        def counted(self: Any, frames: Frames | bytes, **options: Any) -> Any:
            counts[name] += len(frames) if isinstance(frames, Frames) else 1
            return read(self, frames, **options)

        monkeypatch.setattr(parser, method, counted)

    count(Uniform, "read", "together")
    count(Columnar, "read", "together")
    count(SecondParser, "refusal", "singly")
    return counts


def parse_lines(lines: list[bytes]) -> int:
    """Parse them; returns how many are refused."""
    reasons = Parser(STREAM).parse(frame_lines(b"\n".join(lines)), ARRIVED_US).reasons
    return 0 if reasons is None else len(reasons) - reasons.null_count


def test_good_lines_are_read_once(lines_read: Counter[str]) -> None:
    assert parse_lines(GOOD) == 0
    assert lines_read == {"together": len(GOOD)}


def test_one_bad_line_costs_little(lines_read: Counter[str]) -> None:
    assert parse_lines([*GOOD[:20_000], b"{", *GOOD[20_001:]]) == 1
    assert lines_read["together"] == len(GOOD), "its neighbours are not read again"
    assert lines_read["singly"] <= PIECE


@pytest.mark.parametrize("kind", BAD)
def test_a_few_bad_lines_cost_little(lines_read: Counter[str], kind: str) -> None:
    few = [BAD[kind](line) if index % 200 == 0 else line for index, line in enumerate(GOOD)]
    assert parse_lines(few) == 300
    assert lines_read["together"] <= len(GOOD) + 300
    assert lines_read["singly"] <= 300 + 10 * PROBE  # those that are bad, and a probe of each block


@pytest.mark.parametrize("kind", BAD)
def test_only_bad_lines_cost_a_bounded_multiple(lines_read: Counter[str], kind: str) -> None:
    bad = [BAD[kind](line) for line in GOOD[:10_000]]
    assert parse_lines(bad) == len(bad)
    assert lines_read["together"] <= 2 * len(bad), "each is tried once by either parser"
    assert lines_read["singly"] <= len(bad) + PROBE
    assert calls_of(lambda: parse_lines(bad)) < 100 * len(bad)  # 73 for a time that is none
