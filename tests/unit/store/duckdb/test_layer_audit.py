"""How DuckDB compares two layers: in portions, or in a process apart, with the same result."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from headrace.define.model import View
from headrace.errors import CorruptionError, UnavailableError
from headrace.store.duckdb.batch_process import compare_in_child
from headrace.store.duckdb.batch_table import make_batch_table
from headrace.store.duckdb.layer_audit import compare
from headrace.store.store_contract import Comparison
from tests import wording
from tests.unit.store.partial_files import Event, make_view, simple_event, write_partials

VIEW = make_view("traffic")


def events_of(count: int = 60) -> list[Event]:
    return [simple_event(f"/{i % 4}" if i % 4 else None, i % 3 * 60_000, i) for i in range(count)]


def batch_of(folder: Path, events: Sequence[Event], view: View = VIEW, files: int = 3) -> list[Path]:
    folder.mkdir()
    return [Path(write_partials(folder / f"{i}.parquet", view, events[i::files])) for i in range(files)]


def speed_of(folder: Path, events: Sequence[Event], view: View = VIEW) -> Path:
    """What a store with these events writes: one row for each (key, pane)."""
    files = batch_of(folder, events, view, files=2)
    make_batch_table(view, folder / "table", partials=files, earlier=[])
    with closing(duckdb.connect(str(folder / "table"), read_only=True)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"COPY panes TO '{folder / 'speed'}' (FORMAT parquet)")
    return folder / "speed"


@pytest.mark.parametrize("most_bytes", [None, 1_300])
def test_rows_are_counted_once_in_one_portion_and_in_many(tmp_path: Path, most_bytes: int | None) -> None:
    events = events_of()
    found = compare(
        VIEW, speed_of(tmp_path / "s", events), batch_of(tmp_path / "b", events[::-1]), most_bytes=most_bytes
    )
    assert found == Comparison(12, 60, ())


def test_apart_it_finds_the_same(tmp_path: Path) -> None:
    events = events_of()
    speed, batch = speed_of(tmp_path / "s", events), batch_of(tmp_path / "b", events[1:])
    found = compare_in_child(VIEW, speed, batch)
    assert found.drift
    assert found == compare(VIEW, speed, batch)
    with wording.raises(UnavailableError):
        compare_in_child(VIEW, speed, batch, stopping=lambda: True)
    speed.write_bytes(b"broken")
    with wording.raises(CorruptionError, "traffic"):
        compare_in_child(VIEW, speed, batch)
