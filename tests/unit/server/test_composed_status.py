"""Rows and version of a table are one number each, wherever they are shown: keys that were deleted are not counted."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from headrace.api.objects import views_html
from headrace.define.catalog import parse
from headrace.define.fingerprint import fingerprint
from headrace.format import version_shown
from headrace.serve.freshness import Fresh
from headrace.server.composed_status import describe_tables
from headrace.server.describe_view import describe_view, read_layers
from headrace.server.status import ViewStatus
from headrace.store.open_store import open_temporary
from headrace.tools.testing.direct_engine import QuickRun
from headrace.tools.testing.given_events import Commit
from headrace.web.page.layers_section import layers_line


def test_rows_and_version_of_a_table(tmp_path: Path) -> None:
    catalog = parse("CREATE TABLE users (id STRING PRIMARY KEY, plan STRING)")
    view, store = catalog.views["users"], open_temporary(tmp_path)
    run = QuickRun(store, tmp_path / "run", catalog, [store.register(view, fingerprint(view), {"users": 0})])

    def describe() -> ViewStatus:
        with store.snapshot() as snapshot:
            versions = snapshot.versions()
            layers = read_layers(snapshot, versions)["users"]
            return replace(describe_view(view, versions, {}, Fresh(0, None), None, layers), table=True)

    def counts() -> tuple[int | None, int | None]:
        """What `status` and `tables` say."""
        status = describe()
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

    status = describe()
    (table,) = describe_tables(catalog.tables, [], [status])
    assert (status.version, table.version) == (1, 3), "the definition has its own versions"
    assert "<span>version 3</span>" in (layers_line(status, datetime(2026, 3, 1, tzinfo=UTC)) or "")
    assert views_html([status]).count(">3</td>") == 2, "version and rows in a notebook"
    assert (version_shown("users", 1, {"users": 3}), version_shown("plans", 1, {"users": 3})) == (3, 1)
    store.close()
