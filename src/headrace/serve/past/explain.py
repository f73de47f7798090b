"""Explains one cell of a view: its row, and the events of the log behind it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.define.model import Stream
from headrace.errors import CorruptionError, HeadraceError, QuestionError, UnavailableError
from headrace.format import EPOCH
from headrace.lake.dead_letter_pages import decoded
from headrace.lake.delta_table import LakeTable
from headrace.maintain.partials_job import damage_of
from headrace.maintain.spark_joins import NO_LOGS, TableLogs
from headrace.name_encoding import decode_name, encode_name, shell
from headrace.serve.answer import Answer
from headrace.serve.explanation import US, CellQuestion, ExplainedEvent, Explanation, JoinedRow
from headrace.serve.past.cell_events import (
    SHOWN_BYTES,
    Counts,
    argument_columns,
    count_events,
    in_window,
    key_events,
    nearest_times,
    read_page,
)
from headrace.serve.question_times import MS
from headrace.serve.read_plan import Cell
from headrace.spark.failures import from_spark, one_line
from headrace.spark.jobs import Job
from headrace.store.version import Version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_BYTES = 4 << 20  # of Parquet: a task cannot be pre-empted, so new commits wait for it


@dataclass(frozen=True)
class _Found:
    """What the log of one base stream holds of a cell."""

    counts: Counts = field(default_factory=Counts)
    rows: tuple[dict[str, Any], ...] = ()  # one more than the page, if there are so many
    before_us: int | None = None  # if it has no event: the nearest times
    after_us: int | None = None


class Explainer:
    """Explains cells of one version of a view, as it was in one snapshot."""

    def __init__(
        self,
        spark: SparkSession,
        lakes: Sequence[tuple[Stream, LakeTable | None]],
        version: Version,
        logs: TableLogs = NO_LOGS,
    ) -> None:
        """`lakes` are those of the base streams; None: it has no events yet. `logs` are those of tables."""
        self._spark = spark.newSession()
        self._spark.conf.set("spark.sql.files.maxPartitionBytes", str(TASK_BYTES))
        self._lakes = lakes
        self._logs = logs
        self._version = version
        self._columns = argument_columns(version.view)

    def explain(self, question: CellQuestion, cell: Cell, answer: Answer, job: Job) -> Explanation:
        """The page of events of the question; `answer` is the view's answer for the cell."""
        start_s = time.monotonic()
        first, after = self._place(question.cursor)
        counts, events, next_cursor = Counts(), list[ExplainedEvent](), None
        shown_to: int | str | None = None
        nearest, commits = list[_Found](), 0
        for at, (stream, table) in enumerate(self._lakes):
            end = table.state.next_commit if table else 0
            room = question.limit - len(events) if at >= first and next_cursor is None else 0
            part = self._look(question, cell, stream, table, end, after if at == first else None, room, job)
            page = _page(part.rows, room)
            events += [self._event(stream, row) for row in page]
            if page:
                shown_to = (
                    page[-1]["position"]
                    if len(self._lakes) == 1
                    else f"{encode_name(stream.name)}:{page[-1]['position']}"
                )
            if len(part.rows) > room and next_cursor is None:
                next_cursor = shown_to
            counts, commits = counts + part.counts, commits + end
            nearest.append(part)
        in_view = sum(answer.events.values())
        window_start, window_end = cell.bounds
        return Explanation(
            cell=answer,
            key=cell.key,
            window_start=window_start,
            window_end=window_end,
            found=counts.events,
            found_in_view=counts.in_view,
            late=counts.late,
            corrections=counts.corrections,
            commits=commits,
            agrees=counts.in_view == in_view,
            note=self._note(counts, in_view),
            nearest=tuple(EPOCH + start * MS for start in _nearest(cell, nearest)) if not counts.events else (),
            events=events,
            columns=self._columns,
            keys=tuple((key.name, key.expression.type) for key in self._version.view.keys),
            next_cursor=next_cursor,
            took_ms=round((time.monotonic() - start_s) * 1000),
        )

    def _place(self, cursor: int | str | None) -> tuple[int, int | None]:
        """Which base stream a page begins with, and behind which position."""
        if not isinstance(cursor, str):
            return 0, cursor
        text, position = cursor.rsplit(":", 1)
        name = decode_name(text)
        names = [stream.name for stream, _ in self._lakes]
        if name not in names:
            raise QuestionError(
                f"view '{self._version.view.name}' does not read stream '{name}'",
                expected=f"a cursor of {' or '.join(names)}",
            )
        return names.index(name), int(position)

    def _look(
        self,
        question: CellQuestion,
        cell: Cell,
        stream: Stream,
        table: LakeTable | None,
        commits: int,
        after: int | None,
        room: int,
        job: Job,
    ) -> _Found:
        """What is in the log of a stream; rows of it as far as there is room for them."""
        if table is None:
            return _Found()
        with (
            table.reading(0, commits) as files,
            job.running(self._spark, f"explain {question.view}"),
            self._logs.opened(self._spark, stream.name, self._version.pinned) as joins,
        ):
            if not files:
                return _Found()
            damage = damage_of(table.storage, files)
            if damage:
                raise CorruptionError(damage)
            view, rows_of = self._version.view, self._version.view.rows_of(stream)
            try:
                all_times = key_events(self._spark, table.storage, stream, files, commits, view, cell, joins)
                events = in_window(all_times, rows_of, cell)
                counts = count_events(events, rows_of, self._version)
                if not counts.events:
                    return _Found(counts, (), *self._nearest_times(all_times, rows_of, cell))
                return _Found(counts, tuple(read_page(events, rows_of, self._version, after, room + 1)))
            except HeadraceError:
                raise
            except Exception as error:  # errors of Spark have no common base
                if job.cancelled:
                    raise UnavailableError("the query was cancelled", fix="retry") from error
                raise from_spark(error) or UnavailableError(f"Spark cannot read the log: {one_line(error)}") from error

    def _nearest_times(self, events: Any, stream: Stream, cell: Cell) -> tuple[int | None, int | None]:
        return (None, None) if cell.start_ms is None else nearest_times(events, stream, cell)

    def _event(self, stream: Stream, row: dict[str, Any]) -> ExplainedEvent:
        time_us, newest_us = row["time_us"], row["newest_us"]
        behind_us = 0 if newest_us is None else max(0, newest_us - time_us)
        whole = row["bytes"] <= SHOWN_BYTES
        return ExplainedEvent(
            position=row["position"],
            commit=row["commit"],
            arrived=EPOCH + row["arrived_us"] * US,
            event_time=EPOCH + time_us * US,
            delay_ms=(row["arrived_us"] - time_us) // 1000,
            behind_ms=behind_us // 1000,
            late=behind_us > 0,
            correction=row["correction"],
            in_view=row["commit"] < self._version.base(stream.name).applied_to,
            value=decoded(row["value"], whole)[0],
            bytes=row["bytes"],
            whole=whole,
            arguments={name: row[f"a{at}"] for at, (name, _) in enumerate(self._columns) if row[f"p{at}"]},
            stream=stream.name if len(self._lakes) > 1 else None,
            joined=[JoinedRow(**json.loads(text)) for text in row.get("joined", ())],
        )

    def _note(self, counts: Counts, in_view: int) -> str | None:
        name = self._version.view.name
        if counts.in_view != in_view:
            return (
                f"the view counts {in_view:,} events where the log holds {counts.in_view:,} in the same commits; "
                f"`headrace audit {shell(name)}` compares them all"
            )
        waiting = counts.events - counts.in_view
        if waiting:
            return f"{waiting:,} of these events are not in the view yet; retry in a moment"
        return None


def _page(rows: Sequence[dict[str, Any]], room: int) -> Sequence[dict[str, Any]]:
    """The rows that a page has room for: of an event all of them, if it is not larger than the page."""
    if len(rows) <= room or not room:
        return rows[:room]
    end = rows[room]["position"]
    whole = [row for row in rows[:room] if row["position"] < end]
    return whole or [row for row in rows if row["position"] == end]


def _nearest(cell: Cell, parts: Sequence[_Found]) -> list[int]:
    """The starts of the windows with events that are nearest to a cell without any."""
    before = [part.before_us for part in parts if part.before_us is not None]
    after = [part.after_us for part in parts if part.after_us is not None]
    times = [*([max(before)] if before else []), *([min(after)] if after else [])]
    windows = [cell.window_at(us // 1000) for us in times]
    return [window[0] for window in windows if window]
