"""The contents of a view's page: its newest rows, or the first in another order, and a chart.

The newest rows are found by asking for the last windows, as many as fit the page.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from datetime import datetime

from headrace.serve.answer import Answer
from headrace.serve.question import Question
from headrace.serve.question_times import MS
from headrace.server.status import ViewStatus
from headrace.web.page.chart_series import Ask, Lines, Row, Series, column_at, find_chart, over_keys, rank, window_at
from headrace.web.page.page_selection import WINDOW, PageRange, PageSelection, numeric_columns, read_range, to_ms

SPANS = (1, 12, 144, 1728, None)  # how many of the last windows to ask for; None is all
FIRST_SPAN = 1  # where the search begins for a view that was not shown before

Chart = Series | Lines | None


@dataclass(frozen=True)
class ViewContent:
    """The rows and the chart of a view at one moment."""

    answer: Answer
    rows: list[Row]  # in the order of answer.columns
    what: str  # which rows these are, and in which order
    chart: Chart
    sort: str = f"-{WINDOW}"  # the column that orders the rows, as a URL names it; empty: by key
    older: datetime | None = None  # windows that end by then are left out


class ContentReader:
    """Reads the content of views; stores how many windows of each filled the page."""

    def __init__(self, ask: Ask, *, rows: int, windows: int, most: int) -> None:
        self._ask = ask
        self._rows = rows  # shown
        self._windows = windows  # in the chart
        self._most = most  # rows that are read to be sorted
        self._spans: dict[tuple[str, int], int] = {}

    def read(self, view: ViewStatus, selection: PageSelection | None = None) -> ViewContent:
        """The current state of a view, for the given parameters."""
        selection = selection or PageSelection(view.name)
        question = Question(view.name, selection.where, order_by="")  # in the order of windows: the page has its own
        if view.window is None:
            return self._read_all_time(view, question, selection)
        if view.newest_event is None:
            return self._read_while_catching_up(question, selection)
        if view.sessions:
            return self._read_sessions(view, question, selection)
        _, every_ms = view.window
        range_ = read_range(view.window, view.newest_event, selection)
        # HAVING is about rows; a chart shows all that happened.
        chart = find_chart(self._ask, view, replace(question, having=""), selection, range_, self._windows)
        if view.calendar and not selection.end:  # with the window that is not over yet
            range_ = replace(range_, open=True)
        if not selection.sort and (view.order_by or view.limit):
            return self._in_own_order(view, replace(range_.of(question), order_by=None), selection, chart)
        if selection.sort == WINDOW:
            return self._oldest_rows(question, selection, range_, chart)
        if selection.sort in ("", f"-{WINDOW}"):
            return self._newest_rows(every_ms, question, selection, range_, chart)
        answer, whole = self._last_windows(question, range_, every_ms, self._most, least=self._most)
        rows = sort_rows(answer, selection.sort)[: self._rows]
        return ViewContent(answer, rows, _which(answer, len(rows), selection, whole=whole), chart, selection.sort)

    def _in_own_order(
        self, view: ViewStatus, question: Question, selection: PageSelection, chart: Chart
    ) -> ViewContent:
        """The rows that the view gives by its ORDER BY and LIMIT."""
        most = self._rows if view.limit is None else min(view.limit, self._rows)
        answer = self._ask(replace(question, limit=most, newest_first=True))
        shape = [f"ORDER BY {view.order_by}"] if view.order_by else []
        shape += [f"LIMIT {view.limit:,}"] if view.limit is not None else []
        which = "first " if answer.next_cursor else ""
        what = f"the {which}{len(answer.values):,} rows{_of_range(selection)} by {' and '.join(shape)} of the view"
        return ViewContent(answer, answer.values, what, chart, "")

    def _read_sessions(self, view: ViewStatus, question: Question, selection: PageSelection) -> ViewContent:
        """Sessions, whose bounds differ from row to row: without a chart over time."""
        assert view.newest_event is not None, "there are rows"
        range_ = read_range((1, 1), view.newest_event, selection)
        question = replace(range_, open=not selection.end).of(question)  # with sessions that are not over yet
        if not selection.sort and (view.order_by or view.limit):
            return self._in_own_order(view, replace(question, order_by=None), selection, None)
        if selection.sort in ("", WINDOW, f"-{WINDOW}"):
            newest_first = selection.sort != WINDOW
            answer = self._ask(replace(question, limit=self._rows, newest_first=newest_first))
            if answer.next_cursor is None:
                what = _all(len(answer.values))
            else:
                what = f"the {'newest' if newest_first else 'oldest'} {len(answer.values):,} rows"
            what += _of_range(selection)
            return ViewContent(answer, answer.values, what, None, selection.sort or f"-{WINDOW}")
        answer = self._ask(replace(question, limit=self._most, newest_first=True))
        rows = sort_rows(answer, selection.sort)[: self._rows]
        what = _which(replace(answer, next_cursor=None), len(rows), selection, whole=answer.next_cursor is None)
        return ViewContent(answer, rows, what, None, selection.sort)

    def _read_all_time(self, view: ViewStatus, question: Question, selection: PageSelection) -> ViewContent:
        answer = self._ask(replace(question, limit=self._most))
        columns = numeric_columns(view)
        column = selection.column or (columns[0] if columns else "")
        if answer.next_cursor and (selection.sort or not (view.order_by or view.limit)):  # the largest are not known
            rows = sort_rows(answer, selection.sort)[: self._rows]
            return ViewContent(answer, rows, _which(answer, len(rows), selection), None, selection.sort)
        chart = None
        if column and len(answer.values) > 1:
            by = replace(question, by=selection.by, limit=self._most, having="")
            by_key = self._ask(by) if selection.by else answer
            chart = over_keys(by_key, by_key.values, column)
        if not selection.sort and (view.order_by or view.limit):
            return self._in_own_order(view, replace(question, order_by=None), selection, chart)
        selection = selection if selection.sort or not column else selection.with_(sort=f"-{column}")
        rows = sort_rows(answer, selection.sort)[: self._rows]
        return ViewContent(answer, rows, _which(answer, len(rows), selection), chart, selection.sort)

    def _read_while_catching_up(self, question: Question, selection: PageSelection) -> ViewContent:
        """A version that has no newest event time yet: rows from the oldest on."""
        answer = self._ask(replace(question, limit=self._rows * 4))
        rows = sort_rows(answer, selection.sort)[: self._rows] if selection.sort else _newest_first(answer, self._rows)
        what = f"{len(rows)} of the oldest rows, while the view catches up"
        return ViewContent(answer, rows, what, None, selection.sort or f"-{WINDOW}")

    def _oldest_rows(
        self, question: Question, selection: PageSelection, range_: PageRange, chart: Chart
    ) -> ViewContent:
        answer = self._ask(replace(range_.of(question), limit=self._rows))
        which = "the oldest" if answer.next_cursor else "all"
        return ViewContent(
            answer, answer.values, f"{which} {len(answer.values):,} rows{_of_range(selection)}", chart, WINDOW
        )

    def _newest_rows(
        self, every_ms: int, question: Question, selection: PageSelection, range_: PageRange, chart: Chart
    ) -> ViewContent:
        answer, whole = self._last_windows(question, range_, every_ms, self._rows * 4, least=self._rows // 4)
        if not answer.values and not (question.where or selection.start or selection.end):
            # All events are ahead of the clock of the server: show them rather than nothing.
            answer, whole = self._ask(replace(question, limit=self._rows * 4)), True
        rows = _newest_first(answer, self._rows)
        if answer.next_cursor:
            what = f"the first {len(rows)} rows of the newest window, by key"
        elif whole and len(rows) == len(answer.values):
            return ViewContent(answer, rows, f"{_all(len(rows))}{_of_range(selection)}", chart)
        else:
            what = f"the newest {len(rows)} rows{_of_range(selection)}"
        older = rows[-1][window_at(answer) + 1] - every_ms * MS if rows else None
        if rows and answer.windows and "window" in answer.windows and "cumulate_ms" not in answer.windows:
            older = rows[-1][window_at(answer)]  # of a calendar, one window ends where the next one begins
        before_start = older is not None and range_.start_ms is not None and to_ms(older) <= range_.start_ms
        return ViewContent(answer, rows, what, chart, older=None if before_start else older)

    def _last_windows(
        self, question: Question, range_: PageRange, every: int, limit: int, *, least: int
    ) -> tuple[Answer, bool]:
        """The rows of the last windows, enough windows for `least` rows if they fit, and whether these are all rows.

        If one window alone does not fit, its first rows.
        """
        span_key = None if question.where or range_.start_ms is not None else (question.view, limit)
        at = self._spans.get(span_key, FIRST_SPAN) if span_key else FIRST_SPAN

        def last(at: int) -> tuple[Answer, bool]:
            start, span = range_.start_ms, SPANS[at]
            if span is not None:
                begin = range_.end_ms // every * every - span * every
                start = begin if start is None else max(begin, start)
            answer = self._ask(replace(replace(range_, start_ms=start).of(question), limit=limit))
            return answer, start == range_.start_ms

        answer, whole = last(at)
        while answer.next_cursor and at > 0:
            at -= 1
            answer, whole = last(at)
        while not answer.next_cursor and not whole and len(answer.values) < least and at + 1 < len(SPANS):
            wider = last(at + 1)
            if wider[0].next_cursor and not answer.values:  # the last windows are empty, those before them too full
                newest = PageRange(range_.start_ms, self._newest_end(range_.of(question)))
                return self._last_windows(question, newest, every, limit, least=least)
            if wider[0].next_cursor:
                break
            at, (answer, whole) = at + 1, wider
        if span_key:
            self._spans[span_key] = at
        return answer, whole

    def _newest_end(self, question: Question) -> int:
        """The end of the newest window with events; there must be one."""
        windows = replace(question, by=(), limit=self._most, having="")
        answer = self._ask(windows)
        while answer.next_cursor:
            answer = self._ask(replace(windows, cursor=answer.next_cursor))
        return to_ms(answer.values[-1][1])


def sort_rows(answer: Answer, sort: str) -> list[Row]:
    """All rows in the order of a column, NULL and NaN last; among equals the newest window first, then by key."""
    rows = sorted(answer.values, key=lambda row: rank(row[window_at(answer)]), reverse=True)
    if not sort:
        return rows
    at = column_at(answer, sort.removeprefix("-"))
    comparable = [row for row in rows if rank(row[at])[0]]
    return sorted(comparable, key=lambda row: row[at], reverse=sort.startswith("-")) + [
        row for row in rows if not rank(row[at])[0]
    ]


def _which(answer: Answer, count: int, selection: PageSelection, *, whole: bool = True) -> str:
    """Describe the rows that are shown, out of how many that were sorted."""
    read = len(answer.values)
    if answer.next_cursor:
        newest = " of the newest window" if answer.windows else ""
        text = f"{count:,} of the first {read:,} rows{newest} by key"
    elif whole:
        text = _all(read) if count == read else f"{count:,} of {read:,} rows"
    else:
        text = f"{count:,} of the newest {read:,} rows (a range sorts others)"
    order = f", sorted by {selection.sort_column}, {'descending' if selection.descending else 'ascending'}"
    return f"{text}{_of_range(selection)}{order if selection.sort else ''}"


def _all(rows: int) -> str:
    return "the only row" if rows == 1 else f"all {rows:,} rows"


def _of_range(selection: PageSelection) -> str:
    return " of the range" if selection.start or selection.end else ""


def _newest_first(answer: Answer, most: int) -> list[Row]:
    """The rows, newest window first, keys in order; a window that does not fit completely is left out."""
    at = window_at(answer)
    windows = [list(rows) for _, rows in itertools.groupby(answer.values, key=lambda row: row[at])]
    newest: list[Row] = []
    for rows in reversed(windows):
        if newest and len(newest) + len(rows) > most:
            break
        newest += rows[:most]
    return newest
