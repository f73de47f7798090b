"""Random streams of events and random views over them, from a seed."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from headrace.aggregate import REGISTRY
from headrace.language.terms import Expression
from headrace.language.token_cursor import parse_type
from headrace.types import BOOLEAN
from tests.aggregates import argument_counts, parameters

from .reference import Event, Output, Sessions, Shape, Term

STREAM = """CREATE STREAM events (
  id BIGINT NOT NULL, word STRING, small INT, big BIGINT, ratio DOUBLE, price DECIMAL(12,2), flag BOOLEAN, day DATE,
  at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 30 SECONDS);"""
BASE = datetime(2026, 3, 1, 12, tzinfo=UTC)
LAST_DAYS = (date.max - BASE.date()).days + 1  # the day before it is followed by the last day, its own day by none
WORDS = [None, "", "a", "b", "Zebra", "naïve", "日本", "x" * 40, 'it\'s "quoted" \\ `x`', "a\nb"]


def term(sql: str, of: str) -> Term:
    return Term(sql, lambda event: event[sql], of)


FIELDS = [
    term("word", "STRING"),
    term("small", "INT"),
    term("big", "BIGINT"),
    term("ratio", "DOUBLE"),
    term("price", "DECIMAL(12,2)"),
    term("flag", "BOOLEAN"),
    term("day", "DATE"),
    term("at", "TIMESTAMP"),
]


def _some(fn: Any, *names: str) -> Any:
    """SQL's way: NULL in, NULL out."""
    return lambda e: None if any(e[n] is None for n in names) else fn(*(e[n] for n in names))


def _days_later(day: date, days: int) -> date | None:
    """NULL after the last day."""
    return day + timedelta(days=days) if (date.max - day).days >= days else None


EXPRESSIONS = [
    Term("upper(word)", _some(str.upper, "word"), "STRING"),
    Term("length(word)", _some(len, "word"), "INT"),
    Term("coalesce(small, -1)", lambda e: -1 if e["small"] is None else e["small"], "INT"),
    Term("small * 2", _some(lambda x: x * 2, "small"), "INT"),
    Term("CAST(small AS BIGINT) * 3", _some(lambda x: x * 3, "small"), "BIGINT"),
    Term("CASE WHEN small > 0 THEN 'up' WHEN small < 0 THEN 'down' END",
         lambda e: None if not e["small"] else "up" if e["small"] > 0 else "down", "STRING"),
    Term("small > 0", _some(lambda x: x > 0, "small"), "BOOLEAN"),
    Term("hour(at)", lambda e: e["at"].hour, "INT"),
    Term("regexp_extract(word, '([a-z]|ï)+$', 0)", _some(lambda x: re.search(r"[a-zï]*\Z", x)[0], "word"), "STRING"),
    Term(f"date_add(day, {LAST_DAYS})", _some(lambda x: _days_later(x, LAST_DAYS), "day"), "DATE"),
]  # fmt: skip
CONDITIONS = [
    Term("small > 0", _some(lambda x: x > 0, "small"), "BOOLEAN"),
    Term("flag", lambda e: e["flag"], "BOOLEAN"),
    Term("word IS NOT NULL", lambda e: e["word"] is not None, "BOOLEAN"),
    Term("price >= 0 OR flag", lambda e: _or(None if e["price"] is None else e["price"] >= 0, e["flag"]), "BOOLEAN"),
    Term("word IN ('a', 'b')", _some(lambda x: x in ("a", "b"), "word"), "BOOLEAN"),
    Term("word NOT RLIKE '^(a|b)*$'", _some(lambda x: bool(re.search("[^ab]", x)), "word"), "BOOLEAN"),
    Term("10 / small > 2", _some(lambda x: None if x == 0 else 10 / x > 2, "small"), "BOOLEAN"),
]
KEYS = [term("word", "STRING"), term("flag", "BOOLEAN"), term("day", "DATE"), *EXPRESSIONS]
USUAL_OUTPUTS = 16  # of a view: with all aggregates at once, Spark would spend minutes on its code
WINDOWS: list[tuple[int, int] | Sessions | None] = [
    *(None, (60_000, 60_000), (300_000, 60_000), (7_000, 3_000), (3_600_000, 3_600_000), (90_000, 60_000)),
    *(Sessions(7_000), Sessions(60_000), Sessions(20_000, 240_000)),
]


def _or(a: bool | None, b: bool | None) -> bool | None:
    if a is True or b is True:
        return True
    return None if a is None or b is None else False


def make_events(chance: random.Random, count: int) -> list[Event]:
    """Events that come out of order, some hours or days late, many NULL, some duplicated except for their id.

    In some streams most events are of one kind: a key and a minute that are hot.
    """
    events: list[Event] = []
    hot = chance.choice([0.0, 0.0, 0.8])
    for i in range(count):
        if events and chance.random() < max(hot, 0.05):
            again = {**events[0], "small": chance.randint(-9, 9)} if hot else chance.choice(events)
            events.append({**again, "id": i})
            continue
        late = chance.choice([0, 0, 0, chance.uniform(0, 90), chance.uniform(0, 3 * 3600)])
        if chance.random() < 0.02:
            late += 86_400 * chance.randint(1, 3)
        at = BASE + timedelta(seconds=i / max(count, 1) * 600 - late)
        events.append(
            {
                "id": i,
                "word": chance.choice(WORDS),
                "small": chance.choice([None, 0, chance.randint(-50, 50), chance.randint(-(2**30), 2**30)]),
                "big": chance.choice(
                    [None, chance.randint(-9, 9), 2**63 - 1, -(2**63), chance.randint(-(2**62), 2**62)]
                ),
                "ratio": chance.choice([None, 0.1, -0.0, 1e300, chance.uniform(-1e6, 1e6), chance.gauss(0, 1)]),
                "price": chance.choice([None, Decimal(chance.randint(-(10**11), 10**11)) / 100, Decimal("0.01")]),
                "flag": chance.choice([None, True, False]),
                "day": chance.choice([None, date(2026, 3, 1), date(1970, 1, 1), date(2026, 2, 28)]),
                "at": at.replace(microsecond=at.microsecond // 1000 * 1000),
            }
        )
    return events


def to_json(event: Event, chance: random.Random) -> bytes:
    """The event as a client might write it: order of fields, NULLs left out or not, zones."""
    items = [(name, value) for name, value in event.items() if value is not None or chance.random() < 0.5]
    chance.shuffle(items)
    members = []
    for name, value in items:
        match value:
            case datetime():
                zone = chance.choice(["Z", "+00:00", "", "+02:00"])
                local = value + timedelta(hours=2) if zone == "+02:00" else value
                text = json.dumps(local.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + zone)
            case date():
                text = json.dumps(value.isoformat())
            case Decimal():
                text = chance.choice([str(value), json.dumps(str(value))])
            case _:
                text = json.dumps(value, ensure_ascii=chance.random() < 0.5)
        members.append(f"{json.dumps(name)}:{text}")
    if chance.random() < 0.1:
        members.append('"unknown":{"a":[1,2,{"b":null}]}')
    return ("{" + ", ".join(members) + "}").encode()


BAD = [b"{", b'{"id":"x","at":"2026-03-01T12:00:00Z"}', b'{"id":1}', b"[]", b"null", b'{"id":1,"at":5}',
       b'{"id":1,"at":"1900-01-01T00:00:00Z"}', b"\xff\xfe",
       b'{"id":1,"at":"2026-03-01T12:00:00Z","small":1.5}']  # fmt: skip


def make_shape(chance: random.Random, name: str, most: int | None = None) -> Shape:
    """A view with aggregates of the registry, over arguments that they take; or with at most this many of them."""
    outputs = _outputs(chance)
    count = min(USUAL_OUTPUTS, len(outputs)) if most is None else chance.randint(1, most)
    outputs = chance.sample(outputs, count)
    return Shape(name, make_keys(chance), chance.choice(WINDOWS), make_where(chance), tuple(outputs))


def make_keys(chance: random.Random) -> tuple[tuple[str, Term], ...]:
    keys = chance.sample(KEYS, chance.choice([0, 1, 1, 2]))
    return tuple((f"k{i}", key) for i, key in enumerate(keys))


def make_where(chance: random.Random) -> Term | None:
    return chance.choice([None, None, chance.choice(CONDITIONS)])


def make_output(chance: random.Random, name: str) -> Output:
    return replace(chance.choice(_outputs(chance)), name=name)


def _outputs(chance: random.Random) -> list[Output]:
    """Each aggregate over up to two choices of arguments that it takes, and over none if it can."""
    outputs = []
    for index, cls in enumerate(REGISTRY.values()):
        choices = []
        for arguments in argument_counts(cls):
            fits = [[t for t in FIELDS + EXPRESSIONS if a.kind.takes(parse_type(t.type))] for a in arguments]
            choices += [tuple(chance.choice(terms) for terms in fits) for _ in range(2)]
        choices += [()] if all(argument.optional for argument in cls.takes) else []
        for sub, terms in enumerate(choices):
            where, constants = make_where(chance), chance.choice(parameters(cls))
            arguments = tuple(Expression.stored(term.sql, parse_type(term.type)) for term in terms)
            condition = Expression.stored(where.sql, BOOLEAN) if where else None
            if cls.refuse(arguments, constants) is None:
                outputs.append(Output(f"c{index}_{sub}", cls(arguments, condition, constants), terms, where))
    return outputs
