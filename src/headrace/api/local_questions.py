"""Questions to a workspace without a running server: from its store, about earlier states from its lakes by Spark."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.api.local_folder import DOWN, WorkspaceFolder
from headrace.lazy import later
from headrace.serve.answer import Answer
from headrace.serve.evaluate import answer as answer_question
from headrace.serve.evaluate import question_limit
from headrace.serve.freshness import Fresh
from headrace.serve.question import Question

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.define.model import LogicalView
    from headrace.serve.explanation import CellQuestion, Explanation
    from headrace.serve.past import past_questions
    from headrace.serve.past.past_questions import LakeQuestions
    from headrace.serve.question_times import AsOf
    from headrace.serve.sql import children as children_module
    from headrace.serve.sql import logical_answers, view_queries
    from headrace.serve.sql.logical_answers import AnswerPages
    from headrace.serve.sql.sql_answer import SqlAnswer, SqlLimit
    from headrace.spark.jobs import Job
    from headrace.store.version import Version
    from headrace.workspace import local_spark
else:  # loaded by their first use
    logical_answers = later("headrace.serve.sql.logical_answers")
    past_questions = later("headrace.serve.past.past_questions")
    local_spark = later("headrace.workspace.local_spark")
    children_module = later("headrace.serve.sql.children")
    view_queries = later("headrace.serve.sql.view_queries")


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

    def answer(self, question: Question, job: Job | None = None) -> Answer:
        """Answer from the store as the server left it; AS OF from the lake, by a local Spark session."""
        logical = self._folder.catalog.logical.get(question.view)
        if logical is not None:
            return self._ask_logical(logical, question, job)
        store = self._folder.store_of(question.view)
        if question.as_of is not None:
            return self._lake_questions().ask(question, job)
        with question_limit(self._settings.question_timeout_s).watch():
            return answer_question(store, question, stopped_freshness, datetime.now(UTC))

    def _ask_logical(self, view: LogicalView, question: Question, job: Job | None) -> Answer:
        self._pages = self._pages or logical_answers.AnswerPages()
        return logical_answers.ask_logical(view, question, partial(self._sql_as_of, job), self._pages)

    def find_events(self, question: CellQuestion, job: Job | None = None) -> Explanation:
        """The events behind a cell, read from the lake by a local Spark session, which takes some seconds to start."""
        self._folder.store_of(question.view)
        return self._lake_questions().explain(question, job)

    def _lake_questions(self) -> LakeQuestions:
        """Answers questions from the lake; created on first use."""
        if self._past is None:
            store = self._folder.need_store("no view has ever been computed")
            scratch = Path(self._resources.enter_context(tempfile.TemporaryDirectory(prefix="headrace-past-")))
            limit = question_limit(self._settings.question_timeout_s).watch
            lake = self._folder.base_and_lake
            self._past = past_questions.LakeQuestions(store, lake, self._session, stopped_freshness, scratch, limit)
            self._resources.callback(self._past.close)
        return self._past

    def _session(self) -> SparkSession:
        if self._spark is None:
            self._spark = self._resources.enter_context(local_spark.local_session(self._folder.workspace))
        return self._spark

    def select(self, query: str, limit: SqlLimit = None, job: Job | None = None) -> SqlAnswer:
        """Run a SELECT over the views as the server left them."""
        return self._sql_as_of(job, query, limit, None)

    def _sql_as_of(self, job: Job | None, query: str, limit: SqlLimit, as_of: AsOf | None) -> SqlAnswer:
        store = self._folder.need_store("no view has ever been computed")
        children, find = children_module.Children.of(self._settings), partial(self._lake_questions().as_of, job=job)
        try:
            logical, now = self._folder.catalog.logical, datetime.now(UTC)
            return view_queries.run_sql(store, children, query, limit, stopped_freshness, now, find, logical, as_of)
        finally:
            children.close()
