"""Who applies the changes of a view, from any cursor, in batches of any size, has the rows of its default question."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.serve.change_readers import Reader, trim_log
from tests.unit.serve.workbench import bench, view_of
from tests.unit.store.partial_files import Event, simple_event

MINUTE, HOUR = 60_000, 3_600_000
WINDOWS = (
    "window(at, '1 minute')",
    "window(at, '3 minutes', '1 minute')",
    "window(at, '4 minutes', '2 minutes')",
    "CUMULATE(at, INTERVAL 2 MINUTES, INTERVAL 10 MINUTES)",
    "window(at, '10 minutes')",
    "date_trunc('hour', at)",
    "date_trunc('day', at)",
    None,
    "session_window(at, '1 minute')",
    "session_window(at, '7 minutes')",
)
SHAPES = ("", "HAVING count(*) > 2", "HAVING sum(b) % 2 = 0", "ORDER BY n DESC", "HAVING n > 1 ORDER BY n DESC LIMIT 3")
KEYS = ("a", "b", None, "é")


def same(a: dict[Any, Any], b: dict[Any, Any]) -> bool:
    return a.keys() == b.keys() and all(_same_row(a[key], b[key]) for key in a)


def _same_row(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return a.keys() == b.keys() and all(
        x == y or (isinstance(x, float) and isinstance(y, float) and math.isclose(x, y, rel_tol=1e-9))
        for x, y in ((a[name], b[name]) for name in a)
    )


def some_events(chance: random.Random, commit: int) -> list[Event]:
    """About the time of a commit, and some late ones."""
    start = commit * 2 * MINUTE
    return [
        simple_event(
            chance.choice(KEYS),
            max(
                0,
                start + chance.randrange(3 * MINUTE) - (chance.randrange(40 * MINUTE) if chance.random() < 0.2 else 0),
            ),
            chance.randrange(10),
        )
        for _ in range(chance.choice([0, 1, 3, 8]))
    ]


# Three shapes with each window: their edits lead to the others.
PAIRS = [(window, SHAPES[(at + step) % len(SHAPES)]) for at, window in enumerate(WINDOWS) for step in (0, 2, 4)]


@pytest.mark.parametrize(("window", "shape"), PAIRS)
def test_changes_end_with_the_rows_of_the_view(window: str | None, shape: str) -> None:
    change_at_random(window, shape, seed=0)


def change_at_random(window: str | None, shape: str, seed: int) -> None:
    chance = random.Random(f"{window} {shape} {seed}")
    with bench(chance.choice([0, 3]) * MINUTE) as view:
        view.start(view_of(window, shape))
        readers = [Reader(view.store, limit=limit) for limit in (2, 1000)]
        if window and "LIMIT" not in shape:
            readers += [Reader(view.store, limit=3, on_close=True)]
        stale: list[Reader] = []
        for at in range(14):
            match chance.choice(["commit"] * 6 + ["refresh", "free", "edit", "shape", "rollback", "trim", "pause"]):
                case "commit":
                    view.commit(some_events(chance, at))
                case "refresh":
                    view.refresh()
                case "free":
                    view.edit_free(view_of(window, shape, "sum(b) AS b, count(*) AS n"))
                case "shape":
                    shape = chance.choice(SHAPES[:4]) if "LIMIT" not in shape else shape
                    view.edit_free(view_of(window, shape))
                case "edit":
                    view.edit(view_of(window, shape), left_out=chance.choice(KEYS))
                case "rollback":
                    view.roll_back()
                case "trim":
                    trim_log(view)
                case "pause":
                    stale = [replace(reader, rows=dict(reader.rows)) for reader in readers]
            for reader in readers:
                for _ in range(chance.choice([0, 0, 1, 2, 5])):
                    reader.read()
        expected = view.rows()
        for reader in [*readers, *stale, Reader(view.store, 7)]:
            reader.catch_up()
            wanted = {k: v for k, v in expected.items() if v["settled"]} if reader.on_close else expected
            assert same(reader.rows, wanted)
            assert reader.catch_up() == 0
