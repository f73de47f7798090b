"""Answers questions to logical views: as a SELECT over the view, in the child process; answers are cached for all of
their pages.
"""

from __future__ import annotations

import hashlib
import math
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa

from headrace.aggregate import Value
from headrace.define.fingerprint import fingerprint
from headrace.define.model import LogicalView
from headrace.define.query_rules import LONGEST_BYTES
from headrace.duckdb_connections import literal
from headrace.errors import ConflictError, HeadraceError, QuestionError, SqlError, did_you_mean
from headrace.format import iso
from headrace.serve.answer import Answer
from headrace.serve.evaluate import too_many_rows
from headrace.serve.json_values import key_value
from headrace.serve.page_cursor import SkippedRows, read_skip
from headrace.serve.question import DEFAULT_LIMIT, Question
from headrace.serve.question_times import AsOf
from headrace.serve.sql.as_of_queries import quoted
from headrace.serve.sql.sql_answer import SqlAnswer
from headrace.store.selection import rank
from headrace.types import BIGINT, BOOLEAN, TIMESTAMP, Type, arrow_type, decimal

AHEAD = 100_000  # rows of an answer that are evaluated for its first page, at most
MOST_BYTES = 128 << 20  # of all answers
LARGEST_SHARE = 8  # of one answer, rows up to MOST_BYTES / LARGEST_SHARE are kept
KEEP_S = 600.0


@dataclass(frozen=True)
class _Entry:
    answer: SqlAnswer
    first: int  # how many rows of the view come before those of the answer
    until: float


class AnswerPages:
    """The last answers that were longer than their first page."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, _Entry] = OrderedDict()  # the one that was used last is last

    def keep(self, answer: SqlAnswer, first: int, id: str | None = None) -> str:
        """Keep an answer whose rows follow `first` others; returns the id that finds it."""
        id = id or secrets.token_urlsafe(9)
        with self._lock:
            self._entries[id] = _Entry(_fitting(answer), first, self._now() + KEEP_S)
            self._entries.move_to_end(id)
            self._clear()
        return id

    def find(self, id: str, skip: int) -> SqlAnswer | None:
        """The kept rows after the first `skip` of the view; None if they must be evaluated."""
        with self._lock:
            self._clear()
            entry = self._entries.get(id)
            if entry is None:
                return None
            self._entries.move_to_end(id)
        place, rows = skip - entry.first, entry.answer.table.num_rows
        if not 0 <= place < rows:
            return None
        return replace(entry.answer, table=entry.answer.table.slice(place))

    def _clear(self) -> None:
        now = self._now()
        for id in [id for id, entry in self._entries.items() if entry.until < now]:
            del self._entries[id]
        while sum(entry.answer.table.nbytes for entry in self._entries.values()) > MOST_BYTES:
            self._entries.popitem(last=False)


def first_rows(answer: SqlAnswer, count: int) -> SqlAnswer:
    """The first rows of an answer; it knows how many it leaves out."""
    left_out = answer.table.num_rows - count
    if left_out <= 0:
        return answer
    more = None if answer.more_rows is None else answer.more_rows + left_out
    return replace(answer, table=answer.table.slice(0, count), truncated=True, more_rows=more)


def _fitting(answer: SqlAnswer) -> SqlAnswer:
    size, rows = answer.table.nbytes, answer.table.num_rows
    most = MOST_BYTES // LARGEST_SHARE
    return answer if size <= most else first_rows(answer, max(1, rows * most // size))


Run = Callable[[str, int, AsOf | None], SqlAnswer]  # a query over views, the most rows of its answer, and as of when
Row = tuple[Any, ...]
START, SETTLED = "window_start", "settled"
WIDE = decimal(38)  # of integers that do not fit BIGINT


def ask_logical(view: LogicalView, question: Question, run: Run, pages: AnswerPages) -> Answer:
    """The rows of a logical view now, with the state of each view that it was computed from.

    All pages of an answer are of the moment of the first one.
    """
    _refuse(view, question)
    mark = fingerprint(view)
    where = _typed_keys(view, question)
    skip = read_skip(question, mark) if question.cursor else None
    page, skip = _page(_Evaluation(view, question, where, run), pages, skip)
    columns, values = _rows(view, page.table)
    missing = None
    if question.lookup:
        if page.truncated:
            raise too_many_rows(question)
        values, missing = _arrange([name for name, _ in columns], values, where)
    following = replace(skip, rows=skip.rows + len(values))
    return Answer(
        view=view.name,
        version=None,
        columns=columns,
        values=values,
        next_cursor=following.text(question, mark) if page.truncated else None,
        more_rows=page.more_rows,
        commits=page.commits,
        newest_event=_newest(page.views),
        at=datetime.fromisoformat(page.at),
        freshness_ms=page.freshness_ms,
        freshness_reason=page.freshness_reason,
        events={},
        corrections=0,
        approximate={},
        windows=None,
        stalled=next(
            (f"view '{name}': {part['stalled']}" for name, part in page.views.items() if part["stalled"]), None
        ),
        missing=missing,
        parts=page.views,
    )


@dataclass(frozen=True)
class _Evaluation:
    """Evaluates a logical view for a question."""

    view: LogicalView
    question: Question
    where: Sequence[Mapping[str, Value]]
    run: Run

    def rows(self, skip: int, limit: int) -> SqlAnswer:
        """So many rows after the first `skip`."""
        query = _select(self.view, self.question, self.where, skip)
        if len(query.encode()) > LONGEST_BYTES:
            raise QuestionError(
                f"the query names too many keys of logical view '{self.view.name}' at once",
                found=f"{len(self.where):,} keys",
                fix="ask in parts",
            )
        try:
            return self.run(query, limit, self.question.as_of)
        except SqlError as error:
            raise _with_view(self.view, error) from error


def _page(evaluation: _Evaluation, pages: AnswerPages, skip: SkippedRows | None) -> tuple[SqlAnswer, SkippedRows]:
    """A page, and where it begins. More rows than those of the page are evaluated, and kept for the next ones."""
    limit = evaluation.question.limit or DEFAULT_LIMIT
    if evaluation.question.lookup:
        return evaluation.rows(0, limit), SkippedRows(0, "", "")
    if skip is None:
        answer = evaluation.rows(0, max(limit, AHEAD))
        id = pages.keep(answer, 0) if answer.table.num_rows > limit or answer.truncated else ""
        return first_rows(answer, limit), SkippedRows(0, id, _state(answer))
    kept = pages.find(skip.answer, skip.rows)
    if kept is not None:
        return first_rows(kept, limit), skip
    answer = evaluation.rows(skip.rows, max(limit, AHEAD))
    if _state(answer) != skip.state:
        raise ConflictError(
            f"what view '{evaluation.view.name}' is computed from has changed since the page that the cursor "
            "came from, and the rows of that moment are not kept any more",
            expected=f"pages of the first {AHEAD:,} rows, asked within {KEEP_S / 60:.0f} minutes",
            fix="omit the cursor to start from the first page; `headrace sql --limit all` gives all rows of one moment",
        )
    pages.keep(answer, skip.rows, skip.answer)
    return first_rows(answer, limit), skip


def _state(answer: SqlAnswer) -> str:
    """What decides the rows of an answer: the versions and commits of its parts, and what of them is settled."""
    names = ("version", "commits", "settled_until")
    state = {view: [part[name] for name in names] for view, part in answer.views.items()}
    return hashlib.sha256(orjson.dumps(state, option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]


def _refuse(view: LogicalView, question: Question) -> None:
    """Refuse what only views with panes of events can answer."""
    asks = {
        "start": question.start,
        "end": question.end,
        "window": question.window_ms or question.calendar or question.all_time,
        "every": question.every_ms,
        "cumulate": question.cumulate_ms,
        "zone": question.zone,
        "by": question.by is not None,
        "corrections": question.corrections,
    }
    name = next((name for name, value in asks.items() if value), None)
    if name is not None:
        raise QuestionError(
            f"view '{view.name}' is logical, so it cannot answer {name}",
            expected="keys, having, order_by, settled_only, version_as_of, timestamp_as_of, limit and cursor",
            fix=f"ask what it reads ({', '.join(view.reads)}), or write a SELECT over it: `headrace sql`",
        )
    if question.settled_only and dict(view.columns).get(SETTLED) != BOOLEAN:
        raise QuestionError(
            f"view '{view.name}' has no column settled, so settled_only cannot be answered",
            fix="select settled, or bool_and(settled) AS settled, in its definition",
        )


def _typed_keys(view: LogicalView, question: Question) -> list[Mapping[str, Value]]:
    types = dict(view.columns)
    for alternative in question.where:
        for name in alternative:
            if name not in types:
                raise QuestionError(
                    f"view '{view.name}' has no column '{name}'",
                    expected=", ".join(types),
                    fix=did_you_mean(name, types),
                )
            if types[name].is_nested:
                raise QuestionError(f"column '{name}' is of type {types[name]}", fix="select rows by another column")
    return [{name: key_value(name, types[name], value) for name, value in each.items()} for each in question.where]


def _select(view: LogicalView, question: Question, where: Sequence[Mapping[str, Value]], skip: int) -> str:
    """The question as a SELECT over the view."""
    conditions = [f"({' OR '.join(map(_condition, where))})"] if where else []
    conditions += [SETTLED] if question.settled_only else []
    # The line ends close comments that a condition may end with.
    conditions += [f"({question.having}\n)"] if question.having and question.having.strip() else []
    text = f"SELECT * FROM {quoted(view.name)}"
    text += f" WHERE {' AND '.join(conditions)}" if conditions else ""
    order = _order(view, question)
    text += f" ORDER BY {order}\n" if order else ""
    return text + (f" OFFSET {skip}" if skip else "")


def _order(view: LogicalView, question: Question) -> str | None:
    """That of the question, else of the view; a view without one gets one, so that pages fit together."""
    if question.order_by and question.order_by.strip():
        return question.order_by
    if view.ordered and question.order_by is None:
        return None
    types = dict(view.columns)
    names = [name for name, of in types.items() if not of.is_nested]
    items = []
    if types.get(START) == TIMESTAMP:
        items = [f"{quoted(START)} {'DESC' if question.newest_first else 'ASC'} NULLS FIRST"]
        names.remove(START)
    return ", ".join([*items, *(f"{quoted(name)} NULLS FIRST" for name in names)]) or None


def _condition(key: Mapping[str, Value]) -> str:
    parts = [
        f"{quoted(name)} IS NULL" if value is None else f"{quoted(name)} = {_literal(value)}"
        for name, value in key.items()
    ]
    return f"({' AND '.join(parts)})"


def _literal(value: Value) -> str:
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | Decimal():
            return f"{value:f}" if isinstance(value, Decimal) else str(value)
        case float():
            return f"CAST('{value!r}' AS DOUBLE)" if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)"
        case datetime():
            return f"TIMESTAMPTZ '{iso(value)}'"
        case date():
            return f"DATE '{value.isoformat()}'"
    return literal(value)


def _rows(view: LogicalView, table: pa.Table) -> tuple[tuple[tuple[str, Type], ...], list[Row]]:
    """The columns with the types of this answer, and the rows."""
    columns, values = [], []
    for (name, declared), column in zip(view.columns, table.columns, strict=True):
        of, typed = _typed(declared, column)
        columns.append((name, of))
        items = typed.to_pylist()
        values.append([_plain(of, item) for item in items] if of.is_nested else items)
    return tuple(columns), list(zip(*values, strict=True))


def _typed(declared: Type, column: pa.ChunkedArray) -> tuple[Type, pa.ChunkedArray]:
    """A column as its declared type; integers that do not fit it are DECIMAL(38,0), never a wrong number."""
    try:
        return declared, column.cast(arrow_type(declared))
    except pa.ArrowInvalid:
        if declared == BIGINT:
            return WIDE, column.cast(arrow_type(WIDE))
        raise


def _plain(of: Type, value: Any) -> Value:
    """A nested value as answers have it: maps as dictionaries."""
    if value is None or not of.is_nested:
        return value
    if of.name == "MAP":
        return {key: _plain(of.inner, item) for key, item in value}
    if of.name == "ARRAY":
        return [_plain(of.inner, item) for item in value]
    return {name: _plain(part, value[name]) for name, part in of.parts}


def _arrange(
    names: Sequence[str], rows: Sequence[Row], where: Sequence[Mapping[str, Value]]
) -> tuple[list[Row], tuple[Mapping[str, Value], ...]]:
    """The rows of each key in the order of the keys, and the keys without rows."""
    arranged: list[Row] = []
    missing = []
    for key in where:
        places = [(names.index(name), rank(value)) for name, value in key.items()]
        own = [row for row in rows if all(rank(row[place]) == value for place, value in places)]
        arranged += own
        missing += [] if own else [key]
    return arranged, tuple(missing)


def _newest(parts: Mapping[str, Mapping[str, Any]]) -> datetime | None:
    times = [datetime.fromisoformat(part["newest_event"]) for part in parts.values() if part["newest_event"]]
    return max(times, default=None)


def _with_view(view: LogicalView, error: SqlError) -> HeadraceError:
    """The error of the query, with the view that it comes from."""
    message = error.message.replace("the query ", "the computation ", 1)
    return type(error)(
        f"view '{view.name}' cannot be computed: {message}", found=error.found, expected=error.expected, fix=error.fix
    )
