"""Positions that an older file keeps as numbers are read as positions."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from headrace.store.duckdb.store import DuckStore
from headrace.transport.position import START, Position
from tests.contracts.store.layers import VIEW, serving


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
