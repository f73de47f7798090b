"""Questions that only the lake can answer, one or two at a time, beside what keeps views fresh."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headrace.define.model import Stream
from headrace.errors import OverloadError
from headrace.history.job import Job
from headrace.lake.table import LakeTable
from headrace.serve.answer import Freshness, answer_from, find_serving
from headrace.serve.cell import CellQuestion, find_cell
from headrace.serve.explanation import Explanation
from headrace.store.base import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_ONCE = 2  # questions that Spark works on; each takes some of what keeps views fresh

Lake = tuple[Stream, LakeTable | None]  # None: no event has come yet


class History:
    """The log of a workspace as something to ask. Spark is asked for only once a question has been understood."""

    def __init__(
        self, store: Store, lake: Callable[[str], Lake], spark: Callable[[], SparkSession], freshness: Freshness
    ) -> None:
        """`lake` finds that of a stream by its name; `spark` gives a session or says why there is none."""
        self._store = store
        self._lake = lake
        self._spark = spark
        self._freshness = freshness
        self._turns = threading.BoundedSemaphore(AT_ONCE)

    def explain(self, asked: CellQuestion, job: Job | None = None) -> Explanation:
        """The events behind a cell."""
        with self._store.snapshot() as snapshot:
            find_cell(asked, find_serving(snapshot, asked.view))  # a mistake need not wait for Spark
        if not self._turns.acquire(blocking=False):
            raise OverloadError(
                f"{AT_ONCE} questions to the log are being answered already", fix="ask again in some seconds"
            )
        try:
            from headrace.history.explain import Explainer  # with it comes PySpark, which commands need not wait for

            spark = self._spark()
            with self._store.snapshot() as snapshot:
                version = find_serving(snapshot, asked.view)
                cell = find_cell(asked, version)
                now = datetime.now(UTC)
                shown = answer_from(snapshot, version, cell.question(asked.view), self._freshness, now)
            stream, table = self._lake(version.view.stream)
            return Explainer(spark, stream, table, version).explain(asked, cell, shown, job or Job())
        finally:
            self._turns.release()
