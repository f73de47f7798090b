"""Functions over rows: both engines give the same rows, and leave out those, and only those, that a call fails for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from headrace.define.catalog import Catalog, load
from headrace.define.fingerprint import from_json, to_json
from headrace.define.relation import Filter, Map, Project, Relation
from headrace.engine.duckdb_relations import rows_sql
from headrace.engine.spark_relations import rows_of
from headrace.engine.udf_calls import give_function
from headrace.language.user_functions import functions_of

CODE = """
import pyarrow as pa
import pyarrow.compute as pc
import headrace as hr

posts = hr.Stream("posts", "id BIGINT, text STRING, likes INT")

@hr.udf("text STRING", gives="words BIGINT, shout BOOLEAN")
def measure(text):
    for each in text.to_pylist():
        if each == "bad":
            raise ValueError("a bad text")
    words = pc.list_value_length(pc.split_pattern(text, " "))
    return pa.table({"words": words, "shout": pc.equal(text, pc.utf8_upper(text))})

@hr.udf("number BIGINT", gives="BIGINT")
def doubled(number):
    if pc.any(pc.equal(number, 13)).as_py():
        raise KeyError("thirteen")
    return pc.multiply(number, 2)

@hr.udf("number BIGINT", gives="BIGINT")
def present(number):
    return number.drop_null()
"""
STREAMS = {
    "map": "posts.map(measure)",
    "map with arguments": "posts.where('likes > 0').map('measure', \"concat(text, ' x')\", as_='m').select('id', 'm')",
    "one value": "posts.map(doubled, 'id', as_='twice')",
    "in select": "posts.select('id', n='doubled(id) + doubled(likes)')",
    "in where": "posts.where('doubled(id) > 50')",
    "nested": "posts.select('id', n='doubled(doubled(id))', words='measure(text).words')",
    "after another": "posts.map(measure).where('doubled(words) > 2').with_columns(id='present(id)')",
}
TEXTS = ["one two", "bad", None, "", "LOUD", "a b c", "ä ö", "bad"]


def events(rows: int = 200) -> pa.Table:
    ids = [None if i % 17 == 0 else i for i in range(rows)]
    columns = {"_position": (range(rows), pa.int64()), "id": (ids, pa.int64()),
               "text": ([TEXTS[i % len(TEXTS)] for i in range(rows)], pa.string()),
               "likes": ([i % 5 for i in range(rows)], pa.int32())}  # fmt: skip
    return pa.table({name: pa.array(list(values), of) for name, (values, of) in columns.items()})


def catalog(folder: Path) -> Catalog:
    lines = [f"hr.Stream('s{at}', {query})" for at, query in enumerate(STREAMS.values())]
    (folder / "posts.py").write_text("\n".join([CODE, *lines]))
    return load(folder)


def by_duckdb(made: Relation, stream: Any, names: tuple[str, ...] = ("_position",)) -> list[dict[str, Any]]:
    connection = duckdb.connect()
    sql = rows_sql(made, stream, names, "events")
    for function in functions_of(made.calling()):
        give_function(connection, function)
    connection.register("events", events())
    rows = connection.sql(sql).to_arrow_table()
    connection.close()
    return sorted(rows.to_pylist(), key=lambda row: row["_position"])


def expected(case: str) -> list[int]:
    """The positions of the rows that no call fails for, by plain Python."""
    kept = []
    for row in events().to_pylist():
        number, text, likes, at = row["id"], row["text"], row["likes"], row["_position"]
        good = {
            "map": text != "bad",
            "map with arguments": likes > 0,
            "one value": number != 13,
            "in select": number != 13 and likes != 13,
            "in where": number is not None and number != 13 and number * 2 > 50,
            "nested": number != 13 and text != "bad",
            "after another": text not in ("bad", None) and 2 * len(text.split(" ")) > 2 and number is not None,
        }[case]
        if good:
            kept.append(at)
    return kept


@pytest.mark.parametrize("case", STREAMS)
def test_both_engines_make_the_same_rows_without_those_that_fail(spark: Any, case: str, tmp_path: Path) -> None:
    streams = catalog(tmp_path).streams
    made = streams[f"s{list(STREAMS).index(case)}"].relation
    assert made is not None
    rows = by_duckdb(made, streams["posts"])
    assert [row["_position"] for row in rows] == expected(case)
    frame = rows_of(spark.createDataFrame(events()), streams["posts"], made)
    assert sorted(frame.toArrow().to_pylist(), key=lambda row: row["_position"]) == rows


def test_equal_calls_are_made_once_and_definitions_are_read_back(tmp_path: Path) -> None:
    streams = catalog(tmp_path).streams
    stream = streams[f"s{list(STREAMS).index('map')}"]
    assert stream.relation is not None
    (branch,) = stream.relation.branches
    assert [type(step) for step in branch.steps] == [Map, Project]
    assert [str(field.type) for field in stream.fields] == ["BIGINT", "STRING", "INT", "BIGINT", "BOOLEAN"]
    assert from_json(to_json(stream)) == stream
    where = streams[f"s{list(STREAMS).index('in where')}"].relation
    assert where is not None
    assert [type(step) for step in where.branches[0].steps] == [Map, Filter]
