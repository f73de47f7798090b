"""How many rows a table has is one number, wherever it is shown: keys that were deleted are not counted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from headrace.define.catalog import parse
from headrace.define.fingerprint import fingerprint
from headrace.serve.streams import Fresh
from headrace.server.describe import describe_view, read_layers
from headrace.server.tables import describe_tables
from headrace.store.opening import open_temporary
from headrace.testing.engine import QuickRun
from headrace.testing.events import Commit


def test_rows_are_counted_without_deleted_ones(tmp_path: Path) -> None:
    catalog = parse("CREATE TABLE users (id STRING PRIMARY KEY, plan STRING)")
    view, store = catalog.views["users"], open_temporary(tmp_path)
    run = QuickRun(store, tmp_path / "run", catalog, [store.register(view, fingerprint(view), {"users": 0})])

    def counts() -> tuple[int | None, int | None]:
        """What `status` and `tables` say."""
        with store.snapshot() as snapshot:
            versions = snapshot.versions()
            status = describe_view(view, versions, {}, Fresh(0, None), None, read_layers(snapshot, versions)["users"])
        (table,) = describe_tables(catalog.tables, [], [status])
        return status.rows, table.rows

    def send(*rows: dict[str, object]) -> None:
        run.advance("users", Commit(tuple(json.dumps(row).encode() for row in rows), np.zeros(len(rows), np.int64)))

    assert counts() == (0, 0)
    send({"id": "a"}, {"id": "b"}, {"id": "c", "plan": "pro"})
    assert counts() == (3, 3)
    send({"id": "b", "_deleted": True}, {"id": "z", "_deleted": True}, {"id": "c"})
    assert counts() == counts() == (2, 2)
    send({"id": "b"})
    assert counts() == (3, 3)
    store.close()
