"""Both parsers apply the same limits to one event, and an event of 10 MB is cheap to check."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.define.catalog import parse
from headrace.parse.block_checks import MOST_VALUES
from headrace.parse.event_parser import Parser
from headrace.parse.frames import frame_lines
from tests.calls import calls_of
from tests.unit.parse.forms import ARRIVED_US, fast, second

SIZE = 10 << 20
MOST_MB = 150
MOST_CALLS = 15 * MOST_VALUES  # a bad MAP takes 11 for each of its values
FULL = f"more than {MOST_VALUES:,} values in one event"
TWICE = "field 'id' appears twice"
(LINES,) = parse("CREATE STREAM s (id BIGINT NOT NULL, word STRING)").streams.values()
(STREAM,) = parse(
    """CREATE STREAM s (id BIGINT NOT NULL, word STRING, price DECIMAL(8,2), tags ARRAY<STRING>,
    counts MAP<STRING, INT>)"""
).streams.values()

# What the event has after its id, and the reason for which it is refused.
HOSTILE: dict[str, tuple[Callable[[], bytes], str | None]] = {
    "small objects": (lambda: b'"other":[' + b'{"a":[1,"]"]},' * (SIZE // 14) + b"0]", FULL),
    "and a name twice": (lambda: b'"id":2,"other":[' + b'{"a":[1,"]"]},' * (SIZE // 14) + b"0]", FULL),
    "an array": (lambda: b'"tags":[' + b'"abc",' * (SIZE // 6) + b"5]", FULL),
    "names": (lambda: b",".join(b'"k%d":1' % i for i in range(SIZE // 12)), FULL),
    "as many objects as may be": (lambda: b'"id":2,"other":[' + b'{"a":{"b":0}},' * 33_000 + b"0]", TWICE),
    "as many names as may be": (lambda: b'"id":2,' + b",".join(b'"%090d":1' % i for i in range(99_000)), TWICE),
    "a bad MAP": (
        lambda: b'"counts":{' + b",".join(b'"%090d":1' % i for i in range(99_000)) + b',"x":true}',
        "field 'counts['x']' takes INT (a whole number), found the boolean true",
    ),
    "depth": (lambda: b'"other":' + b'{"a":' * (SIZE // 5), "nested more than 200 deep"),
    "brackets in a text": (lambda: b'"id":2,"word":"' + b"[,{" * (SIZE // 3) + b'"', TWICE),
    "escapes": (lambda: b'"id":2,"word":"\xf0\x9f\x98\x80' + b"\\n" * (SIZE // 2) + b'"', TWICE),
    "quotes in a text without an end": (
        lambda: b'"other":Inf,"' + b'\\"' * (SIZE // 2),
        "not JSON: unterminated string starting at character 26",
    ),
    "digits": (
        lambda: b'"price":0.' + b"9" * SIZE,
        f"field 'price' takes DECIMAL(8,2), found the number 0.{'9' * 38}…",
    ),
}


@pytest.mark.parametrize("filler", ["0", '"[,{"', r'"\\\",,"', "{}", '{"a":"]"}'])
def test_values_have_one_limit_for_both_parsers(filler: str) -> None:
    # Each has a comma after it, but for the last, and may have a bracket; three more marks stand before them.
    most = (MOST_VALUES - 2) // (1 + filler.startswith("{"))
    for count, good in ((most - 1, True), (most, True), (most + 1, False)):
        frame = b'{"id":1,"other":[' + b",".join([filler.encode()] * count) + b"]}"
        values = {"id": "1", "word": "None"}
        assert fast(LINES, frame) == (values if good else None), count
        assert second(LINES, frame) == (values if good else FULL), count


@pytest.mark.parametrize("shape", HOSTILE)
def test_no_event_is_expensive_to_judge(shape: str) -> None:
    make, reason = HOSTILE[shape]
    parser = Parser(STREAM)
    parser.parse(frame_lines(b'{"id":1,"counts":{"a":1}}\n' * 70 + b"{"), ARRIVED_US)
    frames = frame_lines(b'{"id":1,' + make() + b"}")
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak memory
    before_mb = most_mb()
    assert parser.parse(frames, ARRIVED_US).reasons.to_pylist() == [reason]
    assert most_mb() - before_mb < MOST_MB
    # What grew with the square of 10 MB, inside one call, would not end within the time that a test has.
    assert calls_of(lambda: parser.parse(frames, ARRIVED_US)) < MOST_CALLS


def most_mb() -> float:
    (kb,) = [line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line]
    return int(kb) / 1024
