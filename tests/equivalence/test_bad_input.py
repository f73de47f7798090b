"""100,000 events, one in a hundred bad in each of many ways: all accounted for, each with its reason, answers exact."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.equivalence.bench import Bench

EVENTS = 100_000
STREAM = """CREATE STREAM events (
  id BIGINT NOT NULL, word STRING, small INT, ratio DOUBLE, price DECIMAL(8,2), flag BOOLEAN, day DATE,
  tags ARRAY<STRING>, place STRUCT<city: STRING, lat: DOUBLE>, counts MAP<STRING, INT>,
  at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE)"""
VIEW = """CREATE MATERIALIZED VIEW v AS
SELECT word, count(*) AS n, sum(small) AS small, sum(price) AS price, count(day) AS days, max(place.lat) AS lat,
       sum(counts['a']) AS counted, count(*) FILTER (WHERE tags[0] = 'x') AS tagged
FROM events GROUP BY word, window(at, '1 hour')"""
COLUMNS = ("n", "small", "price", "days", "lat", "counted", "tagged")
WORDS = (None, "", "a", "é", "\u0000", "日本", 'q"uote')
_TIMESTAMP = "field 'at' takes TIMESTAMP in ISO 8601"


def _with(**changes: str) -> Any:
    """The event with raw JSON in place of some fields."""

    def change(event: dict[str, Any]) -> bytes:
        plain = {name: json.dumps(value) for name, value in event.items()} | changes
        return ("{" + ", ".join(f'"{name}": {text}' for name, text in plain.items()) + "}").encode()

    return change


def _text(event: dict[str, Any]) -> bytes:
    return json.dumps(event).encode()


# A way to be bad, and what its reason begins with.
BAD: dict[str, tuple[Any, str]] = {
    "cut off": (lambda e: _text(e)[:-9], "not JSON: "),
    "no JSON": (lambda e: b"GET /index.html 200", "not JSON: expecting value at character 1"),
    "a comma too many": (lambda e: _text(e)[:-1] + b",}", "not JSON: "),
    "two on a line": (lambda e: _text(e) * 2, "not JSON: extra characters after it"),
    "first of two lines": (lambda e: b'{"id": 1,', "not JSON: "),
    "second of two lines": (lambda e: b'"word": "x"}', "not JSON: extra characters after it"),
    "no object": (lambda e: b"[" + _text(e) + b"]", "expected a JSON object, found an array"),
    "null": (lambda e: b"null", "expected a JSON object, found null"),
    "not UTF-8": (lambda e: _text(e)[:-1] + b', "other": "\xff"}', "not UTF-8 at byte "),
    "half a character": (_with(word=r'"\ud800"'), "field 'word' contains half of a surrogate pair"),
    "no key": (lambda e: _text({k: v for k, v in e.items() if k != "id"}), "field 'id' is missing or null"),
    "null key": (_with(id="null"), "field 'id' is missing or null"),
    "twice": (lambda e: _text(e)[:-1] + b', "id": 5}', "field 'id' appears twice"),
    "text for a number": (_with(id='"5"'), "field 'id' takes BIGINT (a whole number), found the string"),
    "fraction": (_with(small="5.0"), "field 'small' takes INT (a whole number), found the number 5.0"),
    "out of range": (_with(small="2147483648"), "field 'small' takes INT (-2147483648 to 2147483647)"),
    "not a number": (_with(ratio="NaN"), "field 'ratio' takes DOUBLE (finite), found the number NaN"),
    "too big": (_with(ratio="1e400"), "field 'ratio' takes DOUBLE (finite), found the number 1e400"),
    "too exact": (_with(price="1.255"), "field 'price' takes DECIMAL(8,2), found the number 1.255"),
    "not a boolean": (_with(flag="1"), "field 'flag' takes BOOLEAN (true or false), found the number 1"),
    "no such day": (_with(day='"2026-02-30"'), "field 'day' takes DATE"),
    "wrong element": (_with(tags='["x", 5]'), "field 'tags[1]' takes STRING, found the number 5"),
    "wrong part": (_with(place='{"lat": "x"}'), "field 'place.lat' takes DOUBLE, found the string \"x\""),
    "wrong value": (_with(counts='{"a": 1, "b": true}'), "field 'counts['b']' takes INT"),
    "epoch number": (_with(at="1740830400000"), f"{_TIMESTAMP}; an epoch number needs a computed field"),
    "year 0": (_with(at='"0000-01-01T00:00:00Z"'), _TIMESTAMP),
    "year 1": (_with(at='"0001-01-01T00:00:00Z"'), "event time 'at' is before 1970"),
    "year 9999": (_with(at='"9999-12-31T23:59:59Z"'), "event time 'at' is more than a day after arrival"),
    "too deep": (_with(other="[" * 300 + "]" * 300), "nested more than 200 deep"),
}


def make_event(chance: random.Random, number: int) -> dict[str, Any]:
    return {
        "id": number,
        "word": chance.choice(WORDS),
        "small": chance.choice([None, -5, 7, 2**31 - 1]),
        "ratio": chance.choice([None, 0.1, -1e300]),
        "price": chance.choice([None, 1.25, "0.10", 999999.99]),
        "flag": chance.choice([None, True, False]),
        "day": chance.choice([None, "2026-02-28", "0001-01-01"]),
        "tags": chance.choice([None, [], ["x", None], ["y"]]),
        "place": chance.choice([None, {}, {"city": "Rome", "lat": chance.randrange(90) / 2}]),
        "counts": chance.choice([None, {}, {"a": chance.randrange(5)}, {"b": 1, "a": None}]),
        "at": f"2026-03-0{chance.randrange(1, 4)}T{chance.randrange(24):02}:{chance.randrange(60):02}:00Z",
        "unknown": chance.choice(["\ud83d\ude00", {"deep": [1, {"x": None}]}, 1e40]),
    }


@pytest.fixture(scope="module")
def lines() -> list[tuple[bytes, str | None, dict[str, Any]]]:
    """Each line, the way in which it is bad, and the event it is made from."""
    chance = random.Random(8)
    kinds = [*BAD, *([None] * (100 - len(BAD)))]
    rows: list[tuple[bytes, str | None, dict[str, Any]]] = []
    for number in range(EVENTS):
        event, kind = make_event(chance, number), kinds[number % 100]
        rows.append((BAD[kind][0](event) if kind else _text(event), kind, event))
    chance.shuffle(rows)
    return rows


def reference(lines: list[tuple[bytes, str | None, dict[str, Any]]]) -> dict[tuple[Any, str], tuple[Any, ...]]:
    """The view of the good events, with dictionaries and loops."""
    rows: dict[tuple[Any, str], list[Any]] = defaultdict(lambda: [0, None, None, 0, None, None, 0])
    for _, kind, event in lines:
        if kind is not None:
            continue
        row = rows[event["word"], event["at"][:13]]
        price = None if event["price"] is None else Decimal(str(event["price"])).quantize(Decimal("0.01"))
        lat, counted = (event["place"] or {}).get("lat"), (event["counts"] or {}).get("a")
        row[0] += 1
        for index, value in ((1, event["small"]), (2, price), (5, counted)):
            row[index] = row[index] if value is None else (row[index] or 0) + value
        row[3] += event["day"] is not None
        row[4] = row[4] if lat is None else max(lat, row[4] or 0.0)
        row[6] += (event["tags"] or [None])[0] == "x"
    return {key: tuple(row) for key, row in rows.items()}


def answers(bench: Bench) -> dict[tuple[Any, str], tuple[Any, ...]]:
    rows = bench.ask("v", random.Random(1))
    return {
        (row["word"], row["window_start"].isoformat()[:13]): tuple(row[column] for column in COLUMNS) for row in rows
    }


def test_bad_events_are_refused(spark: Any, tmp_path: Path, lines: list[Any]) -> None:
    bench = Bench(spark, tmp_path, STREAM)
    try:
        accepted, reasons = 0, Counter[str]()
        for at in range(0, EVENTS, 3_000):  # few enough that the reply holds every reason
            batch = lines[at : at + 3_000]
            reply = bench.post([line for line, _, _ in batch], key=str(at), keep_bad=False)
            accepted += reply.accepted
            assert reply.accepted + len(reply.refused) == len(batch)
            for refusal in reply.refused:
                kind = batch[refusal["index"]][1]
                assert kind, (batch[refusal["index"]], refusal)
                assert refusal["reason"].startswith(BAD[kind][1])
                reasons[kind] += 1
        assert reasons == Counter(dict.fromkeys(BAD, EVENTS // 100))
        assert accepted + reasons.total() == EVENTS
        bench.commit()
        assert (bench.table.rows(dead=False), bench.table.rows(dead=True)) == (accepted, 0)
        # The rest of the way is the same for both; the next test covers it.
        stored = Counter(value for value, _ in bench.lines(dead=False))
        assert stored == Counter(line for line, kind, _ in lines if not kind)
    finally:
        bench.close()


def test_bad_events_become_dead_letters(spark: Any, tmp_path: Path, lines: list[Any]) -> None:
    bench = Bench(spark, tmp_path, STREAM)
    try:
        bench.add_view(VIEW)
        reply = bench.post([line for line, _, _ in lines], key="all", keep_bad=True)
        assert (reply.accepted, reply.refused) == (EVENTS, [])
        bench.commit()
        starts = {line: BAD[kind][1] for line, kind, _ in lines if kind}
        assert bench.table.rows(dead=False) + bench.table.rows(dead=True) == EVENTS
        letters: Counter[bytes] = Counter()
        for value, reason in bench.lines(dead=True):
            assert (reason or "").startswith(starts[value])
            letters[value] += 1
        assert letters == Counter(line for line, kind, _ in lines if kind)
        stored = Counter(value for value, _ in bench.lines(dead=False))
        assert stored == Counter(line for line, kind, _ in lines if not kind)
        bench.maintain()
        assert answers(bench) == reference(lines)
    finally:
        bench.close()


def test_events_of_ten_megabytes_pass(spark: Any, tmp_path: Path) -> None:
    size = 10 << 20
    good = [
        b'{"id":1,"word":"' + b"x" * size + b'","at":"2026-03-01"}',
        b'{"id":2,"other":[' + b'{"a":["%b","]"]},' % (b"x" * 440) * (size // 456) + b'0],"at":"2026-03-01"}',
        b'{"id":3,"tags":[' + b'"%b",' % (b"x" * 125) * (size // 128) + b'null],"at":"2026-03-01"}',
    ]
    bad = [
        b'{"id":4,"word":"' + b"x" * size,
        b"[" * size,
        b'{"id":6,"other":[' + b'{"a":[1,"]"]},' * (size // 14) + b'0],"at":"2026-03-01"}',
        b'{"id":5,"at":"2026-03-01","other":"' + b"\xff" * size + b'"}',
    ]
    bench = Bench(spark, tmp_path, STREAM)
    try:
        bench.add_view(
            """CREATE MATERIALIZED VIEW w AS
            SELECT id, sum(length(word)) AS n, max(size(tags)) AS m FROM events GROUP BY id"""
        )
        bench.post(good + bad, key="big", keep_bad=True)
        bench.commit()
        assert sorted(value for value, _ in bench.lines(dead=False)) == sorted(good)
        dead = dict(bench.lines(dead=True))
        assert sorted(dead) == sorted(bad)
        assert all(reason and len(reason) < 300 for reason in dead.values())
        bench.maintain()
        rows = {row["id"]: (row["n"], row["m"]) for row in bench.ask("w", random.Random(1))}
        assert rows == {1: (size, None), 2: (None, None), 3: (None, size // 128 + 1)}
    finally:
        bench.close()
