"""Steps of the speed layer: which commits one covers, where they end in the transport, and their merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import duckdb

from headrace.lake.delta_table import LakeTable
from headrace.lake.table_files import LakeFile
from headrace.spark.failures import one_line
from headrace.store.store_contract import Partials, Step, Store
from headrace.store.version import VersionId


def next_step(
    stream: str, table: LakeTable, from_commit: int, most_rows: int, now: float, end: int | None = None
) -> Step:
    """Combine as many of the commits from here on, up to `end` or the end of the log, as fit."""
    end = table.state.next_commit if end is None else end
    to_commit = step_end(table.files(from_commit, end), from_commit, end, most_rows)
    return make_step(stream, table, from_commit, to_commit, now)


def make_step(stream: str, table: LakeTable, from_commit: int, to_commit: int, now: float) -> Step:
    """The step over commits [from_commit, to_commit)."""
    state = table.state_at(to_commit)
    # Between old commits the position is not known: the version says that it is catching up.
    position, newest_us, idle_us = (state.position, state.newest_us, state.idle_us) if state else (None, None, None)
    return Step(stream, from_commit, to_commit, position, newest_us, int(now * 1e6), idle_us)


def step_end(files: Sequence[LakeFile], from_commit: int, to_commit: int, most_rows: int) -> int:
    """The end of a step from here: behind as many commits as fit, at least one.

    A file of several commits is taken to hold equally many rows of each, so a step can end inside of it.
    """
    room = float(most_rows)
    for file in files:
        each = file.rows / (file.last_commit + 1 - file.first_commit)
        first = max(from_commit, file.first_commit)
        rows = each * (file.last_commit + 1 - first)
        if rows > room:
            return min(to_commit, max(from_commit + 1, first + int(room / each)))  # the file may reach beyond
        room -= rows
    return to_commit


def apply_step(store: Store, step: Step, partials: Mapping[VersionId, Partials]) -> dict[VersionId, str]:
    """Merge the partials of versions, which then are at the end of a step. Why some of them stay where they are.

    Code of the workspace merges its own aggregates: where it fails, or hangs, the other versions continue.
    """
    try:
        store.apply(step, partials)
    except duckdb.InvalidInputException as error:
        if len(partials) == 1:
            return dict.fromkeys(partials, one_line(error))
    else:
        return {}
    failed: dict[VersionId, str] = {}
    for id, parts in partials.items():
        failed |= apply_step(store, step, {id: parts})
    return failed
