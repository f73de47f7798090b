"""10,000 generated frames: what the fast parser accepts, the second does too, with equal values; alone or together."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from itertools import islice

import pytest

from headrace.define.catalog import parse
from headrace.define.model import Stream
from headrace.parse.frames import frame_lines
from tests.unit.lake.forms import ARRIVED_US, FORMS, comparable, fast, parsers, second

FRAMES = {"single": 6_000, "nested": 3_600, "maps": 200, "deep maps": 200}
STREAMS = {
    "single": """id BIGINT, word STRING, small INT, ratio DOUBLE, price DECIMAL(8,2), flag BOOLEAN, day DATE,
                 at TIMESTAMP""",
    "nested": """word STRING, tags ARRAY<STRING>, items ARRAY<STRUCT<price: DECIMAL(8,2), on: DATE, at: TIMESTAMP>>,
                 address STRUCT<city: STRING, geo: STRUCT<lat: DOUBLE, lon: DOUBLE>, since: DATE>,
                 grid ARRAY<ARRAY<INT>>""",
    "maps": "id BIGINT, counts MAP<STRING, INT>, texts MAP<STRING, STRING>, days MAP<STRING, ARRAY<STRUCT<on: DATE>>>",
    "deep maps": "id BIGINT, maps ARRAY<MAP<STRING, DOUBLE>>, amounts MAP<STRING, DECIMAL(8,2)>",
}
GOOD = {
    "id": "7", "word": '"w"', "small": "-3", "ratio": "0.5", "price": "12.30", "flag": "false", "day": '"2026-03-01"',
    "at": '"2026-03-01T12:00:00Z"', "tags": '["a", null]', "items": '[{"price": 1.5, "on": "2026-03-01"}, {}]',
    "address": '{"city": "Rome", "geo": {"lat": 1, "lon": 2.5}}', "grid": "[[1], [], null]",
    "counts": '{"a": 1, "b": null}',
    "texts": '{"\\u00e9": "x", "": "y"}', "days": '{"a": [{"on": "2026-03-01"}]}', "maps": '[{"a": 1.5}, null]',
    "amounts": '{"a": 1.50}', "other": "[1, {}]",
}  # fmt: skip
INNER = (
    '"x"', "1", "1.5", "null", "{}", "[]", '"2026-03-01"', '{"on": "2026-02-30"}', '{"lat": 1e999}', '{"a": "b"}',
    "NaN", '{"city": 5, "city": 6}', "true", '"\\ud800"', '{"price": "0.10"}', "-0.0", "1e2", "12345678901234567890",
)  # fmt: skip
PIECES = (
    b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b" ", b"\t", b"\x00", b"\x1f", b"\xff", b"\xc3", b"0", b"-", b".",
    b"e", b"\\u0000", b"\\ud83d", b"\\ude00", b"\\/", b"NaN", b"Inf", b"-Infinity", b"\xef\xbb\xbf", b"null", b"'",
    b"\xf0\x9f\x98\x80", b'"id":1', b'"at":', b"/**/",
)  # fmt: skip


@cache
def stream(name: str) -> Stream:
    (definition,) = parse(f"CREATE STREAM s ({STREAMS[name]})").streams.values()
    return definition


def generate(of: Stream, seed: int) -> Iterator[bytes]:
    """Events of all shapes: good, with one field of some other form, with a field twice, and with bytes changed."""
    chance = random.Random(seed)
    names = [field.name for field in of.fields]
    forms = [form for form in FORMS if form]
    while True:
        event = [(name, GOOD[name]) for name in (*names, "other") if chance.random() < 0.8]
        if chance.random() < 0.6 and event:
            form = chance.choice(forms) if chance.random() < 0.5 else _nested(chance)
            event[chance.randrange(len(event))] = (chance.choice([*names, "other"]), form)
        if chance.random() < 0.1:
            event.append((chance.choice([*names, "other"]), chance.choice(forms)))
        colon = chance.choice([":", ":", " : "])
        line = ("{" + ",".join(f'"{name}"{colon}{form}' for name, form in event) + "}").encode()
        if chance.random() < 0.3:
            at = chance.randrange(len(line))
            line = line[:at] + chance.choice(PIECES) + line[at + chance.randrange(3) :]
        if line.strip() and b"\n" not in line:
            yield line.strip()


def _nested(chance: random.Random) -> str:
    inner = [chance.choice(INNER) for _ in range(chance.randrange(3))]
    if chance.random() < 0.5:
        return "[" + ", ".join(inner) + "]"
    return "{" + ", ".join(f'"{chance.choice(["a", "city", "geo", "on", "price"])}": {item}' for item in inner) + "}"


@pytest.mark.parametrize("name", STREAMS)
def test_the_parsers_agree(name: str) -> None:
    of, accepted, silent = stream(name), 0, 0
    lines = list(islice(generate(of, 4), FRAMES[name]))
    for line in lines:
        verdict, fast_verdict = second(of, line), fast(of, line)
        accepted += not isinstance(verdict, str)
        silent += not isinstance(verdict, str) and fast_verdict is None
        assert fast_verdict is None or fast_verdict == verdict, line
    # The test would be pointless if most frames were refused, or the fast parser rarely had a result.
    assert 0.3 < accepted / len(lines) < 0.9
    assert silent < accepted * 0.1 or name == "deep maps"


@pytest.mark.parametrize("name", STREAMS)
def test_neighbours_do_not_matter(name: str) -> None:
    of = stream(name)
    parser = parsers(of)[2]
    lines = list(islice(generate(of, 5), 2_000))
    for batch in (lines, lines[::-1]):
        parsed = parser.parse(frame_lines(b"\n".join(batch)), ARRIVED_US)
        assert parsed.reasons is not None
        rows = parsed.columns.to_pylist()
        for line, row, reason in zip(batch, rows, parsed.reasons.to_pylist(), strict=True):
            verdict = second(of, line)
            assert reason == (verdict if isinstance(verdict, str) else None), line
            assert reason is not None or comparable(row) == verdict, line
