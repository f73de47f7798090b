"""Answers the question of a test from a store, as a server would; a child process computes logical views."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from headrace.api.paging import join
from headrace.define.catalog import Catalog
from headrace.serve.answer import Answer
from headrace.serve.question_times import AsOf
from headrace.serve.evaluate import answer
from headrace.serve.question import Question
from headrace.serve.freshness import up_to_date
from headrace.serve.sql.sql_answer import SqlAnswer
from headrace.serve.sql.children import Children
from headrace.serve.sql.logical_answers import ask_logical
from headrace.serve.sql.logical_answers import AnswerPages
from headrace.serve.sql.view_queries import run_sql
from headrace.store.base import Store
from headrace.workspace.settings import Settings


@dataclass(frozen=True)
class Request:
    """A question, and whether all pages of its answer are read."""

    question: Question
    whole: bool


class Reader:
    """Asks one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._children = Children.of(Settings())

    def close(self) -> None:
        """Stop the child process, if one was needed."""
        self._children.close()

    def ask(self, catalog: Catalog, request: Request) -> Answer:
        """The answer: all pages of it, or one."""
        question, now, kept = request.question, datetime.now(UTC), AnswerPages()

        def page(question: Question) -> Answer:
            logical = catalog.logical.get(question.view)
            if logical is None:
                return answer(self._store, question, up_to_date, now)
            return ask_logical(logical, question, run, kept)

        def run(query: str, limit: int, as_of: AsOf | None) -> SqlAnswer:
            return run_sql(self._store, self._children, query, limit, up_to_date, now, _no_past, catalog.logical, as_of)

        pages = [page(question)]
        while request.whole and (cursor := pages[-1].next_cursor):
            pages.append(page(replace(question, cursor=cursor)))
        return join(pages)


def _no_past(*_: Any, **__: Any) -> Any:
    raise AssertionError("questions of tests have no AS OF")
