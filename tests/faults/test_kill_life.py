"""A process killed anywhere in the life of a version: what serves is right, and the next process completes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.contracts.store.layers import VIEW
from tests.unit.store.partial_files import simple_event, write_partials

from .life import EVENTS
from .seeds import MANY

PASSINGS = {  # how often a life passes each point
    "store.before_merge": 6,
    "store.before_commit": 6,
    "store.after_commit": 6,
    "beat.before_begin": 2,
    "beat.after_begin": 2,
    "beat.before_end": 2,
    "beat.after_end": 2,
    "load.before_rename": 3,
    "load.after_rename": 3,
    "fill.before_commit": 1,
    "fill.after_commit": 1,
    "swap.before_commit": 1,
    "swap.after_commit": 1,
    "retire.before_drop": 1,
    "retire.after_drop": 1,
}


def test_killed_in_any_part_of_a_life(tmp_path: Path) -> None:
    """At each point, the last time that it is passed; or, with many seeds, each time."""
    file = write_partials(tmp_path / "p", VIEW, [simple_event(f"/{i}", 0) for i in range(EVENTS)])
    faults = [f"{point}:{n}" for point, most in PASSINGS.items() for n in range(1 if MANY else most, most + 1)]
    ended = subprocess.run(
        [sys.executable, "-m", "tests.faults.life", str(tmp_path), file, *faults],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
