"""A date or time outside of the years 1 to 9999 is NULL wherever an expression makes it, by any function of the table.

Spark's value, DuckDB's and that of plain Python are compared, and what a view answers whose keys, arguments and filters
are such expressions.
"""

from __future__ import annotations

import itertools
from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import orjson
import pytest

from headrace.define.catalog import parse
from headrace.engine.duckdb_terms import duckdb_sql, duckdb_type, refuse_computed
from headrace.engine.time_functions import register
from headrace.language.check import Checker, Scope, parse_expression
from headrace.language.expressions import parse_tree
from headrace.language.functions import TABLE
from headrace.language.source_text import SourceText, escape
from headrace.maintain.partials_job import OUR_COLUMNS, write_partials
from headrace.serve.evaluate import answer
from headrace.serve.freshness import up_to_date
from headrace.serve.question import Question
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.store_contract import Step
from headrace.transport.position import Position
from headrace.types import BIGINT, DATE, INT, STRING, TIMESTAMP, Type

TYPES = {"s": STRING, "i": INT, "b": BIGINT, "y": DATE, "at": TIMESTAMP}
FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
SECOND = timedelta(seconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ENDS: dict[str, list[Any]] = {
    "s": [
        "0001-01-01", "9999-12-31", "10000-01-01", "010000-01-01", "0000-12-31", "-0001-01-01", "+294247-01-10",
        "999999999-12-31",
        "9999-12-31 23:59:59.999999", "9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00", "2024-02-29", "x", None,
    ],
    "i": [0, 1, -1, 2**31 - 1, -(2**31), None],
    "b": [
        0, 2**63 - 1, -(2**63), -62_135_596_800, -62_135_596_801, 253_402_300_799, 253_402_300_800,
        -62_135_596_800_000, -62_135_596_800_001, 253_402_300_799_999, 253_402_300_800_000, -62_135_596_800_000_001,
        253_402_300_799_999_999, 253_402_300_800_000_000, None,
    ],
    "y": [date.min, date.max, date(2024, 2, 29), date(1, 1, 31), date(9999, 11, 30), None],
    "at": [FIRST, LAST, datetime(2024, 2, 29, 12, tzinfo=UTC), FIRST + SECOND, LAST - SECOND, None],
}  # fmt: skip
ARGUMENTS = {
    "STRING": ["s"], "INT": ["i", "1", "-1"], "BIGINT": ["b"], "INTEGER": ["i", "b"], "TIME": ["y", "at"],
    "TIMESTAMP": ["at"], "DATE": ["y"], "STRING|TIME": ["s", "y", "at"], "COUNT": ["1", "-1", "1000", "-1000"],
    "ZONE": ["'Europe/Berlin'", "'Pacific/Auckland'"],
    "UNIT": [f"'{unit}'" for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "millisecond")],
    "FORMAT": ["'yyyy-MM-dd'", "'yyyyyy-MM-dd'"],
    "PATTERN": ["'yyyy-MM-dd'", "'yyyyyy-MM-dd'"],
}  # fmt: skip


def add_months(day: date, months: int) -> date:
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    last = monthrange(year, month + 1)[1]
    return date(year, month + 1, min(day.day, last))


def truncate(unit: str, time: datetime) -> datetime:
    midnight = time.replace(hour=0, minute=0, second=0, microsecond=0)
    match unit:
        case "year":
            return midnight.replace(month=1, day=1)
        case "quarter":
            return midnight.replace(month=(time.month - 1) // 3 * 3 + 1, day=1)
        case "month":
            return midnight.replace(day=1)
        case "week":
            return midnight - timedelta(days=time.weekday())
        case "day":
            return midnight
        case "hour":
            return time.replace(minute=0, second=0, microsecond=0)
        case "minute":
            return time.replace(second=0, microsecond=0)
    return time.replace(microsecond=time.microsecond // 1000 * 1000)


def as_day(value: Any) -> date:
    return value.date() if isinstance(value, datetime) else value


def as_time(value: Any) -> datetime:
    return value if isinstance(value, datetime) else datetime(value.year, value.month, value.day, tzinfo=UTC)


def read_day(text: str) -> date:
    return date.fromisoformat(text[:10])


def read_time(text: str) -> datetime:
    time = datetime.fromisoformat(text)
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def parse_day(value: Any, pattern: str) -> date:
    """Spark accepts a year of as many digits as there are letters; none of these is in the range."""
    if not isinstance(value, str):
        return value
    width = pattern.count("y")
    assert value[width:].count("-") == 2
    assert len(value) == width + 6
    return date.fromisoformat(value)


# A function that is added to the table and returns a date or time needs its expected value here.
PYTHON: dict[str, Callable[..., Any]] = {
    "timestamp_seconds": lambda x: EPOCH + timedelta(seconds=x),
    "timestamp_millis": lambda x: EPOCH + timedelta(milliseconds=x),
    "timestamp_micros": lambda x: EPOCH + timedelta(microseconds=x),
    "to_date": lambda x, *form: as_day(parse_day(x, *form) if form else read_day(x) if isinstance(x, str) else x),
    "to_timestamp": lambda x, *form: (
        as_time(parse_day(x, *form) if form else read_time(x) if isinstance(x, str) else x)
    ),
    "date_trunc": lambda unit, x: truncate(unit, as_time(x)),
    "date_add": lambda x, days: as_day(x) + timedelta(days=days),
    "date_sub": lambda x, days: as_day(x) - timedelta(days=days),
    "add_months": lambda x, months: add_months(as_day(x), months),
    "from_utc_timestamp": lambda x, zone: x.astimezone(ZoneInfo(zone)).replace(tzinfo=UTC),
    "to_utc_timestamp": lambda x, zone: x.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC),
    "last_day": lambda x: as_day(x).replace(day=monthrange(as_day(x).year, as_day(x).month)[1]),
}  # fmt: skip


def makers() -> list[str]:
    """The functions of the table whose result is always a date or time."""
    return [function.name for function in TABLE if function.result in (DATE, TIMESTAMP)]


def calls() -> list[tuple[str, str, tuple[str, ...]]]:
    """Each of them with each kind of argument: the text, the function and the arguments."""
    triples = []
    for function in TABLE:
        if function.name not in makers():
            continue
        needed = tuple(p for p in function.parameters if not (p.optional or p.repeats))
        for parameters in dict.fromkeys([needed, function.parameters]):
            choices = itertools.product(*(ARGUMENTS[p.kind] for p in parameters))
            triples += [(f"{function.name}({', '.join(arguments)})", function.name, arguments) for arguments in choices]
    return triples


def rows() -> list[dict[str, Any]]:
    longest = max(map(len, ENDS.values()))
    # Lengths that share no divisor, so that all pairs occur.
    return [{name: ends[(i + i // len(ends)) % len(ends)] for name, ends in ENDS.items()} for i in range(longest * 8)]


def reference(name: str, arguments: tuple[str, ...], row: dict[str, Any]) -> Any:
    values = [row[a] if a in row else a.strip("'") if a.startswith("'") else int(a) for a in arguments]
    if None in values:
        return None
    try:
        return PYTHON[name](*values)
    except (ValueError, OverflowError, AssertionError):
        return None


def sql_literal(value: Any, of: Type) -> str:
    text = "NULL" if value is None else escape(value if isinstance(value, str) else str(value).removesuffix("+00:00"))
    return f"CAST({text} AS {of})"


@pytest.fixture(scope="module")
def events(spark):
    values = ", ".join(f"({', '.join(sql_literal(row[n], of) for n, of in TYPES.items())})" for row in rows())
    ours = "0L AS _commit, TIMESTAMP '2026-01-01 00:00:00' AS _arrived, TIMESTAMP '2026-01-01 00:00:00' AS _newest"
    frame = spark.sql(f"SELECT *, {ours} FROM VALUES {values} AS v({', '.join(TYPES)})").coalesce(1).cache()
    assert set(OUR_COLUMNS) <= set(frame.columns)
    yield frame
    frame.unpersist()


def stream_and_views(expressions: list[str]):
    """A view of each few expressions: all of them keys, arguments and conditions."""
    fields = ", ".join(f"{name} {of}" for name, of in TYPES.items())
    texts = [f"CREATE STREAM events ({fields})"]
    for number, some in enumerate(chunks(expressions)):
        keys = ", ".join(f"{e} AS k{i}" for i, e in enumerate(some))
        columns = [
            f"min({e}) AS low{i}, max({e}) AS high{i}, count({e}) AS some{i}, "
            f"count(*) FILTER (WHERE {e} > y) AS past{i}"
            for i, e in enumerate(some)
        ]
        names = ", ".join(f"k{i}" for i in range(len(some)))
        condition = " OR ".join(f"{e} IS NULL OR {e} >= '0001-01-01'" for e in some)
        texts.append(
            f"CREATE MATERIALIZED VIEW v{number} AS SELECT {keys}, {', '.join(columns)} FROM events "
            f"WHERE {condition} GROUP BY {names}"
        )
    catalog = parse(";".join(texts))
    return catalog.streams["events"], list(catalog.views.values())


def chunks(items: list[str]) -> list[list[str]]:
    return [items[i : i + 12] for i in range(0, len(items), 12)]


def ask(events: Any, folder: Any, stream: Any, view: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The rows that a view answers over these events, as Python has them and as HTTP shows them."""
    store = DuckStore.open(folder / "store", fence=1)
    store.register(view, "f", {"events": 0})
    with store.snapshot() as snapshot:
        (version,) = snapshot.versions()
    files = write_partials(events, stream, version, folder / "partials")
    store.apply(Step("events", 0, 1, Position.at(0), 0, 0), {(view.name, 1): files})
    reply = answer(store, Question.of(view.name, limit=10_000), up_to_date, EPOCH)
    store.close()
    reply.arrow()
    return reply.rows(), orjson.loads(orjson.dumps(reply.as_dict()))


def check_answers(events: Any, tmp_path: Any, expressions: list[str], target: Callable[[int, dict[str, Any]], Any]):
    """A view has one row for each distinct tuple of values, and all its values equal those of Python."""
    stream, views = stream_and_views(expressions)
    for number, (view, some) in enumerate(zip(views, chunks(expressions), strict=True)):
        (tmp_path / str(number)).mkdir()
        answer_rows, http_reply = ask(events, tmp_path / str(number), stream, view)
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in rows():
            groups.setdefault(tuple(target(12 * number + i, row) for i in range(len(some))), []).append(row)
        assert len(answer_rows) == len(http_reply["rows"])
        assert {tuple(row[f"k{i}"] for i in range(len(some))) for row in answer_rows} == set(groups), some
        for row in answer_rows:
            keys = tuple(row[f"k{i}"] for i in range(len(some)))
            for i, value in enumerate(keys):
                assert (row[f"low{i}"], row[f"high{i}"]) == (value, value), some[i]
                assert row[f"some{i}"] == (0 if value is None else len(groups[keys])), some[i]
                days = [event["y"] for event in groups[keys] if None not in (value, event["y"])]
                assert row[f"past{i}"] == sum(as_time(value) > as_time(day) for day in days), some[i]


def test_every_function_that_makes_a_time_has_a_reference():
    assert set(makers()) == set(PYTHON)
    assert {name for _, name, _ in calls()} == set(makers())


def test_every_function_in_keys_arguments_and_filters(events, tmp_path):
    texts = calls()
    check_answers(
        events, tmp_path, [text for text, _, _ in texts], lambda i, row: reference(texts[i][1], texts[i][2], row)
    )


def plus(value: Any, span: timedelta) -> Any:
    try:
        return None if value is None else value + span
    except OverflowError:
        return None


DAY, CENTURY = timedelta(days=1), timedelta(days=36_500)
FURTHER: dict[str, Callable[[dict[str, Any]], Any]] = {
    "at + INTERVAL 1 DAY": lambda row: plus(row["at"], DAY),
    "at - INTERVAL 1 MILLISECOND": lambda row: plus(row["at"], timedelta(milliseconds=-1)),
    "at + INTERVAL 36500 DAYS": lambda row: plus(row["at"], CENTURY),
    "at - INTERVAL 36500 DAYS": lambda row: plus(row["at"], -CENTURY),
    "CAST(s AS DATE)": lambda row: reference("to_date", ("s",), row),
    "CAST(s AS TIMESTAMP)": lambda row: reference("to_timestamp", ("s",), row),
    "TRY_CAST(s AS DATE)": lambda row: reference("to_date", ("s",), row),
    "TRY_CAST(s AS TIMESTAMP)": lambda row: reference("to_timestamp", ("s",), row),
    "CAST(y AS TIMESTAMP)": lambda row: row["y"] and as_time(row["y"]),
    "CAST(at AS DATE)": lambda row: row["at"] and as_day(row["at"]),
    "coalesce(at + INTERVAL 1 DAY, at)": lambda row: plus(row["at"], DAY) or row["at"],
    "(at + INTERVAL 1 DAY) - INTERVAL 1 DAY": lambda row: plus(plus(row["at"], DAY), -DAY),
    "timestamp_millis(unix_millis(at - INTERVAL 1 DAY))": lambda row: (
        plus(row["at"], -DAY) and truncate("millisecond", plus(row["at"], -DAY))
    ),
}


def test_operators_and_casts_in_keys_arguments_and_filters(events, tmp_path):
    texts, targets = list(FURTHER), list(FURTHER.values())
    check_answers(events, tmp_path, texts, lambda i, row: targets[i](row))


# -- computed fields

REFERENCES = {
    **{text: lambda row, call=(name, arguments): reference(*call, row) for text, name, arguments in calls()},
    **FURTHER,
}


def test_computed_fields():
    database = duckdb.connect()
    register(database)
    database.execute("SET TimeZone = 'UTC'")
    columns = ", ".join(f'"{name}" {duckdb_type(of)}' for name, of in TYPES.items())
    database.execute(f"CREATE TABLE events ({columns})")
    database.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", [list(row.values()) for row in rows()])
    texts = [text for text in REFERENCES if is_computed(text)]
    for text in texts:
        sql = duckdb_sql(parse_expression(text, TYPES), TYPES)
        values = [row[0] for row in database.execute(f"SELECT {sql} FROM events").fetchall()]
        assert values == [REFERENCES[text](row) for row in rows()], text
    names = {text.partition("(")[0] for text in texts}
    assert {function.name for function in TABLE if function.name in makers() and function.duckdb} <= names


def is_computed(text: str) -> bool:
    source = SourceText(text)
    return refuse_computed(Checker(source, Scope(TYPES)).term(parse_tree(source))) is None
