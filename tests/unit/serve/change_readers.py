"""Readers of the changes of a view."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.deliver.view_reader import ViewReader
from headrace.serve.change_batch import ChangeBatch, ChangeCursor
from headrace.serve.changes import ChangeMode
from headrace.store.duckdb import change_log
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.store_contract import Store
from tests.unit.serve.workbench import Workbench


@dataclass
class Reader:
    """Applies changes, as a table with a primary key would."""

    store: Store
    limit: int
    on_close: bool = False
    rows: dict[Any, Any] = field(default_factory=dict)
    cursor: ChangeCursor | None = None
    batches: list[ChangeBatch] = field(default_factory=list)

    def read(self) -> bool:
        """One batch; whether there is more."""
        mode: ChangeMode = "settled" if self.on_close else "changed"
        batch = ViewReader(self.store, "v", limit=self.limit, mode=mode).after(self.cursor)
        if batch.restarted:
            self.rows.clear()
        for change in batch.changes:
            place = tuple(change.row[name] for name in batch.keys)
            assert (change.version, change.commit) == (batch.version, batch.commit)
            if change.op == "upsert":
                self.rows[place] = dict(change.row)
            else:
                self.rows.pop(place, None)
        self.cursor = ChangeCursor.from_text(batch.cursor.to_text())
        assert self.cursor == batch.cursor
        self.batches.append(batch)
        return batch.more

    def catch_up(self) -> int:
        """Read to the end; returns how many changes there were."""
        self.batches = []
        for _ in range(10_000):
            if not self.read():
                return sum(map(len, self.batches))
        raise AssertionError("the changes do not end")


def trim_log(view: Workbench) -> None:
    """As if the log had become too long."""
    store = view.store
    assert isinstance(store, DuckStore)
    kept, change_log.MOST_CELLS = change_log.MOST_CELLS, 0
    try:
        with store._transaction() as connection:
            change_log.trim(connection, view.serving(), 0)
    finally:
        change_log.MOST_CELLS = kept
