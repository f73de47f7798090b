"""Rows that relations make of events: Spark and DuckDB make the same ones, in the same places."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from headrace.define.model import Field, Stream
from headrace.define.relation import PLACE, Branch, Explode, Filter, Project, Relation, RowStep, SampleRows
from headrace.engine.duckdb_relations import rows_sql
from headrace.engine.spark_relations import rows_of
from headrace.engine.time_functions import register
from headrace.language.check import parse_expression
from headrace.types import BIGINT, INT, STRING, TIMESTAMP, Type, array, arrow_type, decimal, map_of, struct

ITEM = struct(("sku", STRING), ("qty", INT), ("price", decimal(10, 2)))
FIELDS = {
    "id": BIGINT,
    "note": STRING,
    "items": array(ITEM),
    "tags": array(STRING),
    "labels": map_of(INT),
    "nested": array(array(INT)),
    "at": TIMESTAMP,
}
STREAM = Stream("orders", tuple(Field(name, of) for name, of in FIELDS.items()), "at")
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
OURS = ("_commit", "_position")


def events() -> pa.Table:
    item = {"sku": "a", "qty": 2, "price": Decimal("1.50")}
    rows = [
        {"note": "to be or not", "items": [item, None, {**item, "sku": None}], "tags": ["x", None, "x"]},
        {"note": "", "items": [], "tags": [], "labels": [], "nested": [[], [1, 2], None, [3]]},
        {"note": None, "items": None, "tags": None, "labels": None},
        {"note": " two  spaces ", "labels": [("k", 1), ("l", None), ("ä", -3)], "nested": [[4]]},
    ]
    schema = pa.schema(
        [("_commit", pa.int64()), ("_position", pa.int64()), *((name, arrow_type(of)) for name, of in FIELDS.items())]
    )
    whole = [
        {**dict.fromkeys(FIELDS), **row, "id": at, "at": AT, "_commit": at // 2, "_position": at}
        for at, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(whole, schema)


class Chain:
    """A branch in the making."""

    def __init__(self) -> None:
        self.types: dict[str, Type] = dict(FIELDS)
        self.steps: tuple[RowStep, ...] = ()

    def where(self, condition: str) -> Chain:
        self.steps += (Filter(parse_expression(condition, self.types)),)
        return self

    def select(self, **columns: str) -> Chain:
        made = {name: parse_expression(text, self.types) for name, text in columns.items()}
        self.steps += (Project(tuple(made.items())),)
        self.types = {name: of.type for name, of in made.items()}
        return self

    def sample(self, percent: float, *keys: str) -> Chain:
        self.steps += (SampleRows(percent, 1, tuple(parse_expression(key, self.types) for key in keys)),)
        return self

    def explode(self, values: str, *names: str, outer: bool = False, position: str | None = None) -> Chain:
        of = parse_expression(values, self.types)
        types = (STRING, of.type.inner) if of.type.name == "MAP" else (of.type.inner,)
        self.steps += (Explode(of, names, types, outer, position),)
        self.types |= {**({position: INT} if position else {}), **dict(zip(names, types, strict=True))}
        return self


def relation(*chains: Chain, time: str | None = "at") -> Relation:
    branches = tuple(Branch("orders", tuple(FIELDS.items()), chain.steps) for chain in chains)
    return Relation(branches, tuple(chains[0].types.items()), time)


def by_spark(spark: Any, made: Relation, *, places: bool = True) -> list[dict[str, Any]]:
    frame = spark.createDataFrame(events())
    rows: pa.Table = rows_of(frame, STREAM, made, places=places).toArrow()
    return ordered(rows)


def by_duckdb(made: Relation, *, places: bool = True) -> list[dict[str, Any]]:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    register(connection)
    connection.register("events", events())
    ours = (*OURS, PLACE) if places else OURS
    rows = connection.sql(rows_sql(made, STREAM, ours, "events")).to_arrow_table()
    connection.close()
    return ordered(rows)


def ordered(rows: pa.Table) -> list[dict[str, Any]]:
    names = sorted(rows.column_names)
    values = rows.select(names).to_pylist()
    for row in values:
        if isinstance(row.get("at"), datetime):
            row["at"] = row["at"].astimezone(UTC)
    return sorted(values, key=lambda row: repr((row["_position"], row.get(PLACE), row)))


EMPTY = "size(tags) > 0"
CASES = {
    "filter": lambda: Chain().where("note LIKE '%o%' OR tags IS NULL"),
    "project": lambda: Chain().select(id="id + 1", text="upper(trim(note))", first="tags[0]", at="at"),
    "renamed and swapped": lambda: Chain().select(note="CAST(id AS STRING)", id="length(note)", at="at"),
    "words": lambda: Chain().explode("split(note, ' ')", "word").where("word <> ''").select(word="word", at="at"),
    "structs": lambda: Chain().explode("items", "i").select(sku="i.sku", total="i.qty * i.price", at="at"),
    "outer": lambda: Chain().explode("tags", "tag", outer=True, position="n"),
    "position": lambda: Chain().explode("tags", "tag", position="n"),
    "a map": lambda: Chain().explode("labels", "key", "value", position="n"),
    "an outer map": lambda: Chain().explode("labels", "key", "value", outer=True, position="n"),
    "arrays in arrays": lambda: Chain().explode("nested", "row", position="i").explode("row", "cell", position="j"),
    "two at once": lambda: Chain().explode("tags", "tag", outer=True).explode("labels", "k", "v", outer=True),
    "the name of a column": lambda: Chain().explode("tags", "note").where("note IS NOT NULL"),
    "a sample": lambda: Chain().sample(60),
    "a sample by key": lambda: Chain().explode("tags", "tag", outer=True).sample(50, "note", "upper(tag)"),
    "patterns in each step": lambda: (
        Chain()
        .where("note RLIKE '[a-z]'")
        .select(note="regexp_replace(note, ' +', '_')", tags="split(note, ' ')", at="at")
        .where("note RLIKE '_'")
        .explode("tags", "tag")
        .select(tag="regexp_extract(tag, '(.)$', 1)", at="at")
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_both_engines_make_the_same_rows(spark: Any, case: str) -> None:
    made = relation(CASES[case]())
    rows = by_duckdb(made)
    assert by_spark(spark, made) == rows
    assert rows, "a case without rows compares nothing"
    assert set(rows[0]) == {PLACE, *OURS, *dict(made.fields)}
    places = [(row["_position"], tuple(row[PLACE])) for row in rows]
    assert len(set(places)) == len(places)
    without = by_duckdb(made, places=False)
    assert sorted(map(repr, without)) == sorted(
        repr({name: value for name, value in row.items() if name != PLACE}) for row in rows
    )
    assert len(by_spark(spark, made, places=False)) == len(rows)


def test_branches_of_one_stream_follow_each_other(spark: Any) -> None:
    made = relation(
        Chain().select(word="note", at="at"),
        Chain().explode("split(note, ' ')", "word").select(word="word", at="at"),
    )
    rows = by_duckdb(made)
    assert by_spark(spark, made) == rows
    first = [(row[PLACE], row["word"]) for row in rows if row["_position"] == 0]
    assert first == [([0], "to be or not"), ([1, 0], "to"), ([1, 1], "be"), ([1, 2], "or"), ([1, 3], "not")]
    assert made.repeats


def test_known_rows(spark: Any) -> None:
    """NULL and empty arrays have no elements; OUTER keeps the row with NULL, without a position."""
    outer = relation(Chain().explode("tags", "tag", outer=True, position="n"))
    plain = relation(Chain().explode("tags", "tag", position="n"))
    for rows in (by_duckdb(outer), by_spark(spark, outer)):
        assert [(row["id"], row["tag"], row["n"]) for row in rows] == [
            (0, "x", 0), (0, None, 1), (0, "x", 2), (1, None, None), (2, None, None), (3, None, None),
        ]  # fmt: skip
    for rows in (by_duckdb(plain), by_spark(spark, plain)):
        assert [(row["id"], row["tag"], row["n"]) for row in rows] == [(0, "x", 0), (0, None, 1), (0, "x", 2)]


def test_arrival_is_a_column_where_there_is_no_event_time(spark: Any) -> None:
    chain = Chain()
    chain.types["_arrived"] = TIMESTAMP
    chain.select(hour="date_trunc('HOUR', _arrived)", id="id")
    made = relation(chain, time=None)
    stream = replace(STREAM, event_time=None)
    table = events().append_column("_arrived", pa.array([AT] * 4, arrow_type(TIMESTAMP)))
    rows = rows_of(spark.createDataFrame(table), stream, made).toArrow()
    assert {"_arrived", "_commit", "_position", "hour", "id"} == set(rows.column_names)
    assert {hour.astimezone(UTC) for hour in rows.column("hour").to_pylist()} == {AT}
