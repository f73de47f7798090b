"""Batch tables: whatever the split into files, one file with each (key, pane) once, whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.aggregate import REGISTRY
from headrace.define.fingerprint import to_json
from headrace.define.model import Column, View, Window
from headrace.engine.duckdb_terms import duckdb_name
from headrace.errors import CorruptionError, DiskFullError, HeadraceError, UnavailableError
from headrace.faults import VARIABLE
from headrace.store.duckdb.batch_process import make_in_child
from headrace.store.duckdb.batch_table import Made, check_batch_table, make_batch_table
from headrace.store.duckdb.key_ranges import cut
from headrace.store.partial_columns import EVENTS, KEY_ID, PANE, partial_columns, partials_of
from headrace.types import STRING
from tests import wording
from tests.aggregates import every_aggregate
from tests.effort import examples
from tests.unit.store.partial_files import TYPES, Event, make_view, partials, simple_event, write_partials

HOUR, DAY = 3_600_000, 86_400_000
VIEW = make_view("traffic")
SKETCHES = replace(
    VIEW,
    columns=tuple(
        Column(f"c{at}", each) for at, each in enumerate(every_aggregate((REGISTRY["approx_count_distinct"],), TYPES))
    ),
)


def rows_of(path: Path, table: str = "panes") -> list[tuple[Any, ...]]:
    with closing(duckdb.connect(str(path), read_only=True)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        return connection.execute(f"SELECT * FROM {table}").fetchall()


def presented(view: View, path: Path, table: str = "panes") -> dict[Any, Any]:
    """(key, pane) -> events and the presented value of each column."""
    names = [name for name, _ in partials_of(view)]
    found: dict[Any, Any] = {}
    with closing(duckdb.connect(str(path), read_only=True)) as connection:
        chosen = ", ".join([*(duckdb_name(key.name) for key in view.keys), PANE, EVENTS, *map(duckdb_name, names)])
        connection.execute("SET TimeZone = 'UTC'")
        for row in connection.execute(f"SELECT {chosen} FROM {table}").fetchall():
            place = (row[: len(view.keys)], row[len(view.keys)])
            assert place not in found
            by_name = dict(zip(names, row[len(view.keys) + 2 :], strict=True))
            found[place] = row[len(view.keys) + 1], _present(view, by_name)
    return found


def _present(view: View, by_name: dict[str, Any]) -> list[Any]:
    return [
        _rounded(column.aggregate.present(tuple(by_name[name] for name, _ in partial_columns(column.aggregate))))
        for column in view.columns
    ]


def _rounded(value: Any) -> Any:
    """Without the last digits of a DOUBLE, which depend on the order of events."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def expected(view: View, events: list[Event], level_ms: int | None = None) -> dict[Any, Any]:
    level = View(view.name, view.streams, view.keys, view.columns, Window(level_ms, level_ms)) if level_ms else view
    return {
        (group[0], group[1]): (
            group[2],
            [_rounded(c.aggregate.present(p)) for c, p in zip(view.columns, group[4:], strict=True)],
        )
        for group in partials(level, events).values()
    }


def events_of(count: int, keys: int = 5, apart_ms: int = 1_900_000) -> list[Event]:
    return [simple_event(f"/{i % keys}" if i % keys else None, i * apart_ms, i % 17) for i in range(count)]


@settings(max_examples=examples(6))
@given(st.lists(st.lists(st.tuples(st.sampled_from(["a", None, ""]), st.integers(0, 3 * DAY)), max_size=8), max_size=4))
def test_any_split_gives_the_same_rows_and_levels(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[tuple[str | None, int]]]
) -> None:
    folder = tmp_path_factory.mktemp("batch")
    batches = [[simple_event(key, at, at % 7) for key, at in step] for step in steps]
    files = [Path(write_partials(folder / f"{i}.parquet", VIEW, batch)) for i, batch in enumerate(batches)]
    earlier: list[Path] = []
    if len(files) > 1:
        earlier = [folder / "earlier"]
        make_batch_table(VIEW, earlier[0], partials=files[:1], earlier=[])
        files = files[1:]
    made = make_batch_table(VIEW, folder / "table", partials=files, earlier=earlier)
    events = [event for batch in batches for event in batch]
    assert presented(VIEW, folder / "table") == expected(VIEW, events)
    assert presented(VIEW, folder / "table", "hours") == expected(VIEW, events, HOUR)
    assert presented(VIEW, folder / "table", "days") == expected(VIEW, events, DAY)
    assert made == Made(len(expected(VIEW, events)), len(events))


def test_rows_are_sorted_by_key_id_and_pane(tmp_path: Path) -> None:
    files = [Path(write_partials(tmp_path / f"{i}", VIEW, events_of(40)[i::3])) for i in range(3)]
    make_batch_table(VIEW, tmp_path / "table", partials=files, earlier=[])
    for table in ("panes", "hours", "days"):
        places = [(str(row[0]), row[1]) for row in rows_of(tmp_path / "table", table)]
        assert places == sorted(places)


@pytest.mark.parametrize(
    ("window", "levels"),
    [
        (None, []),
        (Window(60_000, 60_000), ["days", "hours"]),
        (Window(HOUR, HOUR), ["days"]),
        (Window(DAY, DAY), []),
        (Window(7 * 60_000, 7 * 60_000), []),
        (Window(7 * HOUR, 7 * HOUR), []),
    ],
)
def test_levels_are_there_where_panes_tile_them(tmp_path: Path, window: Window | None, levels: list[str]) -> None:
    view = make_view("v", window=window)
    file = Path(write_partials(tmp_path / "p", view, events_of(9)))
    make_batch_table(view, tmp_path / "table", partials=[file], earlier=[])
    with closing(duckdb.connect(str(tmp_path / "table"), read_only=True)) as connection:
        tables = connection.execute("SELECT table_name FROM duckdb_tables() ORDER BY 1").fetchall()
    assert [name for (name,) in tables] == sorted(["about", "panes", *levels])


def test_nothing_makes_an_empty_table(tmp_path: Path) -> None:
    assert make_batch_table(VIEW, tmp_path / "table", partials=[], earlier=[]) == Made(0, 0)
    assert check_batch_table(tmp_path / "table", view="traffic", rows=0, events=0) is None


def test_sketches_are_folded_in_slices_of_few_bytes(tmp_path: Path) -> None:
    events = [simple_event(f"/{i % 3}", i * 3_600_000, n) for i in range(60) for n in (i, i + 1)]
    files = [Path(write_partials(tmp_path / f"{i}", SKETCHES, events[i::2])) for i in range(2)]
    with closing(duckdb.connect()) as connection:
        columns = ", ".join([f"CAST({KEY_ID} AS UUID) AS {KEY_ID}", f"* EXCLUDE ({KEY_ID})"])
        source = f"SELECT {columns} FROM read_parquet({[str(file) for file in files]})"
        portions = list(cut(connection, SKETCHES, source, 7_500))
        counts = [
            connection.execute(f"SELECT count(*) FROM ({source}) WHERE {part.condition}").fetchall()[0][0]
            for part in portions
        ]
    assert len(portions) == 6
    assert min(counts) > 0
    assert sum(counts) == 120
    assert any(part.start_ms is not None for part in portions), "one key alone is cut by days"


def test_a_table_made_in_many_portions_is_the_same(tmp_path: Path) -> None:
    events = events_of(70, keys=3)
    files = [Path(write_partials(tmp_path / f"{i}", VIEW, events[i::2])) for i in range(2)]
    make_batch_table(VIEW, tmp_path / "table", partials=files, earlier=[], most_bytes=13_000)
    assert presented(VIEW, tmp_path / "table") == expected(VIEW, events)
    assert presented(VIEW, tmp_path / "table", "days") == expected(VIEW, events, DAY)


@pytest.mark.parametrize("make", [make_batch_table, make_in_child])
def test_a_broken_input_is_named_and_nothing_is_left(tmp_path: Path, make: Callable[..., Made]) -> None:
    good = Path(write_partials(tmp_path / "good.parquet", VIEW, events_of(5)))
    bad = tmp_path / "it's bad.parquet"
    bad.write_bytes(good.read_bytes()[:-100])
    folder = tmp_path / "batch"
    folder.mkdir()
    for inputs in ({"partials": [good, bad], "earlier": []}, {"partials": [good], "earlier": [bad]}):
        with wording.raises(CorruptionError, "traffic"):
            make(VIEW, folder / "table", **inputs)
    with wording.raises(HeadraceError, "traffic"):
        make(VIEW, folder / "table", partials=[tmp_path / "nothing.parquet"], earlier=[])
    assert list(folder.iterdir()) == []


def test_a_full_disk_is_named_and_nothing_is_left(tmp_path: Path, small_disk: Callable[[int], Path]) -> None:
    disk = small_disk(300_000)
    file = Path(write_partials(tmp_path / "p", VIEW, events_of(1000, keys=1000)))
    with wording.raises(DiskFullError):
        make_batch_table(VIEW, disk / "table", partials=[file], earlier=[])
    assert list(disk.iterdir()) == []


def test_apart_it_is_the_same(tmp_path: Path) -> None:
    files = [Path(write_partials(tmp_path / f"{i}", VIEW, events_of(40)[i::2])) for i in range(2)]
    made = make_in_child(VIEW, tmp_path / "one", partials=files, earlier=[])
    assert made == make_batch_table(VIEW, tmp_path / "two", partials=files, earlier=[])
    for table in ("panes", "hours", "days", "about"):
        assert rows_of(tmp_path / "one", table) == rows_of(tmp_path / "two", table)


def test_apart_it_can_be_stopped(tmp_path: Path) -> None:
    file = Path(write_partials(tmp_path / "p", VIEW, events_of(5)))
    with wording.raises(UnavailableError):
        make_in_child(VIEW, tmp_path / "table", partials=[file], earlier=[], stopping=lambda: True)
    assert not (tmp_path / "table").exists()


def test_apart_it_ends_with_who_asked(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "never")  # a file of partials that nobody writes
    job = {"view": to_json(VIEW), "target": str(tmp_path / "table"), "partials": [str(tmp_path / "never")]}
    job |= {"earlier": [], "memory_mb": 100, "threads": 1}
    with subprocess.Popen(
        [sys.executable, "-m", "headrace.store.duckdb.batch_process"], stdin=subprocess.PIPE
    ) as process:
        process.communicate(orjson.dumps(job) + b"\n", timeout=180)
    assert process.returncode == 1


DYING = """
import sys
from pathlib import Path
from headrace.store.duckdb.batch_table import make_batch_table
from tests.unit.store.partial_files import make_view
make_batch_table(make_view("traffic"), Path(sys.argv[2]), partials=[Path(sys.argv[1])], earlier=[])
"""


@pytest.mark.parametrize(("point", "there"), [("load.before_rename", False), ("load.after_rename", True)])
def test_a_table_has_its_name_only_when_it_is_whole(
    tmp_path: Path, run_python: Callable[..., None], point: str, there: bool
) -> None:
    file = Path(write_partials(tmp_path / "p.parquet", VIEW, events_of(5)))
    folder = tmp_path / "batch"
    folder.mkdir()
    run_python(DYING, str(file), str(folder / "table"), code=-9, **{VARIABLE: point})
    assert (folder / "table").exists() is there
    if there:
        assert check_batch_table(folder / "table", rows=5) is None
    make_batch_table(VIEW, folder / "table", partials=[file], earlier=[])
    assert [path.name for path in folder.iterdir()] == ["table"], "what the first one left is gone"


def test_a_glance_tells_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "table"
    wording.check(check_batch_table(path), path)
    file = Path(write_partials(tmp_path / "p", VIEW, events_of(5)))
    make_batch_table(VIEW, path, partials=[file], earlier=[])
    assert check_batch_table(path, view="traffic", rows=5, events=5) is None
    wording.check(check_batch_table(path, view="other", rows=6), path, 5, 6)
    path.write_bytes(path.read_bytes()[:5000])
    wording.check(check_batch_table(path), path)


def test_keys_of_other_views_do_not_matter(tmp_path: Path) -> None:
    view = make_view("pairs", keys=[STRING, STRING])
    events = [
        Event((a, b), at, simple_event(None, 0).values) for at in (0, 60_000) for a, b in (("x", None), ("y", "z"))
    ]
    file = Path(write_partials(tmp_path / "p", view, events))
    make_batch_table(view, tmp_path / "table", partials=[file], earlier=[])
    assert presented(view, tmp_path / "table") == expected(view, events)
