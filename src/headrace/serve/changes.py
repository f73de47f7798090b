"""The changes of a view after a cursor: its rows that are new, other or gone, from one snapshot of the store.

A row is always given as it is now, so changes are upserts and deletes: who applies all of them, in order, from any
cursor, has the rows of the view's default question. A row that a later batch gives anyway, since it was touched again
or has become settled, is left to the last of them: a reader never gets the same row twice. What is not logged is made
up for by all rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

import pyarrow as pa

from headrace.define.model import View
from headrace.errors import QuestionError
from headrace.serve.change_batch import ChangeBatch, ChangeCursor, ChangePage
from headrace.serve.evaluate import answer_from, read
from headrace.serve.freshness import Fresh
from headrace.serve.json_values import decoder, encoder
from headrace.serve.presentation import END, START, known_by, present, result_columns, window_columns
from headrace.serve.question import Question
from headrace.serve.read_plan import ReadPlan, plan
from headrace.serve.shaping import Shaping, find_shaping
from headrace.serve.touched_rows import TouchedRows, panes_of
from headrace.serve.touched_sessions import TouchedSessions
from headrace.serve.windows import Windows
from headrace.store.partial_columns import PANE
from headrace.store.selection import rank
from headrace.store.store_contract import Snapshot
from headrace.store.version import Version

Row = tuple[Any, ...]
MOST_ROWS = 200_000  # of one step; more are read page by page, with all others
# Which rows a reader gets: each when it changes; those of settled windows, when they settle, and what later events
# change in them, or not; those of windows whose last step has begun, each from then on. The last step of a window is
# the time that it adds to the window before it: other windows of a key hold only a part of their events, or none.
# A reader of the last kind also gets the rows that HAVING leaves out, as deletes.
ChangeMode = Literal["changed", "settled", "settled once", "begun"]


def keeps_rows(view: View) -> bool:
    """Whether a row stays until it changes itself: with LIMIT, other rows take its place."""
    return view.shape is None or view.shape.limit is None


def cursor_of(version: Version) -> ChangeCursor:
    """The cursor after all changes of a version."""
    return ChangeCursor(version.number, version.total("applied_to"), version.settled_ms, None, version.fingerprint[:8])


@dataclass
class Evaluation:
    """One look at the changes of a version, for one reader."""

    snapshot: Snapshot
    version: Version
    limit: int
    mode: ChangeMode = "changed"
    plan: ReadPlan = field(init=False)
    shaping: Shaping | None = field(init=False)
    now: ChangeCursor = field(init=False)

    def __post_init__(self) -> None:
        question = Question(self.view)
        self.plan = plan(question, self.version)
        self.shaping = find_shaping(question, self.version, self.plan.by)
        self.now = cursor_of(self.version)
        self.left_out = self.mode == "begun"  # rows that HAVING leaves out are always given, as deletes
        self.on_close = self.mode != "changed"
        if self.mode == "begun":
            view = self.version.view  # sessions begin with their first event
            self.on_close = view.window is not None and keeps_rows(view) and not view.has_sessions
            self.now = replace(self.now, settled_ms=self.begun_ms) if self.on_close else self.now
        self.touched = TouchedRows(self.snapshot, self.version, self.plan, self.on_close)
        self.touched_sessions = TouchedSessions(self.snapshot, self.version)

    @property
    def _is_final(self) -> bool:
        """Whether a row is given once, whatever changes in it later."""
        return self.mode == "settled once"

    @property
    def begun_ms(self) -> int | None:
        """The end of the window whose last step the time of the view is in; None before the first event."""
        times = [base.time_us for base in self.version.bases if base.time_us is not None]
        if not times or self.plan.windows is None:
            return None
        return self.plan.windows.bounds(self.plan.windows.first_ending_after(max(times) // 1000))[1]

    def after(self, cursor: ChangeCursor | None) -> ChangeBatch:
        """The next batch."""
        if not keeps_rows(self.version.view):
            return self._all_at_once(cursor)
        if cursor is None:
            return self._page(self._all())
        if not cursor.is_of(self.version):
            return self._from_other(cursor)
        if not self._is_logged(cursor):
            if self.plan.has_sessions:  # which of those that the reader has are gone is not known
                return self._restart()
            return self._page(self._all(deletes=True, old=cursor.after.old if cursor.after else ()))
        if cursor.after is not None:
            return self._page(cursor)
        return self._delta(cursor)

    def pages(self) -> Iterator[ChangeBatch]:
        """All rows as they are now, page by page."""
        page = self.after(None)
        yield page
        while page.more:
            page = self.after(page.cursor)
            yield page

    def of_key(self, key: Mapping[str, Any], start_ms: int, end_ms: int) -> ChangeBatch:
        """The rows of a key, given in JSON values, whose windows end in (start, end] and are given now."""
        if self.now.settled_ms is None:
            return self.empty()
        where = {name: _apply(decoder(of), key[name]) for name, of in zip(self.plan.by, self.plan.types, strict=True)}
        read_plan = self._between(start_ms, min(end_ms, self.now.settled_ms))
        rows = self._read(self.version, replace(read_plan, where=(where,) if where else ()), None, MOST_ROWS)
        return self._batch(rows, self.now)

    def empty(self) -> ChangeBatch:
        """No changes."""
        return self._batch([], self.now)

    # All rows, and rows that became settled, page by page

    def _all(self, *, deletes: bool = False, old: tuple[int, ...] = ()) -> ChangeCursor:
        """Before all rows, as they are now."""
        until_ms = self.now.settled_ms if self.on_close else None
        return replace(self.now, after=ChangePage("all", until_ms=until_ms, deletes=deletes, old=old))

    def _restart(self) -> ChangeBatch:
        """All rows, in place of what the reader has."""
        return replace(self._page(self._all()), restarted=True)

    def _from_other(self, cursor: ChangeCursor) -> ChangeBatch:
        """The rows of this version, after those of another one."""
        versions = {version.number: version for version in self.snapshot.versions() if version.view.name == self.view}
        known = versions.get(cursor.version)
        if known is None or not cursor.is_of(known) or self.plan.has_sessions or known.view.has_sessions:
            return self._restart()
        old = []
        for number in (cursor.version, *(cursor.after.old if cursor.after else ())):
            had = holder = versions.get(number)
            while holder is not None and holder.home is None:  # a free edit took its rows
                holder = next((each for each in versions.values() if each.replaces == holder.number), None)
            if had is None or holder is None or not holder.complete or not self._has_same_rows(had):
                return self._restart()
            if holder.number != self.version.number:
                old.append(holder.number)
        return self._page(self._all(deletes=True, old=tuple(dict.fromkeys(old))))

    def _has_same_rows(self, known: Version) -> bool:
        """Whether rows of an earlier version are known by the same columns as those of this one."""
        before = plan(Question(self.view), known)
        same = (before.by, before.types, before.windows) == (self.plan.by, self.plan.types, self.plan.windows)
        return same and window_columns(known.view) == window_columns(self.version.view)

    def _page(self, cursor: ChangeCursor) -> ChangeBatch:
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
        if page.reading == "settled":
            rows = self._not_touched_since(cursor, rows)
            return self._batch(rows, following, deletes=self.left_out, first=self.on_close)
        return self._batch(rows, following, deletes=page.deletes or self.left_out, snapshot=True)

    def _not_touched_since(self, cursor: ChangeCursor, rows: list[Row]) -> list[Row]:
        """The rows that the changes after a cursor do not have."""
        if not rows or cursor.tick == self.now.tick or self._is_final:
            return rows
        assert self.plan.windows is not None, "only windows settle"
        width = 1 + len(self.plan.by)
        if self.plan.has_sessions:
            sessions = self.touched_sessions.holding(self.snapshot.touched(self.version, cursor.tick, self.now.tick))
            touched = {_place(row[:width]) for row in sessions}
            return [row for row in rows if _place(row[:width]) not in touched]
        span = (self.plan.windows.bounds(rows[0][0])[0], self.plan.windows.bounds(rows[-1][0])[1])
        cells = _within(self.snapshot.touched(self.version, cursor.tick, self.now.tick), span)
        touched = {_place((row[0], *row[2 : 1 + width])) for row in self.touched.rows_of(cells, span[1])}
        return [row for row in rows if _place(row[:width]) not in touched]

    def _old_page(self, cursor: ChangeCursor, page: ChangePage) -> ChangeBatch:
        """Deletes of rows that an earlier version has and this one does not."""
        old = next((each for each in self.snapshot.versions() if each.id == (self.view, page.old[0])), None)
        if old is None or not old.complete:  # dropped meanwhile
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
        return replace(self.plan, windows=windows, empty=windows.none)

    # What was touched, and what became settled

    def _is_logged(self, cursor: ChangeCursor) -> bool:
        if cursor.tick == self.now.tick or self._is_final:
            return cursor.tick <= self.now.tick
        log = self.snapshot.log(self.version)
        return log is not None and log.from_tick <= cursor.tick < log.to_tick == self.now.tick

    def _delta(self, cursor: ChangeCursor) -> ChangeBatch:
        tick, rows, removed = self._touched(cursor)
        if rows is None:
            return self._restart() if self.plan.has_sessions else self._page(self._all(deletes=True))
        cursor = replace(cursor, tick=tick)
        settled_ms = self.now.settled_ms
        settling = self._between(cursor.settled_ms, settled_ms)
        if settled_ms is None or settling.windows is None or settling.empty:
            following = replace(cursor, settled_ms=settled_ms) if tick == self.now.tick else cursor
            return self._batch(rows, following, deletes=True, removed=removed)
        if tick == self.now.tick:
            cursor = replace(cursor, after=ChangePage("settled", until_ms=settled_ms))
        if not rows and not removed and cursor.after:
            return self._page(cursor)
        return self._batch(rows, cursor, deletes=True, removed=removed, settling=settling.windows)

    def _touched(self, cursor: ChangeCursor) -> tuple[int, list[Row] | None, list[Row]]:
        """The rows that were touched since, up to a tick; None: too many of them. Then removed sessions."""
        if cursor.tick == self.now.tick or self._is_final:
            return self.now.tick, [], []
        overlap = self.plan.windows.overlap if self.plan.windows else 1
        upto, cells, steps = cursor.tick, 0, 0
        ticks = self.snapshot.ticks(self.version, cursor.tick)
        for tick, count in ticks:
            cells += count * overlap
            if steps and cells > self.limit:
                break
            upto, steps = tick, steps + 1
            if cells > MOST_ROWS:
                return self.now.tick, None, []
        if steps == len(ticks):
            upto = self.now.tick
        if not steps:
            return upto, [], []
        if self.plan.has_sessions:
            settled_ms = (cursor.settled_ms, self.now.settled_ms) if self.on_close else None
            return upto, *self.touched_sessions.between(cursor.tick, upto, self.now.tick, settled_ms)
        rows = self.touched.rows_of(self.snapshot.touched(self.version, cursor.tick, upto), cursor.settled_ms)
        if upto < self.now.tick:  # rows that were touched again come then
            again = panes_of(self.snapshot.touched_again(self.version, cursor.tick, upto))
            rows = [row for row in rows if not self.touched.holds_any(row[0], again.get(row[1], ()))]
        return upto, [(row[0], *row[2:]) for row in rows], []

    # All rows at once, of a view with LIMIT

    def _all_at_once(self, cursor: ChangeCursor | None) -> ChangeBatch:
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
        cursor: ChangeCursor,
        *,
        deletes: bool = False,
        removed: Sequence[Row] = (),
        settling: Windows | None = None,
        snapshot: bool = False,
        first: bool = False,
    ) -> ChangeBatch:
        """Present rows, and those that HAVING leaves out as deletes, if these matter.

        Of the windows `settling` only deletes are given: all of their rows are given after what was touched.
        """
        if self.version.view.over is not None:  # cells whose rows have left the table
            events = 1 + len(self.plan.by)
            removed = [*removed, *(row[:events] for row in rows if not row[events])]
            rows = [row for row in rows if row[events]]
        presentation = present(self.version, self.plan, rows)
        columns = result_columns(self.version.view, self.plan, presentation.wide)
        left_out = [known_by(self.version, self.plan, row) for row in removed]
        passes = [True] * len(rows)
        if self.shaping is not None and self.shaping.having is not None:
            having, width = self.shaping.having, self.shaping.first
            passes = [bool(having.evaluate(row)) for row in self.shaping.rows(presentation.values)]
            if deletes:
                left_out += [row[:width] for row, keep in zip(presentation.values, passes, strict=True) if not keep]
        judged = zip(rows, presentation.values, passes, strict=True)
        values = [value for row, value, keep in judged if keep and not (settling and settling.holds(row))]
        if self.shaping is not None:
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
            first=first,
            having=self.shaping is not None and self.shaping.having is not None,
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


def _within(cells: pa.Table, span: tuple[int, int]) -> pa.Table:
    """The cells within a span of time."""
    panes = cells.column(PANE).to_numpy()
    return cells.filter(pa.array((panes >= span[0]) & (panes < span[1])))


def _apply(convert: Any, value: Any) -> Any:
    return value if value is None or convert is None else convert(value)
