"""The names of a view's columns and files in every store, and the newest event time in partials."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from headrace.aggregate import MAX, MIN, Aggregate, PartialColumn
from headrace.define.fingerprint import aggregate_id
from headrace.define.model import View, Window
from headrace.lazy import pa, pc, pq
from headrace.timing import later
from headrace.types import BIGINT

# Names with a leading underscore are ours: `count(*) AS events` must not meet them.
KEY_ID = "_key_id"  # 32 hex digits in partials; a 128-bit column in the store
PANE = "_pane"  # start of the pane, in ms since the epoch; 0 for a view without window
EVENTS = "_events"  # how many events are in the row
CORRECTIONS = "_corrections"  # how many of them arrived when their pane was settled
OWN_NEWEST = "_own_newest"  # in partials of rows with an event time of their own: the newest one, in us
BATCH_EVENTS = "_batch_events"  # how many of a folded row's events were read from batch tables
COUNTED = (EVENTS, CORRECTIONS, BATCH_EVENTS)  # what precedes the partials in a folded row
FROM, TO = "_from", "_to"  # a span of time, in ms since the epoch
BUCKET = "_bucket"  # start of the bucket of a folded row, in ms since the epoch
# Of a view with sessions: the time of a row's first event, and the time until which its session waits for the next
# one, in us. A pane is not longer than a gap, so that all of its events are of one session.
FIRST_US, UNTIL_US = "_first_us", "_until_us"
SESSION_COLUMNS = ((FIRST_US, PartialColumn("", BIGINT, MIN)), (UNTIL_US, PartialColumn("", BIGINT, MAX)))


def plain_name(view: str) -> str:
    """A view's name for tables and files; two views never share one.

    DuckDB ignores case even in quotes, so a name that is not plain lower case gets a hash of itself.
    """
    plain = re.sub(r"[^a-z0-9_]", "_", view.lower())
    return plain if plain == view else f"{plain[:40]}-{hashlib.sha256(view.encode()).hexdigest()[:16]}"


def partial_columns(aggregate: Aggregate) -> list[tuple[str, PartialColumn]]:
    """The columns of an aggregate in files and tables, named by what they hold.

    So an output can be renamed, or dropped, without touching a row.
    """
    name = aggregate_id(aggregate.stored_as)
    return [(f"{name}__{part.suffix}" if part.suffix else name, part) for part in aggregate.columns]


def partials_of(view: View) -> list[tuple[str, PartialColumn]]:
    """The columns that files and tables of a view hold: those of equal aggregates once."""
    return list(dict(shown_partials(view)).items())


def shown_partials(view: View) -> list[tuple[str, PartialColumn]]:
    """The partial columns of each output, in their order; then those of sessions."""
    columns = [pair for column in view.columns for pair in partial_columns(column.aggregate)]
    return columns + list(SESSION_COLUMNS if view.has_sessions else ())


def session_columns(window: Window | None, time_us: str) -> dict[str, str]:
    """How Spark and DuckDB compute the columns of sessions of events; the gap is in SQL of the engine."""
    if window is None or not window.session:
        return {}
    gap_us = f"({window.gap.sql}) * 1000" if window.gap else str(window.size_ms * 1000)
    return {FIRST_US: f"min({time_us})", UNTIL_US: f"max({time_us} + {gap_us})"}


def own_newest(parts: Sequence[str | Path] | Sequence[pa.Table]) -> int | None:
    """The newest event time, in us; None if there is no row, or if rows have the event time of their stream."""
    newest: int | None = None
    for part in parts:
        newest = later(newest, _newest(part))
    return newest


def _newest(part: str | Path | pa.Table) -> int | None:
    if not isinstance(part, pa.Table):
        if OWN_NEWEST not in pq.read_schema(part).names:
            return None
        part = pq.read_table(part, columns=[OWN_NEWEST], partitioning=None)
    newest: int | None = pc.max(part.column(OWN_NEWEST)).as_py() if OWN_NEWEST in part.column_names else None
    return newest
