"""Each version is shown with what it changed; older stores are upgraded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from headrace.server.describe_versions import describe_versions
from headrace.store.duckdb.duckdb_reader import open_file
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.duckdb.file_format import FORMAT, OutdatedError
from headrace.store.store_contract import Step
from headrace.transport.position import Position
from headrace.types import INT, STRING
from tests import wording
from tests.unit.store.duckdb.older import as_format_4
from tests.unit.store.partial_files import make_view, simple_event, write_partials

ONE, OTHER = make_view("v"), make_view("v", keys=(STRING, INT))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckStore]:
    opened = DuckStore.open(tmp_path / "store", fence=1)
    yield opened
    opened.close()


def shown(store: DuckStore) -> dict[int, tuple[int | None, bool]]:
    """Per version, which one it is compared with, and whether anything differs."""
    with store.snapshot() as snapshot:
        return {v.version: (v.changed_from, bool(v.changes)) for v in describe_versions(snapshot, "v", errors={})}


def test_a_version_is_compared_with_the_one_that_it_replaced(store: DuckStore) -> None:
    store.register(ONE, "one", {"events": 0})
    store.register(OTHER, "other", {"events": 0})
    store.promote("v", 2)
    store.register(ONE, "again", {"events": 0})
    store.promote("v", 3)
    store.revive("v", 1)
    store.promote("v", 1)
    assert shown(store) == {1: (3, False), 2: (1, True), 3: (2, True)}


def test_a_version_that_is_kept_no_more_is_compared_with_none(store: DuckStore) -> None:
    store.register(ONE, "one", {"events": 0})
    store.register(OTHER, "other", {"events": 0})
    store.promote("v", 2)
    store.register(ONE, "again", {"events": 0})
    store.promote("v", 3)
    store.forget("v", 2)
    with store.snapshot() as snapshot:
        newest = describe_versions(snapshot, "v", errors={})[0]
    assert (newest.replaces, newest.changed_from, newest.changes) == (2, None, ())


def test_a_store_of_the_format_before_is_upgraded(store: DuckStore, tmp_path: Path) -> None:
    store.register(ONE, "one", {"events": 0})
    file = write_partials(tmp_path / "p", ONE, [simple_event("/a", 0)])
    store.apply(Step("events", 0, 1, Position.at(10), 0, 0), {("v", 1): [file]})
    store.close()
    as_format_4(
        tmp_path / "store",
        "ALTER TABLE versions ALTER COLUMN position TYPE BIGINT USING 10",
        "ALTER TABLE versions DROP COLUMN replaces",
        "ALTER TABLE versions DROP COLUMN quarantined",
        "UPDATE store_format SET version = 2",
    )
    with wording.raises(OutdatedError, 2, "headrace up"):
        open_file(tmp_path / "store")
    upgraded = DuckStore.open(tmp_path / "store", fence=2)
    with upgraded.snapshot() as snapshot:
        (version,) = snapshot.versions()
    assert (version.replaces, version.bases[0].applied_to) == (None, 1), "nothing is computed again"
    upgraded.close()
    with duckdb.connect(str(tmp_path / "store")) as connection:
        assert connection.execute("SELECT version FROM store_format").fetchall() == [(FORMAT,)]
    open_file(tmp_path / "store").close()
