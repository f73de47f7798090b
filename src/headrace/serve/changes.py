"""The changes of a view after a cursor: its rows that are new, other or gone, from one snapshot of the store.

A row is always given as it is now, so changes are upserts and deletes: who applies all of them, in order, from any
cursor, has the rows of the view's default question. What is not logged is made up for by all rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.errors import QuestionError
from headrace.serve.change import Change, ChangeBatch, Columns, row_of
from headrace.serve.change_cursor import Cursor, Page
from headrace.serve.evaluate import answer_from, find_serving, read
from headrace.serve.plan import ReadPlan, plan
from headrace.serve.present import END, START, known_by, present, result_columns, window_columns
from headrace.serve.question import Question
from headrace.serve.shape import Shaping, find_shaping
from headrace.serve.spans import hull, span_table, spans_of
from headrace.serve.streams import Fresh
from headrace.serve.values import decoder, encoder
from headrace.serve.windows import COUNTS, compose
from headrace.store.base import Snapshot, Store
from headrace.store.columns import KEY_ID, PANE
from headrace.store.few import rank
from headrace.store.version import Version

if TYPE_CHECKING:
    pass

__all__ = ["Change", "ChangeBatch", "Columns", "Cursor", "changes_after", "cursor_now", "no_changes", "row_of"]

Row = tuple[Any, ...]
MOST_ROWS = 200_000  # of one step; more are read page by page, with all others


def changes_after(
    store: Store, view: str, cursor: Cursor | None, *, limit: int, on_close: bool = False, corrections: bool = True
) -> ChangeBatch:
    """The changes after a cursor, about `limit` of them; without one, all rows, page by page.

    `on_close`: only rows of settled windows, when they settle, and what later events change in them, unless
    `corrections` is false.
    """
    with store.snapshot() as snapshot:
        version = find_serving(snapshot, view)
        if on_close and (version.view.window is None or version.view.over is not None):
            raise QuestionError(
                f"view '{view}' has no window, so none of its rows is ever settled"
                if version.view.over is None
                else f"view '{view}' is over a table, so none of its rows is ever settled",
                fix="leave out EMIT ON WINDOW CLOSE, or declare the view with window(…) in GROUP BY",
            )
        return Evaluation(snapshot, version, limit, on_close, corrections).after(cursor)


def no_changes(store: Store, view: str) -> ChangeBatch:
    """A batch without rows: what the columns are."""
    with store.snapshot() as snapshot:
        evaluation = Evaluation(snapshot, find_serving(snapshot, view), 1, False, True)
        return evaluation.empty()


def cursor_now(store: Store, view: str) -> Cursor:
    """The cursor after all that there is: changes from now on."""
    with store.snapshot() as snapshot:
        return _now(find_serving(snapshot, view))


def _now(version: Version) -> Cursor:
    return Cursor(version.number, version.total("applied_to"), _settled_ms(version), None, version.fingerprint[:8])


def _settled_ms(version: Version) -> int | None:
    return None if version.settled_us is None else version.settled_us // 1000


@dataclass
class Evaluation:
    """One look at the changes of a version, for one reader."""

    snapshot: Snapshot
    version: Version
    limit: int
    on_close: bool
    corrections: bool
    plan: ReadPlan = field(init=False)
    shaping: Shaping | None = field(init=False)
    now: Cursor = field(init=False)

    def __post_init__(self) -> None:
        question = Question(self.version.view.name)
        self.plan = plan(question, self.version)
        self.shaping = find_shaping(question, self.version, self.plan.by)
        self.now = _now(self.version)

    def after(self, cursor: Cursor | None) -> ChangeBatch:
        """The next batch."""
        shape = self.version.view.shape
        if shape is not None and shape.limit is not None:
            return self._whole(cursor)
        if cursor is None:
            return self._page(self._all())
        if not cursor.is_of(self.version):
            return self._from_other(cursor)
        if not self._is_logged(cursor):
            return self._page(self._all(deletes=True, old=cursor.after.old if cursor.after else ()))
        if cursor.after is not None:
            return self._page(cursor)
        return self._delta(cursor)

    def empty(self) -> ChangeBatch:
        """No changes."""
        return self._batch([], self.now)

    # All rows, and rows that became settled, page by page

    def _all(self, *, deletes: bool = False, old: tuple[int, ...] = ()) -> Cursor:
        """Before all rows, as they are now."""
        until_ms = self.now.settled_ms if self.on_close else None
        return replace(self.now, after=Page("all", until_ms=until_ms, deletes=deletes, old=old))

    def _restart(self) -> ChangeBatch:
        """All rows, in place of what the reader has."""
        return replace(self._page(self._all()), restarted=True)

    def _from_other(self, cursor: Cursor) -> ChangeBatch:
        """The rows of this version, after those of another one."""
        versions = {version.number: version for version in self.snapshot.versions() if version.view.name == self.view}
        known = versions.get(cursor.version)
        if known is None or not cursor.is_of(known):
            return self._restart()
        old = []
        for number in (cursor.version, *(cursor.after.old if cursor.after else ())):
            had = holder = versions.get(number)
            while holder is not None and holder.home is None:  # a free edit took its rows
                holder = next((each for each in versions.values() if each.replaces == holder.number), None)
            if had is None or holder is None or not holder.whole or not self._has_same_rows(had):
                return self._restart()
            if holder.number != self.version.number:
                old.append(holder.number)
        return self._page(self._all(deletes=True, old=tuple(dict.fromkeys(old))))

    def _has_same_rows(self, known: Version) -> bool:
        """Whether rows of an earlier version are known by the same columns as those of this one."""
        before = plan(Question(self.view), known)
        same = (before.by, before.types, before.windows) == (self.plan.by, self.plan.types, self.plan.windows)
        return same and window_columns(known.view) == window_columns(self.version.view)

    def _page(self, cursor: Cursor) -> ChangeBatch:
        page = cursor.after
        assert page is not None, "only asked for pages"
        if page.reading == "old":
            return self._old_page(cursor, page)
        start_ms = cursor.settled_ms if page.reading == "settled" else None
        last = None if page.last is None else self._decode(page.last)
        rows = self._read(self.version, self._between(start_ms, page.until_ms), last, self.limit + 1)
        rest = len(rows) > self.limit
        rows = rows[: self.limit]
        if rest:
            following = replace(cursor, after=replace(page, last=self._encode(rows[-1])))
        elif page.reading == "all" and page.old:
            following = replace(cursor, after=replace(page, reading="old", last=None))
        else:
            settled_ms = page.until_ms if page.reading == "settled" else cursor.settled_ms
            following = replace(cursor, settled_ms=settled_ms, after=None)
        deletes = page.deletes or page.reading == "settled"
        return self._batch(rows, following, deletes=deletes, snapshot=page.reading == "all")

    def _old_page(self, cursor: Cursor, page: Page) -> ChangeBatch:
        """Deletes of rows that an earlier version has and this one does not."""
        old = next((each for each in self.snapshot.versions() if each.id == (self.view, page.old[0])), None)
        if old is None or not old.whole:  # dropped meanwhile
            return self._restart()
        last = None if page.last is None else self._decode(page.last)
        rows = self._read(old, self.plan, last, self.limit + 1)
        rest = len(rows) > self.limit
        rows = rows[: self.limit]
        width = 1 + len(self.plan.by)
        kept = self._places(last, rows[-1][:width], self._between(None, page.until_ms)) if rows else set()
        removed = [row[:width] for row in rows if _place(row[:width]) not in kept]
        following = replace(page, last=None, old=page.old[1:]) if len(page.old) > 1 else None
        after = replace(page, last=self._encode(rows[-1])) if rest else following
        return self._batch([], replace(cursor, after=after), removed=removed, snapshot=True)

    def _places(self, after: Row | None, last: Row, read_plan: ReadPlan) -> set[Row]:
        """The rows of this version behind one place up to another."""
        places: set[Row] = set()
        while True:
            rows = [row[: len(last)] for row in self._read(self.version, read_plan, after, self.limit)]
            places |= {_place(row) for row in rows}
            if len(rows) < self.limit or _place(rows[-1]) >= _place(last):
                return places
            after = rows[-1]

    def _read(self, version: Version, read_plan: ReadPlan, after: Row | None, most: int) -> list[Row]:
        return [] if read_plan.empty else read(self.snapshot, version, replace(read_plan, after=after), most)

    def _between(self, start_ms: int | None, end_ms: int | None) -> ReadPlan:
        """The windows that end in (start, end]."""
        windows = self.plan.windows
        if windows is None or (start_ms, end_ms) == (None, None):
            nothing = self.on_close and end_ms is None
            return replace(self.plan, empty=nothing)
        windows = replace(windows, start_ms=start_ms, end_ms=end_ms, offset_ms=windows.origin_ms)
        first, last = windows.ids
        return replace(self.plan, windows=windows, empty=first is not None and last is not None and first > last)

    # What was touched, and what became settled

    def _is_logged(self, cursor: Cursor) -> bool:
        if cursor.tick == self.now.tick or (self.on_close and not self.corrections):
            return cursor.tick <= self.now.tick
        log = self.snapshot.log(self.version)
        return log is not None and log.from_tick <= cursor.tick < log.to_tick == self.now.tick

    def _delta(self, cursor: Cursor) -> ChangeBatch:
        tick, rows = self._touched(cursor)
        if rows is None:
            return self._page(self._all(deletes=True))
        cursor = replace(cursor, tick=tick)
        if tick < self.now.tick or len(rows) >= self.limit:
            return self._batch(rows, cursor, deletes=True)
        settled_ms = self.now.settled_ms
        if settled_ms is None or self.plan.windows is None or self._between(cursor.settled_ms, settled_ms).empty:
            return self._batch(rows, replace(cursor, settled_ms=settled_ms), deletes=True)
        settling = replace(cursor, after=Page("settled", until_ms=settled_ms))
        return self._batch(rows, settling, deletes=True) if rows else self._page(settling)

    def _touched(self, cursor: Cursor) -> tuple[int, list[Row] | None]:
        """The rows that were touched since, up to a tick; None: too many of them."""
        if cursor.tick == self.now.tick or (self.on_close and not self.corrections):
            return self.now.tick, []
        overlap = self.plan.windows.overlap if self.plan.windows else 1
        upto, cells, steps = cursor.tick, 0, 0
        ticks = self.snapshot.ticks(self.version, cursor.tick)
        for tick, count in ticks:
            cells += count * overlap
            if steps and cells > self.limit:
                break
            upto, steps = tick, steps + 1
            if cells > MOST_ROWS:
                return self.now.tick, None
        if steps == len(ticks):
            upto = self.now.tick
        return upto, self._rows_of(cursor, upto) if steps else []

    def _rows_of(self, cursor: Cursor, upto: int) -> list[Row]:
        """The rows whose cells were touched at the ticks (cursor.tick, upto], as they are now."""
        cells = self.snapshot.touched(self.version, cursor.tick, upto)
        panes = cells.column(PANE).unique().to_pylist()
        around = {pane: self._around(pane) for pane in panes if self._counts(pane, cursor.settled_ms)}
        around = {pane: span for pane, span in around.items() if span[0] < span[1]}
        if not around:
            return []
        if self.plan.overlapping:
            return self._compose(cells, around, cursor.settled_ms if self.on_close else None)
        selection = replace(self.plan.selection(None), panes=hull(around.values()))
        rows = self.snapshot.changed(self.version, selection, spans_of(cells, around))
        return [(row[0], *row[2:]) for row in rows]

    def _compose(self, cells: pa.Table, around: dict[int, tuple[int, int]], closed_ms: int | None) -> list[Row]:
        """Overlapping windows: those that hold a touched cell, from all buckets of its key around it."""
        panes_of: dict[str, list[int]] = {}
        for id, pane in zip(cells.column(KEY_ID).to_pylist(), cells.column(PANE).to_pylist(), strict=True):
            if pane in around:
                panes_of.setdefault(id, []).append(pane)
        spans = {id: (around[min(panes)][0], around[max(panes)][1]) for id, panes in panes_of.items()}
        selection = replace(self.plan.selection(None), panes=hull(spans.values()))
        buckets = self.snapshot.changed(self.version, selection, span_table(spans.keys(), spans.values()))
        windows = self.plan.windows
        assert windows is not None, "only windows overlap"
        pairs = [part.merge.pair for column in self.version.view.columns for part in column.aggregate.columns]
        kept = []
        for row in compose(buckets, windows, 1 + len(self.plan.by), [*COUNTS, *pairs], None):
            start, end = windows.bounds(row[0])
            if any(start <= pane < end for pane in panes_of[row[1]]) and (closed_ms is None or end <= closed_ms):
                kept.append((row[0], *row[2:]))
        return kept

    def _counts(self, pane: int, settled_ms: int | None) -> bool:
        """Whether rows that hold a pane are to be sent now: with `on_close` one of them must have been settled."""
        return not self.on_close or self._has_settled(pane, settled_ms)

    def _around(self, pane: int) -> tuple[int, int]:
        return self.plan.windows.around(pane) if self.plan.windows else (pane, pane + 1)

    def _has_settled(self, pane: int, settled_ms: int | None) -> bool:
        """Whether a window that holds a pane was settled by then."""
        windows = self.plan.windows
        if windows is None or settled_ms is None:
            return False
        return windows.bounds(windows.first_ending_after(pane))[1] <= settled_ms

    # The whole answer, of a view with LIMIT

    def _whole(self, cursor: Cursor | None) -> ChangeBatch:
        if cursor is not None and cursor == replace(self.now, mark=cursor.mark):
            return self._batch([], cursor)
        question = Question(self.view, settled_only=self.on_close)
        answer = answer_from(self.snapshot, self.version, question, lambda _: Fresh(None), datetime.now(UTC))
        mark = hashlib.sha256(repr(answer.values).encode()).hexdigest()[:16]
        following = replace(self.now, mark=mark)
        if cursor is not None and cursor.is_of(self.version) and cursor.mark == mark:
            return self._batch([], following)
        batch = self._batch([], following, snapshot=True)
        return replace(batch, columns=answer.columns, upserts=answer.values, restarted=True)

    # What a reader gets

    def _batch(
        self,
        rows: list[Row],
        cursor: Cursor,
        *,
        deletes: bool = False,
        removed: Sequence[Row] = (),
        snapshot: bool = False,
    ) -> ChangeBatch:
        """Present rows, and those that HAVING leaves out as deletes, if these matter."""
        if self.version.view.over is not None:  # cells whose rows have left the table
            events = 1 + len(self.plan.by)
            removed = [*removed, *(row[:events] for row in rows if not row[events])]
            rows = [row for row in rows if row[events]]
        presentation = present(self.version, self.plan, rows)
        columns = result_columns(self.version.view, self.plan, presentation.wide)
        values, left_out = presentation.values, [known_by(self.version, self.plan, row) for row in removed]
        if self.shaping is not None:
            having, first = self.shaping.having, self.shaping.first
            if having is not None:
                passes = [bool(having.face(row)) for row in self.shaping.rows(values)]
                if deletes:
                    left_out += [row[:first] for row, keep in zip(values, passes, strict=True) if not keep]
                values = [row for row, keep in zip(values, passes, strict=True) if keep]
            columns = self.shaping.result_columns(columns)
            values = [self.shaping.compute(row) for row in values]
        more = cursor.after is not None or cursor.tick < self.now.tick
        more = more or (cursor.settled_ms != self.now.settled_ms)
        return ChangeBatch(
            self.view,
            columns,
            self._keys(),
            values,
            left_out,
            cursor,
            self.version.number,
            self.now.tick,
            snapshot,
            more=more,
        )

    def _keys(self) -> tuple[str, ...]:
        windows = self.plan.windows
        times = () if windows is None else (START, END) if windows.cumulative else (START,)
        return (*self.plan.by, *times)

    @property
    def view(self) -> str:
        """The name of the view."""
        return self.version.view.name

    def _encode(self, row: Row) -> Row:
        keys = zip(self.plan.types, row[1 : 1 + len(self.plan.by)], strict=True)
        return (row[0], *(_apply(encoder(of), value) for of, value in keys))

    def _decode(self, last: Row) -> Row:
        try:
            keys = zip(self.plan.types, last[1:], strict=True)
            return (int(last[0]), *(_apply(decoder(of), value) for of, value in keys))
        except (ValueError, TypeError, ArithmeticError) as error:
            raise QuestionError(
                "the cursor of changes cannot be read", found="a place that is none of this view", fix="omit it"
            ) from error


def _place(row: Row) -> Row:
    return (row[0], *map(rank, row[1:]))


def _apply(convert: Any, value: Any) -> Any:
    return value if value is None or convert is None else convert(value)
