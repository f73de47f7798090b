"""Audits of views over tables: they agree, and find a cell that is not what the rows of the table give."""

from __future__ import annotations

import random
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import pytest

from headrace.duckdb_connections import run
from headrace.errors import ConflictError, UnavailableError
from headrace.maintain.batch_layer import BatchLayer
from headrace.maintain.table_view_audits import TableAudits
from headrace.store.duckdb.batch_folder import HERE_ROWS
from headrace.store.duckdb.snapshot import speed_tables
from headrace.store.duckdb.table_view_audit import compare_with_rows, export_rows
from headrace.store.partial_columns import partial_columns
from tests import wording
from tests.unit.store.duckdb.table_bench import EPOCH, NUMBERS, Table, audit, numbered, serving

PERSON = {"id": 1, "place": "Rome", "age": 20, "at": EPOCH, "_deleted": None}
SETS = """
CREATE TABLE people (id INT PRIMARY KEY, place STRING, age INT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
CREATE MATERIALIZED VIEW sets AS SELECT place, collect_set(age) AS ages FROM people GROUP BY place;
"""
EVERY = """
CREATE TABLE people (id INT PRIMARY KEY, place STRING, age INT, at TIMESTAMP NOT NULL, pay DECIMAL(28,2),
  wide DECIMAL(38,0), weight DOUBLE, WATERMARK FOR at AS at);
CREATE MATERIALIZED VIEW sketches AS SELECT place, approx_count_distinct(age) AS ages, unique(id) AS ids,
  approx_percentile(weight, 0.5) AS middle, approx_top_k(age, 3) AS frequent, count(DISTINCT age) AS exactly,
  collect_set(age) AS which, collect_list(id) AS list, sample(id, 2) AS some, first(id) AS oldest,
  max_by(id, age, 2) AS two, corr(age, weight) AS c
  FROM people WHERE weight IS NULL OR weight < 1e6 GROUP BY place, window(at, '10 seconds');
CREATE MATERIALIZED VIEW hours AS SELECT hour(from_utc_timestamp(at, 'Europe/Berlin')) AS hour, avg(weight) AS mean,
  stddev(age) AS spread FROM people GROUP BY 1;
"""


def corrupt(table: Table, view: str, *changes: str) -> None:
    """Change stored rows of a view, as a fault of the code that keeps them would."""
    cells = speed_tables(serving(table, view))[0]
    with table.store._transaction() as connection:  # type: ignore[attr-defined]
        for change in changes:
            run(connection, change.format(f'"{cells}"'))


@pytest.mark.parametrize("definitions", [NUMBERS, EVERY])
def test_every_aggregate_agrees(tmp_path: Path, definitions: str) -> None:
    chance = random.Random(7)
    table = Table(tmp_path, definitions)
    views = [name for name in table.catalog.views if name != "people"]
    for step in range(6):
        rows = [numbered(chance) for _ in range(4)]
        table.send([{**row, "at": row["at"] + timedelta(seconds=step * chance.randrange(8))} for row in rows])
        if step % 3 == 2:
            assert {view: audit(table, view, tmp_path).drift for view in views} == dict.fromkeys(views, ())
    assert not (tmp_path / "audit").exists()
    table.store.close()


def test_wrong_cells_are_found_kept_and_mended(tmp_path: Path) -> None:
    table = Table(tmp_path)
    places = ["Rome", "Rome", "Oslo", "Bari", None]
    table.send([{**PERSON, "id": id, "place": place} for id, place in enumerate(places)])
    oldest = partial_columns(serving(table, "headcount").view.columns[2].aggregate)[0][0]
    corrupt(
        table,
        "headcount",
        "UPDATE {0} SET _events = 7 WHERE place = 'Rome'",
        f"UPDATE {{0}} SET \"{oldest}\" = 99 WHERE place = 'Bari'",
        "DELETE FROM {0} WHERE place = 'Oslo'",
        "INSERT INTO {0} (SELECT * REPLACE ('Pisa' AS place, uuid() AS _key_id) FROM {0} WHERE place = 'Bari')",
    )
    found = audit(table, "headcount", tmp_path)
    assert {drift.column: drift.rows for drift in found.drift} == {"events": 3, "people": 2, "ages": 2, "oldest": 3}
    examples = {drift.column: drift.example for drift in found.drift}
    assert examples["events"] in {
        "place 'Rome': 2 by the rows of the table, 7 in the view",
        "place 'Oslo': 1 by the rows of the table, 0 in the view",
        "place 'Pisa': 0 by the rows of the table, 1 in the view",
    }
    assert (found.rows, found.events, found.to_commit) == (5, 5, 1)
    wording.check(serving(table, "headcount").alarm or "", 3)
    assert {path.name for path in (tmp_path / "audit").iterdir()} == {"speed.parquet", "batch-0.parquet"}
    table.send([{**PERSON, "id": 9}])
    view = serving(table, "headcount")
    assert view.alarm, "a step does not end the alarm"
    table.store.register(view.view, view.fingerprint, view.patience_ms)  # a full refresh
    assert serving(table, "headcount").alarm is None
    assert serving(table, "headcount").number > view.number
    assert audit(table, "headcount", tmp_path).agreed
    table.store.close()


def test_many_rows_are_compared_in_a_process_apart(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.send([{**PERSON, "id": id, "age": id % 50} for id in range(HERE_ROWS + 1)])
    assert audit(table, "adults", tmp_path).agreed
    corrupt(table, "adults", "UPDATE {} SET _events = _events - 1")
    assert [drift.column for drift in audit(table, "adults", tmp_path).drift] == ["events"]
    table.store.close()


def test_portions_give_the_same(tmp_path: Path) -> None:
    chance = random.Random(3)
    table = Table(tmp_path, SETS)
    table.send([{**PERSON, "id": id, "place": f"p{id % 40}", "age": chance.randrange(9)} for id in range(200)])
    folder = tmp_path / "files"
    folder.mkdir()
    with table.store.snapshot() as snapshot:
        version = export_rows(snapshot, serving(table, "sets"), folder)  # type: ignore[arg-type]
    whole = compare_with_rows(version.view, folder)
    cut = compare_with_rows(version.view, folder, most_bytes=1000)
    assert len(list(folder.glob("batch-*"))) > 5
    assert whole == cut
    assert not cut.drift
    table.store.close()


def test_a_version_that_cannot_be_compared(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.send([PERSON])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.store.duckdb.table_views.TableViews.follow", lambda *_: None)
        table.send([{**PERSON, "id": 2}])
    with wording.raises(UnavailableError, 1, 2):
        audit(table, "headcount", tmp_path)
    assert not (tmp_path / "audit").exists()
    behind = serving(table, "headcount")
    table.store.make_over_tables()
    with wording.raises(ConflictError):
        TableAudits(table.store, lambda: 0.0).run(behind, tmp_path / "audit", lambda: False)
    assert audit(table, "headcount", tmp_path).agreed
    table.store.close()


def test_when_an_audit_is_due(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.send([PERSON])
    now = serving(table, "headcount").changed_at_us / 1e6
    audits = TableAudits(table.store, lambda: now)

    def due() -> bool:
        return audits.is_due(serving(table, "headcount"), 60)

    assert not due()
    now += 61
    assert due()
    audits.run(serving(table, "headcount"), tmp_path / "audit", lambda: False)
    now += 61
    assert not due(), "nothing has changed since"
    table.send([{**PERSON, "id": 2}])
    assert due()
    assert TableAudits(table.store, lambda: now).is_due(serving(table, "headcount"), 60), "also after a restart"
    audits.run(serving(table, "headcount"), tmp_path / "audit", lambda: False)
    table.send([{**PERSON, "id": 3}])
    now += 59
    assert not due()
    table.store.close()


def test_the_batch_layer_audits_when_asked_and_keeps_drift(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.send([PERSON])
    stream, builds = table.catalog.streams["people"], tmp_path / "builds"
    batch = BatchLayer(no_spark, stream, None, table.store, builds)  # type: ignore[arg-type]
    assert not batch.run_once(), "no audit is due within the hour"
    batch.refresh("headcount")
    assert (batch.run_once(), batch.run_once(), batch.audits) == (True, False, {"headcount": 1})
    corrupt(table, "headcount", "UPDATE {} SET _events = 7")
    batch.refresh("headcount")
    assert (batch.run_once(), batch.run_once()) == (True, False)
    (kept,) = builds.iterdir()
    assert kept.name.startswith("drift-headcount-1-")
    with table.store.snapshot() as snapshot:
        assert [audit.agreed for audit in snapshot.audits("headcount")] == [False, True]
    corrupt(table, "headcount", "UPDATE {} SET _events = 1")
    batch.refresh("headcount")
    assert (batch.run_once(), batch.run_once()) == (True, False)
    assert serving(table, "headcount").alarm is None
    assert list(builds.iterdir()) == []
    assert not batch.errors
    table.store.close()


def no_spark() -> NoReturn:
    raise AssertionError("views over tables need no Spark")
