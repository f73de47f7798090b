"""Answers questions: from the store, from earlier answers, by SQL in a child process, or from the lake by Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import orjson

from headrace.serve.answer import Answer
from headrace.serve.evaluate import answer as answer_question
from headrace.serve.evaluate import question_limit
from headrace.serve.explanation import CellQuestion, Explanation
from headrace.serve.freshness import Fresh
from headrace.serve.past.past_questions import LakeQuestions
from headrace.serve.question import Question
from headrace.serve.question_times import AsOf
from headrace.serve.recent_answers import RecentAnswers
from headrace.serve.sql.children import Children
from headrace.serve.sql.logical_answers import AnswerPages, ask_logical
from headrace.serve.sql.sql_answer import SqlAnswer, SqlLimit
from headrace.serve.sql.view_queries import run_sql
from headrace.server.lookup import Lookup
from headrace.spark.jobs import Job
from headrace.spark.session import Session
from headrace.store.store_contract import Store
from headrace.store.version import Version
from headrace.workspace.settings import Settings


class Answering:
    """The questions of a running workspace. All methods may be called from any thread."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        lookup: Lookup,
        freshness: Callable[[Version], Fresh],
        session: Session,
        scratch: Path,
    ) -> None:
        self._store = store
        self._lookup = lookup
        self._freshness = freshness
        self._limit = question_limit(settings.question_timeout_s)
        self._recent = RecentAnswers(store, freshness)
        self._pages = AnswerPages()
        self._children = Children.of(settings)
        self._past = LakeQuestions(store, lookup.lake_of, session, freshness, scratch, self._limit.watch)

    def prepare(self) -> None:
        """Start a child process for the next SELECT."""
        self._children.prepare()

    def begin_stop(self) -> None:
        """End questions that take long."""
        self._limit.stop()
        self._children.stop()
        # In a thread: Java may be slow to answer.
        threading.Thread(target=self._past.stop, name="stop-questions", daemon=True).start()

    def close(self) -> None:
        """Release child processes and files."""
        self._children.close()
        self._past.close()

    def answer(self, question: Question, job: Job | None = None) -> Answer:
        """Answer from the store, in one snapshot; AS OF from the lake, by a Spark job."""
        logical = self._lookup.logical.get(question.view)
        if logical is not None:
            return ask_logical(logical, question, partial(self._sql_as_of, job), self._pages)
        self._lookup.refuse_stream(question.view)
        if question.as_of is not None:
            return self._past.ask(question, job)
        with self._limit.watch():
            return answer_question(self._store, question, self._freshness, datetime.now(UTC))

    def recall(self, view: str, text: bytes) -> bytes | None:
        """Return the JSON of an earlier answer to a question, if the view has not changed; never waits."""
        return self._recent.find(view, text, datetime.now(UTC))

    def ask_json(self, question: Question, text: bytes) -> bytes:
        """Return the JSON of the answer from the store, to be recalled by the text of the question."""
        if question.view in self._lookup.logical:
            return orjson.dumps(self.answer(question).as_dict())
        self._lookup.refuse_stream(question.view)
        with self._limit.watch():
            return self._recent.ask(question, text, datetime.now(UTC))

    def ask_cached(self, question: Question, text: bytes) -> bytes | None:
        """Return the JSON of the answer if the rows are in memory, else None; never waits."""
        if question.view in self._lookup.logical:
            return None
        self._lookup.refuse_stream(question.view)
        return self._recent.ask_cached(question, text, datetime.now(UTC))

    def select(self, query: str, limit: SqlLimit = None, job: Job | None = None) -> SqlAnswer:
        """Run a SELECT over the views in a child process; Spark computes views AS OF first."""
        return self._sql_as_of(job, query, limit, None)

    def _sql_as_of(self, job: Job | None, query: str, limit: SqlLimit, as_of: AsOf | None) -> SqlAnswer:
        try:
            find, now, logical = partial(self._past.as_of, job=job), datetime.now(UTC), self._lookup.logical
            return run_sql(self._store, self._children, query, limit, self._freshness, now, find, logical, as_of)
        finally:
            self._children.prepare()

    def find_events(self, question: CellQuestion, job: Job | None = None) -> Explanation:
        """Find the events behind a cell, in the lake by Spark."""
        self._lookup.refuse_logical(question.view, "events of its own")
        return self._past.explain(question, job)
