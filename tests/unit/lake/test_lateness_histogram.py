"""Lateness of events: histograms, their sums and quantiles, and a record that any split of the work leaves the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.define.catalog import parse
from headrace.format import EPOCH
from headrace.lake.delta_table import LakeTable
from headrace.lake.lateness_histogram import DAY_US, DAYS, Days, Lateness, LatenessHistogram, join_days, measure
from headrace.lake.lateness_record import FILE, LatenessRecord, read_lateness
from headrace.lake.parquet_file import LakeFileWriter
from headrace.lake.table_schema import table_schema
from headrace.server.lateness_status import describe_lateness
from headrace.transport.position import Position
from tests import wording
from tests.effort import examples

STREAM = parse("CREATE STREAM s (at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE)").streams["s"]
SECOND_US = 1_000_000
NOON_US = 1_772_366_400 * SECOND_US
durations = st.lists(st.integers(0, 10**16) | st.integers(0, 70) | st.just(0), max_size=40)


@given(durations, st.sampled_from([0.01, 0.5, 0.9, 0.99, 0.999, 1.0]))
def test_a_quantile_is_at_most_a_sixteenth_too_long(values: list[int], share: float) -> None:
    histogram = LatenessHistogram.of(np.array(values, np.int64))
    assert histogram.total == len(values)
    if values:
        exact = int(np.quantile(values, share, method="inverted_cdf"))
        assert exact <= histogram.quantile_us(share) <= exact * 17 / 16 + 1
        assert histogram.quantile_us(1.0) == max(values)


@given(durations, st.integers(0, 10**16))
def test_those_above_a_bound_are_never_too_many(values: list[int], bound: int) -> None:
    histogram = LatenessHistogram.of(np.array(values, np.int64))
    assert sum(value > bound * 1.07 + 1 for value in values) <= histogram.above(bound)
    assert histogram.above(bound) <= sum(value > bound for value in values)


@given(durations, durations)
def test_histograms_can_be_added(a: list[int], b: list[int]) -> None:
    parts = [LatenessHistogram.of(np.array(values, np.int64)) for values in (a, b)]
    assert parts[0] + parts[1] == LatenessHistogram.of(np.array(a + b, np.int64)) == parts[1] + parts[0]


def rows(*events: tuple[int, int, int, int | None, int]) -> pa.Table:
    """Events of (commit, committed at, arrived, time of the stream before, event time), in us."""
    names = ("_commit", "_committed_at", "_arrived", "_newest", "at")
    columns: dict[str, Any] = {name: [event[i] for event in events] for i, name in enumerate(names)}
    schema = pa.schema([field for field in table_schema(STREAM) if field.name != "_dead"])
    columns |= {"_position": range(len(events)), "_reason": [None] * len(events), "_value": [b"{}"] * len(events)}
    columns["_tables"] = [None] * len(events)
    return pa.table([pa.array(columns[field.name], field.type) for field in schema], schema=schema)


def test_an_event_is_late_if_it_is_behind_the_time_of_the_stream() -> None:
    found = measure(
        STREAM,
        rows(
            (0, NOON_US, NOON_US, None, NOON_US - 9 * SECOND_US),  # the first commit is behind nothing
            (1, NOON_US, NOON_US, NOON_US - 5, NOON_US - 5),
            (1, NOON_US, NOON_US, NOON_US - 5, NOON_US + 5),  # a clock that runs ahead
            (1, NOON_US, NOON_US, NOON_US - 5, NOON_US - 6),
        ),
    )
    (lateness,) = found.values()
    assert (lateness.events, lateness.on_time, lateness.lateness.largest_us) == (4, 3, 1)
    assert lateness.delay.largest_us == 9 * SECOND_US


def test_old_days_are_left_out() -> None:
    days = {day: Lateness(LatenessHistogram({0: 1})) for day in range(20)}
    kept = join_days([days, {25: Lateness(LatenessHistogram({0: 1}))}])
    assert list(kept) == [19, 25]
    assert list(join_days([days])) == list(range(20 - DAYS, 20))


def put(table: LakeTable, commit: pa.Table) -> None:
    writer = LakeFileWriter(table.storage, table.state.next_commit, dead=False)
    writer.write(commit)
    file = writer.close()
    table.commit(table.state, Position.at(table.state.next_commit + 1), NOON_US, [file] if file else [])


commits = st.lists(
    st.lists(st.tuples(st.integers(0, 10**8), st.integers(0, 10**8), st.integers(0, 10**8)), max_size=4), max_size=8
)


@settings(max_examples=examples(25), deadline=None)
@given(commits, st.data())
def test_measured_at_the_append_or_from_the_files_it_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, made: list[list[tuple[int, int, int]]], data: st.DataObject
) -> None:
    """Some commits are not noted, as if a replay had made them or the process had been killed."""
    table = LakeTable(tmp_path_factory.mktemp("lake"), STREAM, fence=1)
    record = LatenessRecord(table, STREAM)
    parts: list[Days] = []
    for number, events in enumerate(made):
        at_us = NOON_US + number * DAY_US // 2
        commit = rows(*((number, at_us, at_us - a, at_us - b, at_us - c) for a, b, c in events))
        put(table, commit)
        parts.append(measure(STREAM, commit))
        match data.draw(st.sampled_from(["note", "note", "lose", "restart", "catch up"])):
            case "note":
                record.note(number, [parts[-1]])
            case "restart":
                record.save()
                record = LatenessRecord(table, STREAM)
            case "catch up":
                record.catch_up()
    record.catch_up()
    assert record.days == join_days(parts)
    assert read_lateness(table, STREAM) == record.days


def test_a_damaged_record_is_measured_again(tmp_path: Path) -> None:
    table = LakeTable(tmp_path / "lake", STREAM, fence=1)
    put(table, rows((0, NOON_US, NOON_US, None, NOON_US)))
    record = LatenessRecord(table, STREAM)
    record.catch_up()
    record.save()
    file = table.folder / FILE
    expected, saved = record.days, orjson.loads(file.read_bytes())
    for content in (
        b"",
        b"{",
        b"[]",
        b'{"format": 9}',
        orjson.dumps({**saved, "end": 99}),
        orjson.dumps({"format": 1}),
    ):
        file.write_bytes(content)
        again = LatenessRecord(table, STREAM)
        again.catch_up()
        assert again.days == expected


@pytest.mark.parametrize(
    ("behind_s", "values"),
    [
        ([0] * 50, ("1",)),
        ([0] * 998 + [45, 45], ("99.9", "45.0", "1")),
        ([0] * 9_999 + [7_200], ("99.9", "1")),
        (
            [0] * 880 + [200] * 120,
            ("12", "5", "99.9"),
        ),
        ([0] * 990 + [90_000] * 10, ("1.0", "2")),
    ],
)
def test_advice(behind_s: list[int], values: tuple[str, ...]) -> None:
    behind = LatenessHistogram.of(np.array(behind_s, np.int64) * SECOND_US)
    status = describe_lateness(STREAM, {NOON_US // DAY_US: Lateness(behind, behind)})
    assert status is not None
    wording.check(status.advice, *values)
    assert status.on_time + status.late == status.events == len(behind_s)
    assert status.since == EPOCH.replace(year=2026, month=3, day=1).date().isoformat()


def test_without_event_time_or_events_there_is_no_lateness() -> None:
    plain = parse("CREATE STREAM s (n INT)").streams["s"]
    assert describe_lateness(plain, {}) is None
    assert describe_lateness(STREAM, {}) is None
