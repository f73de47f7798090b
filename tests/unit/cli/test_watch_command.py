"""The table of `headrace watch`: rows are replaced, removed and voided; the newest window is first."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

from headrace.cli.watch_command import LiveRows, describe
from headrace.serve.change_batch import ViewChange
from tests import wording


def change(op: Any, page: str, minute: int, hits: int = 1) -> ViewChange:
    known_by = {
        "page": page,
        "window_start": datetime(2026, 3, 1, 12, minute, tzinfo=UTC),
        "window_end": datetime(2026, 3, 1, 12, minute + 1, tzinfo=UTC),
    }
    values = {"hits": hits, "settled": False} if op == "upsert" else {}
    return ViewChange(op, {**known_by, **values}, 1, 1)


def lines(rows: LiveRows, height: int = 10) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=120).print(rows.render(height))
    return [" ".join(line.split()) for line in out.getvalue().splitlines() if line.strip()]


def test_the_table_has_the_rows_as_they_are() -> None:
    rows = LiveRows("traffic")
    assert lines(rows) == ["traffic · 0 rows · 0 changes · q or Ctrl-C quits", "no rows yet"]
    for each in (change("upsert", "/a", 0), change("upsert", "/b", 1), change("upsert", "/a", 0, 2)):
        rows.add(each)
    shown = lines(rows)
    wording.check(shown[0], 2, 3)
    assert shown[-2:] == [
        "/b 2026-03-01 12:01:00 2026-03-01 12:02:00 1 false",
        "/a 2026-03-01 12:00:00 2026-03-01 12:01:00 2 false",
    ]
    assert lines(rows, height=1)[-1].startswith("/b")
    rows.add(change("delete", "/b", 1))
    assert lines(rows)[0].startswith("traffic · 1 row ")
    rows.add(ViewChange("restart", {}, 2, 1))
    wording.check(lines(rows)[-1])


def test_a_change_in_one_line() -> None:
    text = "page=/a window_start=2026-03-01 12:00:00 window_end=2026-03-01 12:01:00"
    assert describe(change("upsert", "/a", 0)) == f"upsert {text} hits=1 settled=false"
    assert describe(change("delete", "/a", 0)) == f"delete {text}"
