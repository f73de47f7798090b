"""What a store promises: the tables of view versions, merged into and read from atomically.

A store knows views and partials; it knows neither Spark nor the lake.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from headrace.aggregate import Value
from headrace.define.model import Column, View

# Names with a leading underscore are ours: `count(*) AS events` must not meet them.
KEY_ID = "_key_id"  # 32 hex digits in partials; a 128-bit column in the store
PANE = "_pane"  # start of the pane, in ms since the epoch; 0 for a view without window
EVENTS = "_events"  # how many events are in the row
CORRECTIONS = "_corrections"  # how many of them came when their pane was settled
BUCKET = "_bucket"  # start of the bucket of a folded row, in ms since the epoch


def partial_columns(column: Column) -> list[str]:
    """The store's column names for one aggregate of a view."""
    return [f"{column.name}__{part.suffix}" if part.suffix else column.name for part in column.aggregate.columns]


@dataclass(frozen=True)
class Version:
    """One definition of a view with how far it has come. Commits [0, applied_to) are in it."""

    view: View
    number: int
    fingerprint: str
    patience_ms: int
    applied_to: int
    position: int  # where the transport goes on behind commit applied_to - 1
    newest_us: int | None  # newest event time over the stream's commits [0, applied_to)
    applied_at_us: int  # wall time of the last merge
    serving: bool
    stalled: str | None  # the error that keeps it from going on


@dataclass(frozen=True)
class Step:
    """Commits [from_commit, to_commit) of a stream, and what is true once they are merged."""

    stream: str
    from_commit: int
    to_commit: int
    position: int
    newest_us: int | None
    at_us: int


@dataclass(frozen=True)
class Selection:
    """Which partials to read, and how to group them before they are presented."""

    by: tuple[str, ...]  # keys to keep; the others are merged
    where: tuple[Mapping[str, Value], ...] = ()  # alternatives, each key = value (None: IS NULL); () is all
    panes: tuple[int | None, int | None] = (None, None)  # pane starts in [from, to)
    bucket_ms: int | None = None  # panes merge into buckets of this size; None: all into one
    origin_ms: int = 0  # buckets start at origin + i * bucket
    after: Sequence[Value] | None = None  # (bucket, *by) of the last row of the page before
    limit: int | None = None


class Snapshot(Protocol):
    """One consistent sight of the store."""

    def versions(self) -> list[Version]:
        """All versions, by view name and number."""

    def serving(self, view: str) -> Version | None:
        """The version that answers for a view."""

    def count(self, version: Version) -> int:
        """How many rows a version has: one per key and pane."""

    def fold(self, version: Version, selection: Selection) -> pa.Table:
        """Merged partials: BUCKET, the kept keys, EVENTS, CORRECTIONS, each partial column.

        Ordered by bucket, then by the keys, NULL first.
        """

    def pieces(self, version: Version, selection: Selection, *, ordered: bool) -> pa.RecordBatchReader:
        """What `fold` gives, piece by piece as it is read, in any order if that will do; close it at the end."""

    def rows(self, version: Version, selection: Selection) -> list[tuple[Any, ...]]:
        """What `fold` gives, as tuples: the quick way to a few rows."""


class Store(Protocol):
    """Where views live."""

    def register(self, view: View, fingerprint: str, patience_ms: int) -> Version:
        """A new version of a view with nothing in it; the first one of a view serves at once."""

    def apply(self, step: Step, partials: Mapping[tuple[str, int], Sequence[str]]) -> None:
        """Merge each version's Parquet files and move it from step.from_commit to step.to_commit.

        One transaction. Raises FencedError, with nothing changed, if a version is not where the
        step starts or another writer has fenced this one.
        """

    def promote(self, view: str, number: int) -> None:
        """Make a version serve and drop the older ones, in one transaction."""

    def drop(self, view: str) -> None:
        """Forget a view with all its versions."""

    def stall(self, view: str, number: int, error: str | None) -> None:
        """Record why a version cannot go on, or that it can again."""

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """A consistent read of versions and rows."""

    def close(self) -> None:
        """Release the store's files."""
