"""Chains of derived streams make the rows that Spark makes of the same SQL over all events, whatever is pruned."""

# ruff: noqa: E501 - one query per line

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.define.catalog import Catalog, parse
from headrace.define.relation import Relation
from headrace.define.relation_rewrites import prune
from headrace.engine.duckdb_relations import rows_sql
from headrace.engine.spark_relations import rows_of
from headrace.engine.time_functions import register
from headrace.types import arrow_type

BASES = """
CREATE STREAM orders (id BIGINT, note STRING, items ARRAY<STRUCT<sku: STRING, qty: INT>>, tags ARRAY<STRING>, labels MAP<STRING, STRING>, place STRUCT<city: STRING, zip: INT>, n INT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
CREATE STREAM taps (who STRING, tags ARRAY<STRING>, n INT, id BIGINT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
"""
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
CATALOG = parse(BASES)
QUERIES = [
    "SELECT *, n / 2 AS half FROM orders WHERE n > 1",
    "SELECT o.* EXCEPT (items), o.place.city, items[0].sku AS sku FROM orders o WHERE note RLIKE 'o'",
    "SELECT id, CASE WHEN n > 2 THEN 'many' ELSE 'few' END AS amount, CAST(n AS STRING) AS n, at FROM orders",
    "SELECT id AS n, n AS id, at FROM orders WHERE id > n",
    "SELECT explode(split(note, ' ')) AS word, at FROM orders WHERE n > 1",
    "SELECT id, word FROM orders LATERAL VIEW explode(split(note, ' ')) t AS word WHERE word <> 'be'",
    "SELECT id, t.p, i.sku AS sku FROM orders LATERAL VIEW OUTER posexplode(items) t AS p, i",
    "SELECT id, k, v FROM orders LATERAL VIEW explode(labels) t AS k, v WHERE k < 'c'",
    "SELECT a.tag AS a, b.tag AS b FROM orders LATERAL VIEW explode(tags) a AS tag LATERAL VIEW OUTER explode(items) b AS tag",
    "SELECT orders.id, t.id AS tag FROM orders LATERAL VIEW explode(tags) t AS id",
    "SELECT id, n + 0.5 AS n FROM orders UNION ALL SELECT id, n FROM taps WHERE n > 0",
    "SELECT note, at FROM orders UNION ALL SELECT who, at FROM taps UNION ALL SELECT tag, at FROM taps LATERAL VIEW explode(tags) t AS tag",
    "WITH a AS (SELECT id, n FROM orders WHERE n > 1), b AS (SELECT id AS x, n AS y FROM a) SELECT y, x FROM b WHERE x <> y",
    "SELECT q.x FROM (SELECT tag AS x, n FROM (SELECT * FROM taps) t LATERAL VIEW explode(t.tags) e AS tag) q WHERE q.n > 0",
    "SELECT * FROM (SELECT id, posexplode(tags) AS (place, tag) FROM orders) WHERE place > 0",
    "SELECT place.*, id FROM orders",
]  # fmt: skip


def events(stream: str) -> pa.Table:
    chance = random.Random(stream)
    rows = []
    for number in range(12):
        texts = ["to be or not to be", "o", "", None, "a b"]
        tags = chance.choice([None, [], ["x"], ["x", None, "y"], ["b", "a"]])
        item = {"sku": chance.choice(["p", "q", None]), "qty": chance.randrange(3)}
        rows.append({
            "id": chance.choice([None, 0, 1, 2, 3]), "note": chance.choice(texts), "who": chance.choice(texts),
            "items": chance.choice([None, [], [item], [item, None, item]]), "tags": tags,
            "labels": chance.choice([None, [], [("a", "1"), ("c", None)]]), "n": chance.choice([None, 0, 1, 2, 3]),
            "place": chance.choice([None, {"city": "Ulm", "zip": 5}]), "at": AT + timedelta(minutes=number),
        })  # fmt: skip
    types = {field.name: field.type for field in CATALOG.streams[stream].fields}
    schema = pa.schema([(name, arrow_type(of)) for name, of in types.items()])
    table = pa.Table.from_pylist([{name: row[name] for name in types} for row in rows], schema)
    return table.append_column("_position", pa.array(range(len(rows)), pa.int64()))


@contextmanager
def tables(spark: Any) -> Iterator[None]:
    for stream in CATALOG.streams:
        spark.createDataFrame(events(stream).drop_columns(["_position"])).createOrReplaceTempView(stream)
    yield
    for stream in CATALOG.streams:
        spark.catalog.dropTempView(stream)


def by_query(spark: Any, query: str) -> tuple[list[str], list[str]]:
    """What Spark makes of the text itself: the names of the columns, and the rows."""
    with tables(spark):
        rows: pa.Table = spark.sql(query).toArrow()
    return rows.column_names, ordered(rows, rows.column_names)


def by_spark(spark: Any, relation: Relation, names: list[str]) -> list[str]:
    frames = [rows_of(spark.createDataFrame(events(s)), CATALOG.streams[s], relation) for s in relation.streams]
    return ordered(
        pa.concat_tables([frame.toArrow().select(names) for frame in frames], promote_options="default"), names
    )


def by_duckdb(relation: Relation, names: list[str]) -> list[str]:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    register(connection)
    parts = []
    for stream in relation.streams:
        connection.register("events", events(stream))
        query = rows_sql(relation, CATALOG.streams[stream], ("_position",), "events")
        parts.append(connection.sql(query).to_arrow_table().select(names))
    connection.close()
    return ordered(pa.concat_tables(parts, promote_options="default"), names)


def ordered(rows: pa.Table, names: list[str]) -> list[str]:
    return sorted(repr([_plain(row[name]) for name in names]) for row in rows.to_pylist())


def _plain(value: Any) -> Any:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else value


def relation_of(catalog: Catalog, name: str) -> Relation:
    relation = catalog.streams[name].relation
    assert relation is not None
    return relation


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_makes_the_rows_that_spark_makes_of_it(spark: Any, query: str) -> None:
    relation = relation_of(parse(f"{BASES} CREATE STREAM d AS {query}"), "d")
    names, rows = by_query(spark, query)
    assert rows, "a case without rows compares nothing"
    assert names == [name for name, _ in relation.fields][: len(names)]
    assert by_spark(spark, relation, names) == rows
    assert by_duckdb(relation, names) == rows
    for name in names:
        assert by_duckdb(prune(relation, [name]), [name]) == by_duckdb(relation, [name])


# Streams of one shape, so that any of them can be united: a number, a text, an array and the event time.
BASE_QUERIES = {
    "orders": "SELECT n AS x, note AS t, tags AS a, at FROM orders",
    "taps": "SELECT n AS x, who AS t, tags AS a, at FROM taps",
}
STEPS = [
    "SELECT * FROM {0} WHERE x > 0",
    "SELECT * FROM {0} WHERE t IS NOT NULL AND t LIKE '%o%' OR x = 1",
    "SELECT x + 1 AS x, upper(t) AS t, a, at FROM {0}",
    "SELECT size(a) AS x, CAST(x AS STRING) AS t, a, at FROM {0}",
    "SELECT coalesce(x, 5) AS x, t, a, at FROM {0} q WHERE q.t <> ''",
    "SELECT x, w AS t, a, at FROM {0} LATERAL VIEW explode(split(t, ' ')) e AS w",
    "SELECT p AS x, e.t AS t, a, at FROM {0} LATERAL VIEW OUTER posexplode(a) e AS p, t",
    "SELECT x, explode(a) AS t, a, at FROM {0}",
    "SELECT q.* FROM {0} q WHERE q.x BETWEEN 0 AND 2",
    "SELECT y AS x, t, b AS a, at FROM (SELECT x AS y, a AS b, t, at FROM {0}) WHERE y < 9",
    "SELECT x, t, a, at FROM {0} UNION ALL SELECT x, t, a, at FROM {1}",
    "SELECT x, t, a, at FROM {0} WHERE x = 1 UNION ALL SELECT length(t), 'u', a, at FROM {1} UNION ALL SELECT * FROM {0}",
    "WITH q AS (SELECT x, t, a, at FROM {0} WHERE x < 3) SELECT * FROM q UNION ALL SELECT * FROM {1}",
]  # fmt: skip


@st.composite
def chains(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Streams by name, each of those before it."""
    streams = list(BASE_QUERIES.items())
    streams = [(f"s_{name}", query) for name, query in streams]
    for number in range(draw(st.integers(1, 6))):
        names = [name for name, _ in streams[-3:]]
        pick = partial(draw, st.sampled_from(names))
        streams.append((f"s{number}", draw(st.sampled_from(STEPS)).format(pick(), pick())))
    return streams


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(chains(), st.sets(st.sampled_from(["x", "t", "a", "at"]), min_size=1))
def test_a_chain_of_streams_is_one_query(spark: Any, streams: list[tuple[str, str]], names: set[str]) -> None:
    definitions = [f"CREATE STREAM {name} AS {query}" for name, query in streams]
    random.Random(len(definitions)).shuffle(definitions)
    relation = relation_of(parse(f"{BASES} {'; '.join(definitions)}"), streams[-1][0])
    queries = ", ".join(f"{name} AS ({query})" for name, query in streams)
    columns = [name for name in ("x", "t", "a", "at") if name in names]
    _, rows = by_query(spark, f"WITH {queries} SELECT {', '.join(columns)} FROM {streams[-1][0]}")
    pruned = prune(relation, columns)
    assert by_duckdb(pruned, columns) == rows
    assert by_duckdb(relation, columns) == rows
    one = relation_of(parse(f"{BASES} CREATE STREAM d AS WITH {queries} SELECT * FROM {streams[-1][0]}"), "d")
    assert one == relation
