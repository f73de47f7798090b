"""A running stream is loosened: older files read the same, for Spark and for every other reader, and views follow."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.dataset as ds
from deltalake import DeltaTable

from headrace.lake.delta_table import LakeTable
from headrace.lake.table_schema import table_schema

from .bench import Bench

STRICT = "CREATE STREAM s (id INT NOT NULL, big INT, real INT, price DECIMAL(5,2), low DECIMAL(9,0), name STRING)"
LOOSE = "CREATE STREAM s (id INT, big BIGINT, real DOUBLE, price DECIMAL(20,4), low DECIMAL(38,3), name STRING)"
VIEW = """CREATE MATERIALIZED VIEW v AS
SELECT real, count(*) AS n, count(id) AS ids, sum(big) AS big, max(price) AS price, min(low) AS low
FROM s GROUP BY real"""
NAMES = "CREATE MATERIALIZED VIEW names AS SELECT name, count(*) AS n FROM s GROUP BY name"
OLD = [b'{"id":1,"big":2147483647,"real":-2147483648,"price":999.99,"low":-999999999}', b'{"id":2,"name":"b"}']
NEW = [b'{"big":2147483648,"real":0.5,"price":1234.5678,"low":0.001,"name":"b"}', b'{"id":3,"real":-2147483648}']


def commit(bench: Bench, lines: list[bytes], key: str) -> None:
    assert bench.post(lines, key, keep_bad=False).accepted == len(lines)
    bench.commit()


def test_older_files_read_the_same_and_views_follow(spark: Any, tmp_path: Path) -> None:
    bench = Bench(spark, tmp_path, STRICT)
    bench.add_view(VIEW)
    bench.add_view(NAMES)
    commit(bench, OLD, "old")
    bench.maintain()
    assert bench.post(NEW[:1], "bad", keep_bad=False).accepted == 0

    bench.redefine(LOOSE)
    commit(bench, NEW, "new")
    bench.maintain()
    # The version with narrower types stalls rather than round; the one that reads none of them continues.
    assert sum(row["n"] for row in bench.ask("v", random.Random(0))) == 2
    assert {row["name"]: row["n"] for row in bench.ask("names", random.Random(0))} == {None: 2, "b": 2}
    assert bench.answer("v").version == 1

    bench.add_view(VIEW)
    bench.maintain()
    bench.work()
    assert bench.answer("v").version == 2
    rows = bench.ask("v", random.Random(0))
    assert [{name: row[name] for name in row if name in VIEW} for row in rows] == [
        {"real": None, "n": 1, "ids": 1, "big": None, "price": None, "low": None},
        {
            "real": -2147483648.0, "n": 2, "ids": 2, "big": 2147483647, "price": Decimal("999.9900"),
            "low": Decimal("-999999999.000"),
        },
        {"real": 0.5, "n": 1, "ids": 0, "big": 2147483648, "price": Decimal("1234.5678"), "low": Decimal("0.001")},
    ]  # fmt: skip
    check_other_readers(bench)
    bench.close()
    LakeTable(bench.table.folder, bench.stream, fence=2)  # a start with the new definition finds it recorded
    check_other_readers(bench)


def check_other_readers(bench: Bench) -> None:
    folder = str(bench.table.folder)
    schema = table_schema(bench.stream)
    files = [f"{folder}/{file.path}" for file in bench.table.files(0, 2)]
    sql = duckdb.sql(f"SELECT sum(big), sum(price), min(low), min(real) FROM read_parquet({files}, union_by_name=true)")
    assert sql.fetchall() == [(4294967295, Decimal("2234.5578"), Decimal("-999999999.000"), -2147483648.0)]
    delta = DeltaTable(folder)
    assert delta.schema().to_arrow()["big"].type == schema.field("big").type
    for table in (delta.to_pyarrow_table(), ds.dataset(files, schema=schema).to_table()):
        assert sorted(table["big"].to_pylist(), key=str) == [2147483647, 2147483648, None, None]
        assert {str(price) for price in table["price"].to_pylist()} == {"999.9900", "1234.5678", "None"}
