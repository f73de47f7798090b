"""The store keeps the position of a version: of one partition or of several, or that it is not known."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from headrace.store.base import Point, Step
from headrace.store.duckdb.store import DuckStore
from headrace.transport.position import START, Position

from .test_duckdb import VIEW, serving


@pytest.mark.parametrize("position", [START, Position.at(10**12), Position((3, 0, 7)), None])
def test_a_position_is_there_after_a_restart(tmp_path: Path, position: Position | None) -> None:
    store = DuckStore.open(tmp_path / "store", fence=1)
    assert store.register(VIEW, "a", 5, Point(0, Position((1, 2)), None)).position == Position((1, 2))
    store.apply(Step("events", 0, 1, position, None, 0), {(VIEW.name, 1): []})
    assert serving(store).position == position
    store.close()
    again = DuckStore.open(tmp_path / "store", fence=2)
    assert serving(again).position == position
    again.close()


@pytest.mark.parametrize(("number", "position"), [(30, Position.at(30)), (0, START), (-1, None)])
def test_a_file_whose_positions_are_numbers_is_read_as_it_is_and_upgraded(
    tmp_path: Path, number: int, position: Position | None
) -> None:
    path = tmp_path / "store"
    store = DuckStore.open(path, fence=1)
    store.register(VIEW, "a", 5)
    store.close()
    with duckdb.connect(str(path)) as connection:
        connection.execute("ALTER TABLE versions ALTER COLUMN position TYPE BIGINT")
        connection.execute("UPDATE versions SET position = ?", [number])
        connection.execute("UPDATE store_format SET version = 3")
    for fence, read_only in ((2, True), (2, False), (3, True)):
        opened = DuckStore.open(path, fence=fence, read_only=read_only)
        assert serving(opened).position == position
        opened.close()
