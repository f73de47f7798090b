"""The id of a key is the same from Python as from Spark, for hostile texts and for every combination with NULL."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

from headrace.aggregate.numeric import Count
from headrace.define.model import Column, Field, Key, Stream, View
from headrace.lake.table_schema import ARRIVED
from headrace.language.terms import Expression
from headrace.maintain.partials_job import partials
from headrace.store.key_ids import key_id_of
from headrace.store.partial_columns import KEY_ID
from headrace.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, decimal

TYPES = {"text": STRING, "flag": BOOLEAN, "small": INT, "large": BIGINT, "day": DATE}
TEXTS = [
    "", "n", "1:a", "null", " a ", "a\tb\r\nc", "a\u0000b", "\u0000", "'\"`\\%_", "ä", "a\u0308", "ß", "İ", "\u200b",
    "\ufeff", "\uffff", "\U0001f600", "\U0010ffff", "日本語", "\u202e", "x" * 70_000, "\U0001f600" * 1000,
]  # fmt: skip
INTS = [0, -1, 2**31 - 1, -(2**31)]
BIGINTS = [0, 10, 2**63 - 1, -(2**63)]
DAYS = [date(1000, 1, 1), date(1582, 10, 4), date(1970, 1, 1), date(2026, 2, 28), date(9999, 12, 31)]


def rows() -> list[tuple[Any, ...]]:
    """Each value together with NULL and with others."""
    some = ("a", True, 1, 1, date(2026, 1, 1))
    rows = [(None,) * 5, some]
    for at, values in enumerate((TEXTS, [True, False], INTS, BIGINTS, DAYS)):
        for value in (*values, None):
            rows += [(*base[:at], value, *base[at + 1 :]) for base in ((None,) * 5, some)]
    return list(dict.fromkeys(rows))


def test_python_and_spark_give_one_id(spark: Any) -> None:
    fields = tuple(Field(name, of) for name, of in TYPES.items())
    keys = tuple(Key(name, Expression.stored(name, of)) for name, of in TYPES.items())
    view = View("v", ("s",), keys, (Column("c", Count()),))
    at = datetime(2026, 1, 1, tzinfo=UTC)
    schema = f"_newest TIMESTAMP, {ARRIVED} TIMESTAMP, " + ", ".join(f"{name} {of}" for name, of in TYPES.items())
    events = spark.createDataFrame([(at, at, *row) for row in rows()], schema)
    partial_rows = partials(events, Stream("s", fields), view, 0).collect()
    ids = {tuple(row[name] for name in TYPES): row[KEY_ID] for row in partial_rows}
    assert len(ids) == len(rows())
    assert len(set(ids.values())) == len(ids)
    for row, key_id in ids.items():
        assert key_id_of(view, dict(zip(TYPES, row, strict=True))) == key_id, row


def test_there_is_none_where_the_text_is_not_certain() -> None:
    def of_one(of: Any, value: Any) -> str | None:
        return key_id_of(View("v", ("s",), (Key("k", Expression.field("k", of)),), ()), {"k": value})

    assert of_one(DOUBLE, 1.0) is None
    assert of_one(decimal(10, 2), 1) is None
    assert of_one(DATE, date(999, 1, 1)) is None
    assert of_one(STRING, "\ud800") is None
    assert of_one(DOUBLE, None) is not None
    assert key_id_of(View("v", ("s",), (Key("k", Expression.field("k", STRING)),), ()), {}) is None
    assert key_id_of(View("v", ("s",), (), ()), {}) == "d41d8cd98f00b204e9800998ecf8427e"
