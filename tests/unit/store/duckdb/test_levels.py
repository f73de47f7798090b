"""Levels: whatever is asked, reading hours and days gives what reading panes gives; and long spans do read them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.define.model import View, Window
from headrace.store.duckdb import levels
from headrace.store.duckdb.batch_table import make_batch_table
from headrace.store.duckdb.folds import TableSource, few, fold
from headrace.store.duckdb.levels import LevelPart, parts_of
from headrace.store.duckdb.merge_functions import register_functions
from headrace.store.partial_columns import COUNTED
from headrace.store.selection import Selection, fold_in_python
from tests.contracts.store.reference import same_rows
from tests.unit.store.partial_files import make_view, simple_event, write_partials

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
START = 20_000 * DAY
VIEW = make_view("traffic")
NEVER = 1 << 60
FILES = [TableSource("file_0", batch=True), TableSource("file_1", batch=True)]


@pytest.fixture(scope="module")
def connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """Two batch tables of 12 days, with panes just before and behind the ends of hours and days."""
    folder = tmp_path_factory.mktemp("levels")
    chance = random.Random(11)
    times = [chance.randrange(12 * DAY) for _ in range(120)]
    times += [at * DAY + edge for at in range(12) for edge in (-MINUTE, 0, HOUR - MINUTE, HOUR)]
    events = [simple_event(chance.choice("ab"), START + at, n % 23) for n, at in enumerate(times)]
    with duckdb.connect() as opened:
        register_functions(opened)
        opened.execute("SET TimeZone = 'UTC'")
        for i in range(2):
            file = Path(write_partials(folder / f"{i}.parquet", VIEW, events[i::2]))
            make_batch_table(VIEW, folder / f"{i}", partials=[file], earlier=[])
            opened.execute(f"ATTACH '{folder / str(i)}' AS file_{i} (READ_ONLY)")
        yield opened


def presented(view: View, selection: Selection, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    at = 1 + len(selection.by) + len(COUNTED)
    found = []
    for row in rows:
        rest = iter(row[at:])
        found.append(
            (*row[:at], *(c.aggregate.present(tuple(next(rest) for _ in c.aggregate.columns)) for c in view.columns))
        )
    return found


def folded(connection: duckdb.DuckDBPyConnection, selection: Selection) -> list[tuple[Any, ...]]:
    query, parameters = fold(VIEW, FILES, selection)
    return connection.execute(query, parameters).fetchall()


def folded_in_python(connection: duckdb.DuckDBPyConnection, selection: Selection) -> list[tuple[Any, ...]]:
    query, parameters = few(VIEW, FILES, selection, 10_000)
    return fold_in_python(VIEW, selection, connection.execute(query, parameters).fetchall())


bounds = st.none() | st.integers(-HOUR // MINUTE, 13 * DAY // MINUTE).map(lambda at: START + at * MINUTE)
buckets = st.sampled_from([None, MINUTE, HOUR, 90 * MINUTE, 150 * MINUTE, 5 * HOUR, DAY, 36 * HOUR, 2 * DAY, 7 * DAY])
origins = st.sampled_from([0, START, START + HOUR, START + 5 * HOUR]) | bounds.map(lambda at: at or 0)


@given(bounds, bounds, buckets, origins, st.sampled_from([(), ("k0",)]), st.booleans())
def test_results_are_those_of_panes(
    connection: duckdb.DuckDBPyConnection,
    start: int | None,
    end: int | None,
    bucket_ms: int | None,
    origin_ms: int,
    by: tuple[str, ...],
    one_key: bool,
) -> None:
    where = ({"k0": "a"},) if one_key else ()
    selection = Selection(by, where, (start, end), bucket_ms, origin_ms)
    found = []
    for least, read in ((1, folded), (1, folded_in_python), (NEVER, folded_in_python)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(levels, "LEAST", least)
            found.append(presented(VIEW, selection, read(connection, selection)))
    assert same_rows(found[0], found[1])
    assert same_rows(found[1], found[2])


def tables(selection: Selection, pane_ms: int = MINUTE) -> list[str]:
    view = make_view(window=Window(pane_ms, pane_ms))
    return [part.table for part in parts_of(view, selection)]


def test_long_spans_are_read_from_days_and_hours() -> None:
    year = (START, START + 365 * DAY)
    assert parts_of(VIEW, Selection((), bucket_ms=DAY)) == [LevelPart("days", ())]
    assert tables(Selection((), panes=year, bucket_ms=DAY)) == ["days"]
    assert tables(Selection((), panes=year)) == ["days"]
    assert tables(Selection((), panes=year, bucket_ms=HOUR)) == ["hours"]
    assert tables(Selection((), panes=year, bucket_ms=MINUTE)) == ["panes"]
    assert tables(Selection((), panes=(START + MINUTE, START + 365 * DAY - MINUTE))) == [
        "days", "hours", "panes", "hours", "panes",
    ]  # fmt: skip


def test_windows_that_begin_within_an_hour_take_only_their_edges_from_panes() -> None:
    start = START + 7 * MINUTE
    asked = Selection((), panes=(start, start + 365 * DAY), bucket_ms=DAY, origin_ms=start)
    assert set(tables(asked)) == {"hours", "panes"}
    weeks = Selection((), panes=(start, start + 364 * DAY), bucket_ms=7 * DAY, origin_ms=start)
    assert set(tables(weeks)) == {"days", "hours", "panes"}


def test_short_spans_and_other_panes_are_read_from_panes_alone() -> None:
    assert tables(Selection((), panes=(START, START + HOUR))) == ["panes"]
    assert tables(Selection(()), 7 * MINUTE) == ["panes"]
    assert tables(Selection(()), DAY) == ["panes"]
    assert [part.table for part in parts_of(make_view(window=None), Selection(()))] == ["panes"]
