"""Questions to a workspace without a running server: from its store, about earlier states from its lakes by Spark."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.api.local_folder import DOWN, WorkspaceFolder
from headrace.serve.answer import Answer
from headrace.serve.evaluate import answer, question_limit
from headrace.serve.freshness import Fresh
from headrace.serve.question import Question

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.define.model import LogicalView
    from headrace.serve.explanation import CellQuestion, Explanation
    from headrace.serve.past.past_questions import LakeQuestions
    from headrace.serve.question_times import AsOf
    from headrace.serve.sql.logical_answers import AnswerPages
    from headrace.serve.sql.sql_answer import SqlAnswer, SqlLimit
    from headrace.spark.jobs import Job
    from headrace.store.version import Version


def stopped_freshness(version: Version) -> Fresh:
    """Without a server, nobody knows what waits."""
    return Fresh(None, DOWN)


class LocalQuestions:
    """Answers from the folder of a workspace. Spark and SQL are loaded by the first question that needs them."""

    def __init__(self, folder: WorkspaceFolder) -> None:
        self._folder = folder
        self._settings = folder.workspace.settings
        self._spark: SparkSession | None = None
        self._past: LakeQuestions | None = None
        self._pages: AnswerPages | None = None
        self._resources = ExitStack()  # Spark and its temporary files, once a question needs them

    def close(self) -> None:
        """Stop Spark, if a question started it."""
        self._resources.close()

    def ask(self, question: Question, job: Job | None = None) -> Answer:
        """Answer from the store as the server left it; AS OF from the lake, by a local Spark session."""
        logical = self._folder.catalog.logical.get(question.view)
        if logical is not None:
            return self._ask_logical(logical, question, job)
        store = self._folder.store_of(question.view)
        if question.as_of is not None:
            return self._lake_questions().ask(question, job)
        with question_limit(self._settings.question_timeout_s).watch():
            return answer(store, question, stopped_freshness, datetime.now(UTC))

    def _ask_logical(self, view: LogicalView, question: Question, job: Job | None) -> Answer:
        from headrace.serve.sql.logical_answers import (
            AnswerPages,  # only commands that use it load it
            ask_logical,  # only commands that use it load it
        )

        self._pages = self._pages or AnswerPages()
        return ask_logical(view, question, partial(self._sql_as_of, job), self._pages)

    def explain(self, question: CellQuestion, job: Job | None = None) -> Explanation:
        """The events behind a cell, read from the lake by a local Spark session, which takes some seconds to start."""
        self._folder.store_of(question.view)
        return self._lake_questions().explain(question, job)

    def _lake_questions(self) -> LakeQuestions:
        """Answers questions from the lake; created on first use."""
        from headrace.serve.past.past_questions import LakeQuestions  # only commands that use it load it

        if self._past is None:
            store = self._folder.need_store("no view has ever been computed")
            scratch = Path(self._resources.enter_context(tempfile.TemporaryDirectory(prefix="headrace-past-")))
            limit = question_limit(self._settings.question_timeout_s).watch
            lake = self._folder.base_and_lake
            self._past = LakeQuestions(store, lake, self._session, stopped_freshness, scratch, limit)
            self._resources.callback(self._past.close)
        return self._past

    def _session(self) -> SparkSession:
        from headrace.workspace.local_spark import local_session  # only commands that use it load it

        if self._spark is None:
            self._spark = self._resources.enter_context(local_session(self._folder.workspace))
        return self._spark

    def sql(self, query: str, limit: SqlLimit = None, job: Job | None = None) -> SqlAnswer:
        """Run a SELECT over the views as the server left them."""
        return self._sql_as_of(job, query, limit, None)

    def _sql_as_of(self, job: Job | None, query: str, limit: SqlLimit, as_of: AsOf | None) -> SqlAnswer:
        from headrace.serve.sql.children import Children  # only commands that use it load it
        from headrace.serve.sql.view_queries import run_sql  # only commands that use it load it

        store = self._folder.need_store("no view has ever been computed")
        children, find = Children.of(self._settings), partial(self._lake_questions().as_of, job=job)
        try:
            logical, now = self._folder.catalog.logical, datetime.now(UTC)
            return run_sql(store, children, query, limit, stopped_freshness, now, find, logical, as_of)
        finally:
            children.close()
