"""The audit: two layers agree on the same events however these were split; anything else is found and shown."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.define.model import View
from headrace.errors import CorruptionError, UnavailableError
from headrace.store.base import CORRECTIONS, Comparison, Drift
from headrace.store.duckdb.apart import compare_apart
from headrace.store.duckdb.batch_table import make_batch_table
from headrace.store.duckdb.compare import compare
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


def drift_of(tmp_path: Path, batch: Sequence[Event], speed: Sequence[Event]) -> dict[str, Drift]:
    found = compare(VIEW, speed_of(tmp_path / "s", speed), batch_of(tmp_path / "b", batch))
    return {drift.column: drift for drift in found.drift}


def test_other_splits_and_orders_of_the_same_events_agree(tmp_path: Path) -> None:
    rnd = random.Random(5)
    events = [
        Event(("k",), 0, {**simple_event("k", 0, n).values, "DOUBLE": rnd.uniform(-1e6, 1e6), "STRING": f"s{n}"})
        for n in range(900)
    ]
    other = rnd.sample(events, len(events))
    found = compare(VIEW, speed_of(tmp_path / "s", events), batch_of(tmp_path / "b", other))
    assert found == Comparison(1, 900, ())


@pytest.mark.parametrize("share", [8, 400_000])
def test_rows_are_counted_once_in_one_slice_and_in_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: int
) -> None:
    monkeypatch.setattr("headrace.store.duckdb.portions.SHARE", share)
    events = events_of()
    found = compare(VIEW, speed_of(tmp_path / "s", events), batch_of(tmp_path / "b", events[::-1]))
    assert found == Comparison(12, 60, ())


def test_a_value_that_differs_is_shown(tmp_path: Path) -> None:
    events = events_of(6)
    other = [*events[:5], simple_event("/1", 120_000, 50)]
    drift = drift_of(tmp_path, events, other)
    assert drift["max_int"] == Drift(
        "max_int", 1, "k0 '/1', pane 1970-01-01T00:02:00Z: 5 by the batch layer, 50 by the speed layer"
    )
    assert "count_all" not in drift
    assert "events" not in drift


@pytest.mark.parametrize("lacking", ["batch", "speed"])
def test_a_row_that_one_layer_lacks_is_found(tmp_path: Path, lacking: str) -> None:
    events = events_of(12)
    more = [*events, simple_event("new", 0, 7), simple_event("new", 0, 8)]
    batch, speed = (events, more) if lacking == "batch" else (more, events)
    found = compare(VIEW, speed_of(tmp_path / "s", speed), batch_of(tmp_path / "b", batch))
    drift = {each.column: each for each in found.drift}
    assert found.rows == 13
    mine, theirs = (0, 2) if lacking == "batch" else (2, 0)
    example = f"k0 'new', pane 1970-01-01T00:00:00Z: {mine} by the batch layer, {theirs} by the speed layer"
    assert drift["events"] == Drift("events", 1, example)
    assert drift["count_all"].example == example
    assert ("NULL by the batch layer" in drift["min_int"].example) is (lacking == "batch")


def test_one_event_twice_is_found_in_its_rows_only(tmp_path: Path) -> None:
    events = events_of()
    drift = drift_of(tmp_path, events, [*events, events[7]])
    assert drift["events"].rows == drift["count_all"].rows == drift["sum_bigint"].rows == 1
    assert "max_int" not in drift
    assert "approx_count_distinct_string" not in drift


def test_corrections_count_unless_patience_changed(tmp_path: Path) -> None:
    events = events_of()
    speed, batch = speed_of(tmp_path / "s", events), batch_of(tmp_path / "b", events, files=1)
    table = pq.read_table(batch[0])
    at = table.column_names.index(CORRECTIONS)
    pq.write_table(table.set_column(at, CORRECTIONS, pa.array([1] * table.num_rows, pa.int64())), batch[0])
    (drift,) = compare(VIEW, speed, batch).drift
    assert (drift.column, drift.rows) == ("corrections", 12)
    assert compare(VIEW, speed, batch, corrections=False).drift == ()


def test_a_layer_without_rows_is_compared_too(tmp_path: Path) -> None:
    nothing, some = speed_of(tmp_path / "n", []), speed_of(tmp_path / "s", events_of())
    assert compare(VIEW, nothing, []) == Comparison(0, 0, ())
    found = compare(VIEW, some, [])
    assert (found.rows, found.events, found.drift[0].column, found.drift[0].rows) == (12, 0, "events", 12)


def test_a_view_of_one_row_is_compared(tmp_path: Path) -> None:
    view = make_view("total", keys=(), window=None)
    events = [Event((), 0, simple_event(None, 0, n).values) for n in range(5)]
    speed = speed_of(tmp_path / "s", events, view)
    assert compare(view, speed, batch_of(tmp_path / "b", events[::-1], view)) == Comparison(1, 5, ())
    drift = compare(view, speed, batch_of(tmp_path / "c", events[1:], view)).drift
    assert drift[0] == Drift("events", 1, "all events: 4 by the batch layer, 5 by the speed layer")


def test_apart_it_finds_the_same(tmp_path: Path) -> None:
    events = events_of()
    speed, batch = speed_of(tmp_path / "s", events), batch_of(tmp_path / "b", events[1:])
    found = compare_apart(VIEW, speed, batch)
    assert found.drift
    assert found == compare(VIEW, speed, batch)
    with pytest.raises(UnavailableError, match="its two layers cannot be compared; found the server is stopping"):
        compare_apart(VIEW, speed, batch, stopping=lambda: True)
    speed.write_bytes(b"broken")
    with pytest.raises(CorruptionError, match=r"view 'traffic': its two layers cannot be compared: file '.*speed'"):
        compare_apart(VIEW, speed, batch)
