"""Explains one cell of a view: its row, and the events of the log behind it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from headrace.asof.behind import (
    SHOWN_BYTES,
    Counts,
    argument_columns,
    count_events,
    in_window,
    key_events,
    nearest_times,
    read_page,
)
from headrace.define.model import Stream
from headrace.errors import CorruptionError, HeadraceError, UnavailableError
from headrace.format import EPOCH
from headrace.lake.dead import decoded
from headrace.lake.table import LakeTable
from headrace.maintain.partials import damage_of
from headrace.serve.answer import Answer
from headrace.serve.cell import Cell
from headrace.serve.cell_question import CellQuestion
from headrace.serve.explanation import US, ExplainedEvent, Explanation
from headrace.serve.times import MS
from headrace.spark.failures import from_spark, one_line
from headrace.spark.jobs import Job
from headrace.store.base import Version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_BYTES = 4 << 20  # of Parquet: a task cannot be pre-empted, so new commits wait for it


class Explainer:
    """Explains cells of one version of a view, as it was in one snapshot."""

    def __init__(self, spark: SparkSession, stream: Stream, table: LakeTable | None, version: Version) -> None:
        self._spark = spark.newSession()
        self._spark.conf.set("spark.sql.files.maxPartitionBytes", str(TASK_BYTES))
        self._stream = stream
        self._table = table
        self._version = version
        self._columns = argument_columns(version.view)

    def explain(self, question: CellQuestion, cell: Cell, answer: Answer, job: Job) -> Explanation:
        """The page of events of the question; `answer` is the view's answer for the cell."""
        start_s = time.monotonic()
        commits = self._table.state.next_commit if self._table else 0
        counts, rows, nearest = self._look(question, cell, commits, job)
        page = rows[: question.limit]
        in_view = sum(answer.events.values())
        return Explanation(
            cell=answer,
            key=cell.key,
            window_start=None if cell.start_ms is None else EPOCH + cell.start_ms * MS,
            window_end=None if cell.end_ms is None else EPOCH + cell.end_ms * MS,
            found=counts.events,
            found_in_view=counts.in_view,
            late=counts.late,
            corrections=counts.corrections,
            commits=commits,
            agrees=counts.in_view == in_view,
            note=self._note(counts, in_view),
            nearest=tuple(EPOCH + start * MS for start in nearest),
            events=[self._event(row) for row in page],
            columns=self._columns,
            keys=tuple((key.name, key.expression.type) for key in self._version.view.keys),
            next_cursor=page[-1]["position"] if len(rows) > len(page) else None,
            took_ms=round((time.monotonic() - start_s) * 1000),
        )

    def _look(
        self, question: CellQuestion, cell: Cell, commits: int, job: Job
    ) -> tuple[Counts, list[dict[str, Any]], list[int]]:
        """Counts, one row more than the page, and the starts of the nearest windows if this one has no event."""
        if self._table is None:
            return Counts(), [], []
        with self._table.reading(0, commits) as files, job.running(self._spark, f"explain {question.view}"):
            if not files:
                return Counts(), [], []
            storage = self._table.storage
            damage = damage_of(storage, files)
            if damage:
                raise CorruptionError(damage)
            try:
                all_times = key_events(self._spark, storage, self._stream, files, commits, self._version.view, cell)
                events = in_window(all_times, self._stream, cell)
                counts = count_events(events, self._stream, self._version)
                if not counts.events:
                    return counts, [], self._nearest(all_times, cell)
                return counts, read_page(events, self._stream, self._version, question.cursor, question.limit + 1), []
            except HeadraceError:
                raise
            except Exception as error:  # errors of Spark have no common base
                if job.cancelled:
                    raise UnavailableError("the question was cancelled", fix="ask again") from error
                raise from_spark(error) or UnavailableError(f"Spark cannot read the log: {one_line(error)}") from error

    def _nearest(self, events: Any, cell: Cell) -> list[int]:
        if cell.start_ms is None:
            return []
        times = nearest_times(events, self._stream, cell)
        windows = [cell.window_at(us // 1000) for us in times if us is not None]
        return [window[0] for window in windows if window]

    def _event(self, row: dict[str, Any]) -> ExplainedEvent:
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
            in_view=row["commit"] < self._version.base(self._stream.name).applied_to,
            value=decoded(row["value"], whole)[0],
            bytes=row["bytes"],
            whole=whole,
            arguments={name: row[f"a{at}"] for at, (name, _) in enumerate(self._columns) if row[f"p{at}"]},
        )

    def _note(self, counts: Counts, in_view: int) -> str | None:
        name = self._version.view.name
        if counts.in_view != in_view:
            return (
                f"the view counts {in_view:,} events where the log holds {counts.in_view:,} in the same commits; "
                f"`headrace audit {name}` compares them all"
            )
        waiting = counts.events - counts.in_view
        if waiting:
            return f"{waiting:,} of these events have not reached the view yet; ask again in a moment"
        return None
