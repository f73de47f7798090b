"""Answers a question, or a lookup of many keys, from one snapshot of the store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Any

from headrace.aggregate import Value
from headrace.aggregate.udaf import UserAggregate
from headrace.errors import HeadraceError, NotReadyError, QuestionError, QuestionLimitError, unknown
from headrace.format import EPOCH
from headrace.lazy import pa
from headrace.serve.answer import Answer
from headrace.serve.freshness import Fresh, stream_states
from headrace.serve.present_columns import present_columns, select_rows, take_rows
from headrace.serve.presentation import next_cursor, present, result_columns
from headrace.serve.question import DEFAULT_LIMIT, Question
from headrace.serve.question_times import iso_ms
from headrace.serve.read_plan import ReadPlan, plan
from headrace.serve.shaping import Shaping, estimated_rows, find_shaping, stated_bounds, stated_errors
from headrace.serve.windows import BUCKET_COUNTS, compose
from headrace.store.selection import Selection, rank
from headrace.store.store_contract import NotCachedError, Snapshot, StoreReader
from headrace.store.time_limit import TimeLimit
from headrace.store.version import Version

Freshness = Callable[[Version], Fresh]
Row = tuple[Any, ...]
BUCKETS_AT_ONCE = 10_000  # at least: a page whose windows overlap takes about as many buckets as it has rows
MOST_SHAPED = 200_000  # rows that HAVING and ORDER BY look at
MOST_BYTES = 256 << 20  # of their partials
PAGES_AT_FIRST = 3  # that are read one by one where HAVING keeps most rows; then all that follow, in one order
MOST_COUNTED = 50_000  # rows of partials; more distinct keys and windows than these are not counted


def question_limit(seconds: float) -> TimeLimit:
    """A limit for the time that each question takes."""

    def late(seconds: float) -> QuestionLimitError:
        return QuestionLimitError(
            "the query was stopped at its deadline",
            found=f"no answer after {seconds:g} s",
            fix="ask by key or for less time (start, end), or raise the setting question_timeout_s",
        )

    return TimeLimit(seconds, late)


def answer(store: StoreReader, question: Question, freshness: Freshness, now: datetime) -> Answer:
    """Answer from one snapshot of the store. A view that lags or is stalled answers with what it has."""
    return answer_serving(store, question, freshness, now)[1]


def answer_serving(
    store: StoreReader, question: Question, freshness: Freshness, now: datetime
) -> tuple[Version, Answer]:
    """The same, with the version that it comes from."""
    work = partial(_answer_serving, question=question, freshness=freshness, now=now)
    if question.where:  # a lookup: it is short
        return store.read(work)
    with store.snapshot() as snapshot:
        return work(snapshot)


def answer_cached(
    store: StoreReader, question: Question, freshness: Freshness, now: datetime
) -> tuple[Version, Answer] | None:
    """The same from rows in memory, without waiting: an event loop can call it.

    None if it takes a read of the store, code of the workspace or a long computation.
    """
    if len(question.where) != 1:
        return None

    def work(snapshot: Snapshot) -> tuple[Version, Answer]:
        version = find_serving(snapshot, question.view)
        read_plan, shaping = _plan(question, version)
        if not _is_quick(version, read_plan, shaping):
            raise NotCachedError
        return version, _answer(snapshot, version, question, read_plan, shaping, freshness, now)

    return store.read_cached(work)


def _plan(question: Question, version: Version) -> tuple[ReadPlan, Shaping | None]:
    read_plan = plan(question, version)
    return read_plan, find_shaping(question, version, read_plan.by)


def _is_quick(version: Version, read_plan: ReadPlan, shaping: Shaping | None) -> bool:
    """Whether rows in memory are merged and presented in a bounded time."""
    calls_code = any(isinstance(column.aggregate, UserAggregate) for column in version.view.columns)
    return not (read_plan.overlapping or calls_code or (shaping is not None and shaping.filters_or_orders))


def _answer_serving(
    snapshot: Snapshot, question: Question, freshness: Freshness, now: datetime
) -> tuple[Version, Answer]:
    version = find_serving(snapshot, question.view)
    return version, answer_from(snapshot, version, question, freshness, now)


def answer_from(
    snapshot: Snapshot, version: Version, question: Question, freshness: Freshness, now: datetime
) -> Answer:
    """The same from an open snapshot and one of its versions."""
    return _answer(snapshot, version, question, *_plan(question, version), freshness, now)


def _answer(
    snapshot: Snapshot,
    version: Version,
    question: Question,
    read_plan: ReadPlan,
    shaping: Shaping | None,
    freshness: Freshness,
    now: datetime,
) -> Answer:
    declared = version.view.shape.limit if version.view.shape and question.limit is None else None
    limit = question.limit or declared or DEFAULT_LIMIT
    more: int | None = 0
    if shaping is not None and shaping.filters_or_orders:
        page, more = _read_shaped(snapshot, version, read_plan, shaping, limit)
    else:
        rows = read(snapshot, version, read_plan, limit + 1)
        page = rows[:limit]
        if len(rows) > len(page) and not declared:
            more = count_more(snapshot, version, read_plan, page[-1])
    more = 0 if declared else more  # LIMIT of a view leaves no rows behind it
    return _build_answer(question, version, read_plan, shaping, page, more, freshness, now)


def _read_shaped(
    snapshot: Snapshot, version: Version, read_plan: ReadPlan, shaping: Shaping, limit: int
) -> tuple[list[Row], int | None]:
    """A page of the rows that HAVING keeps, in the order of ORDER BY, and how many follow it."""
    first, last = read_plan.skip, read_plan.skip + limit
    few = read_plan.where or read_plan.overlapping
    if not few and not shaping.order and sum(snapshot.count(version)) > MOST_SHAPED:
        return _read_filtered(snapshot, version, read_plan, shaping, limit)
    rows = read(snapshot, version, read_plan, MOST_SHAPED + 1) if few else []
    if few or read_plan.empty:
        _refuse_many(version, len(rows))
        kept = shaping.select(present(version, read_plan, rows).values)
        return [rows[at] for at in kept[first:last]], max(len(kept) - last, 0)
    with closing(snapshot.pieces(version, read_plan.selection(MOST_SHAPED + 1), ordered=True)) as pieces:
        table = pa.Table.from_batches(_bounded(pieces, version), pieces.schema)
    _refuse_many(version, len(table))
    batches = table.combine_chunks().to_batches()
    if not batches:
        return [], 0
    kept = select_rows(shaping, present_columns(version, read_plan, batches[0], shaping.decisive))
    return take_rows(batches[0], kept[first:last]), max(len(kept) - last, 0)


def _read_filtered(
    snapshot: Snapshot, version: Version, read_plan: ReadPlan, shaping: Shaping, limit: int
) -> tuple[list[Row], int | None]:
    """The same of many rows without ORDER BY, piece by piece: what follows the page is not counted."""
    kept: list[Row] = []
    for _ in range(PAGES_AT_FIRST):
        rows = read(snapshot, version, read_plan, limit + 1)
        kept += [rows[at] for at in shaping.select(present(version, read_plan, rows).values)]
        if len(kept) > limit:
            return kept[:limit], None
        if len(rows) <= limit:
            return kept, 0
        read_plan = replace(read_plan, after=rows[-1][: 1 + len(read_plan.by)])
    with closing(snapshot.pieces(version, read_plan.selection(None), ordered=True)) as pieces:
        for piece in pieces:
            presented = present_columns(version, read_plan, piece, shaping.decisive)
            kept += take_rows(piece, select_rows(shaping, presented))
            if len(kept) > limit:
                return kept[:limit], None
    return kept, 0


def _bounded(pieces: Iterable[Any], version: Version) -> Iterator[Any]:
    """The pieces, as long as they fit in memory."""
    size = 0
    for piece in pieces:
        size += piece.nbytes
        if size > MOST_BYTES:
            raise _too_many(version, f"more than {MOST_BYTES >> 20} MB of rows")
        yield piece


def _refuse_many(version: Version, rows: int) -> None:
    if rows > MOST_SHAPED:
        raise _too_many(version, f"more than {MOST_SHAPED:,} rows in this query")


def _too_many(version: Version, found: str) -> QuestionError:
    return QuestionError(
        f"view '{version.view.name}' has too many rows to filter or order",
        found=found,
        fix="ask by key or for less time (start, end)",
    )


def find_serving(snapshot: Snapshot, view: str) -> Version:
    """The version that answers for a view; raises if there is none."""
    version = snapshot.serving(view)
    if version is None:
        raise _unknown(view, snapshot)
    return version


def read(snapshot: Snapshot, version: Version, read_plan: ReadPlan, most: int) -> list[Row]:
    """Rows of (window start, group keys, events, corrections, batch events, partials), at most `most`."""
    if read_plan.empty:
        return []
    if not read_plan.overlapping:
        return snapshot.rows(version, read_plan.selection(most))
    assert read_plan.windows is not None, "only windows overlap"
    pairs = [part.merge.pair for column in version.view.columns for part in column.aggregate.columns]
    buckets = _buckets(snapshot, version, read_plan.selection(max(BUCKETS_AT_ONCE, most + most // 4)))
    rows = compose(
        buckets,
        read_plan.windows,
        len(read_plan.by),
        [*BUCKET_COUNTS, *pairs],
        read_plan.after,
        newest_first=read_plan.newest_first,
    )
    return list(islice(rows, most))


def count_more(
    snapshot: Snapshot, version: Version, read_plan: ReadPlan, last: Row, most_counted: int = MOST_COUNTED
) -> int | None:
    """How many rows follow the last one of a page; None if counting them would take too long."""
    if read_plan.overlapping:
        return None  # their windows would have to be composed
    rest = replace(read_plan, after=last[: 1 + len(read_plan.by)])
    return snapshot.count_groups(version, rest.selection(None), most_counted)


def _buckets(snapshot: Snapshot, version: Version, selection: Selection) -> Iterator[Row]:
    """All buckets in order, read from the store as they are needed."""
    while True:
        rows = snapshot.rows(version, selection)
        yield from rows
        if selection.limit is None or len(rows) < selection.limit:
            return
        selection = replace(selection, after=rows[-1][: 1 + len(selection.by)])


def _build_answer(
    question: Question,
    version: Version,
    read_plan: ReadPlan,
    shaping: Shaping | None,
    page: list[Row],
    more: int | None,
    freshness: Freshness,
    now: datetime,
) -> Answer:
    missing = None
    if question.lookup:
        page, missing = arrange(read_plan, page)
        if more != 0 or len(page) > (question.limit or 0):
            raise too_many_rows(question)
    presentation = present(version, read_plan, page, corrections=question.corrections)
    values = presentation.values
    columns = result_columns(version.view, read_plan, presentation.wide, corrections=question.corrections)
    if shaping is not None:
        columns, values = shaping.result_columns(columns), [shaping.compute(row) for row in values]
    fresh = freshness(version)
    newest_us = version.newest_us
    return Answer(
        view=question.view,
        version=version.number,
        columns=columns,
        values=values,
        next_cursor=None if not page or more == 0 else _next_cursor(question, version, read_plan, shaping, page),
        more_rows=more,
        commits=version.commits,
        streams=stream_states(version, fresh),
        newest_event=None if newest_us is None else EPOCH + timedelta(microseconds=newest_us),
        at=now,
        freshness_ms=fresh.ms,
        freshness_reason=fresh.reason,
        events={"batch": presentation.batch_events, "speed": presentation.events - presentation.batch_events},
        corrections=presentation.corrections,
        approximate=stated_errors(version.view, presentation.estimates),
        estimates=estimated_rows(version.view, presentation.estimates),
        bounds=stated_bounds(version.view, presentation.bounds),
        windows=_window_bounds(read_plan) if version.view.window else None,
        stalled=version.stalled,
        errors=presentation.errors,
        missing=missing,
    )


def _next_cursor(
    question: Question, version: Version, read_plan: ReadPlan, shaping: Shaping | None, page: list[Row]
) -> str:
    skip = read_plan.skip + len(page) if shaping is not None and shaping.order else None
    return next_cursor(question, version, read_plan, page[-1], skip)


def _window_bounds(read_plan: ReadPlan) -> dict[str, str | int | None]:
    windows, (start_ms, end_ms) = read_plan.windows, read_plan.bounds
    times = {"start": start_ms, "end": end_ms, "counted_from": read_plan.counted_from_ms}
    bounds: dict[str, str | int | None] = {name: None if ms is None else iso_ms(ms) for name, ms in times.items()}
    if windows is None:
        return {**bounds, "window_ms": None, "every_ms": None}
    calendar, every_ms = windows.calendar, windows.every_ms
    if windows.session:
        return {**bounds, "window": "session", "window_ms": None, "every_ms": None, "gap_ms": windows.size_ms}
    if calendar:
        bounds |= {"window": str(calendar), "zone": calendar.zone}
    size_ms = None if calendar else windows.size_ms
    steps = {"cumulate_ms": every_ms} if windows.cumulative else {}
    return {**bounds, "window_ms": size_ms, "every_ms": None if calendar or steps else every_ms, **steps}


def _unknown(view: str, snapshot: Snapshot) -> HeadraceError:
    building = next((version for version in snapshot.versions() if version.view.name == view and version.live), None)
    if building is not None:
        return NotReadyError(
            f"view '{view}' is being built",
            found=building.stalled or f"{building.total('built_to'):,} of {building.total('horizon'):,} commits read",
            fix="`headrace versions` shows its progress; retry when it serves",
        )
    return unknown("view", view, [version.view.name for version in snapshot.versions()])


KeyedRow = tuple[Any, ...]
Names = tuple[str, ...]


def arrange(plan: ReadPlan, rows: list[KeyedRow]) -> tuple[list[KeyedRow], tuple[Mapping[str, Value], ...]]:
    """The rows of each key that was asked for, in that order, and the keys without rows.

    A key that was asked for twice has its rows twice. The rows of one key stay in the order of their windows.
    """
    by_names: dict[Names, dict[KeyedRow, list[KeyedRow]]] = {tuple(key): {} for key in plan.where}
    for names, groups in by_names.items():
        places = [1 + plan.by.index(name) for name in names]
        for row in rows:
            groups.setdefault(tuple(rank(row[place]) for place in places), []).append(row)
    arranged: list[KeyedRow] = []
    missing = []
    for key in plan.where:
        own = by_names[tuple(key)].get(tuple(map(rank, key.values())), [])
        arranged += own
        if not own:
            missing.append(key)
    return arranged, tuple(missing)


def too_many_rows(question: Question) -> QuestionError:
    """The error for a lookup whose rows do not fit an answer."""
    return QuestionError(
        f"the keys of this lookup of view '{question.view}' have more than {question.limit:,} rows",
        expected=f"at most {question.limit:,}",
        fix="ask for fewer keys at once, or for fewer windows, such as window=all or start=-1h",
    )
