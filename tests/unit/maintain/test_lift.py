"""What a worker computes of the events in its memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.define.catalog import parse
from headrace.maintain.lift import LiftedPart, Lifting, close_connection, lift_view, parts_of

STREAM = "CREATE STREAM numbers (n BIGINT);"
VIEW = "CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS many, max(n) AS largest FROM kept;"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[str]:
    yield str(tmp_path)
    close_connection()


def lift(folder: str, query: str, numbers: list[int]) -> LiftedPart:
    catalog = parse(f"{STREAM} CREATE STREAM kept AS {query}; {VIEW}")
    view = lift_view(catalog.streams["numbers"], catalog.views["totals"], 1, 0, None)
    arrived = pa.array([0] * len(numbers), pa.timestamp("us", "UTC"))
    events = pa.table({"n": pa.array(numbers, pa.int64()), "_arrived": arrived})
    (part,) = parts_of([Lifting((view,), folder).run(events)])
    return part


LARGEST = 2**63 - 1
CHAIN = "SELECT n * 2 AS n FROM (SELECT * FROM numbers WHERE {}) WHERE n * 2 > 3 OR n < 0"


def test_an_overflow_in_a_row_that_an_earlier_step_leaves_out_is_none(folder: str) -> None:
    part = lift(folder, CHAIN.format("n < 1000"), [1, 2, 3, LARGEST])
    assert part.error is None
    rows = part.read()
    assert rows is not None
    assert rows.column("_events").to_pylist() == [2]
    assert [rows.column(name).to_pylist() for name in rows.column_names if name.startswith("max")] == [[6]]


@pytest.mark.parametrize(
    "query", [CHAIN.format("n > 1"), "SELECT n AS n, 1 AS one FROM numbers WHERE n + 9 < 1 OR n < 0"]
)
def test_an_overflow_in_a_row_of_the_stream_is_left_to_spark(folder: str, query: str) -> None:
    part = lift(folder, query, [1, 2, 3, LARGEST])
    assert part.error is not None
    assert "Overflow" in part.error
