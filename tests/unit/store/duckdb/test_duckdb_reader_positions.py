"""Positions that an older file keeps as numbers are read as positions."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from headrace.store.duckdb.duckdb_reader import open_file
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.transport.position import START, Position
from tests.contracts.store.layers import VIEW, serving
from tests.unit.store.duckdb.older import as_format_4


@pytest.mark.parametrize(("number", "position"), [(30, Position.at(30)), (0, START), (-1, None)])
def test_a_file_whose_positions_are_numbers_is_read_as_it_is_and_upgraded(
    tmp_path: Path, number: int, position: Position | None
) -> None:
    path = tmp_path / "store"
    store = DuckStore.open(path, fence=1)
    store.register(VIEW, "a", {"events": 5})
    store.close()
    as_format_4(
        path,
        "ALTER TABLE versions ALTER COLUMN position TYPE BIGINT USING 0",
        f"UPDATE versions SET position = {number}",
        "UPDATE store_format SET version = 3",
    )
    for open_store in (open_file, partial(DuckStore.open, fence=2), open_file):
        opened = open_store(path)
        assert serving(opened).bases[0].position == position
        opened.close()
