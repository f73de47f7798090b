"""The cursor of an answer: the end of its page, and the question it belongs to."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from headrace.aggregate import Value
from headrace.errors import ConflictError, QuestionError
from headrace.serve.json_values import decoder, encoder
from headrace.serve.question import Question
from headrace.store.version import Version
from headrace.types import Type


@dataclass(frozen=True)
class PageCursor:
    """The bounds of the first page, the same for all later pages, and the last row of this page.

    With ORDER BY it is the number of rows before the next page.
    """

    start_ms: int | None
    end_ms: int | None
    last: tuple[Value, ...]  # start of the window, then the group keys
    skip: int | None = None

    def text(self, question: Question, version: Version, types: Sequence[Type]) -> str:
        """Opaque to clients; valid for any limit until the view's definition changes."""
        fields = [_mark(question), _definition(version), self.start_ms, self.end_ms]
        if self.skip is None:
            keys = [_apply(encoder(of), value) for of, value in zip(types, self.last[1:], strict=True)]
            fields += [self.last[0], *keys]
        else:
            fields += [None, self.skip]
        return base64.urlsafe_b64encode(orjson.dumps(fields)).decode().rstrip("=")


def read_cursor(question: Question, version: Version, types: Sequence[Type]) -> PageCursor:
    """The cursor that came with the question."""
    text = question.cursor or ""
    try:
        fields = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        mark, definition, start_ms, end_ms, window, *keys = fields
        if mark == _mark(question) and definition != _definition(version):
            raise _edited(version.view.name)
        if window is None:
            cursor = PageCursor(_ms(start_ms), _ms(end_ms), (), int(*keys))
        else:
            last = [_apply(decoder(of), value) for of, value in zip(types, keys, strict=True)]
            cursor = PageCursor(_ms(start_ms), _ms(end_ms), (int(window), *last))
    except (ValueError, TypeError, ArithmeticError) as error:
        raise _unreadable(text) from error
    if mark != _mark(question):
        raise _of_another_question()
    return cursor


@dataclass(frozen=True)
class SkippedRows:
    """The end of a page of a logical view: how many rows it follows, of which kept answer, computed from what."""

    rows: int
    answer: str  # the id of the answer, if it is still kept
    state: str  # of the views that it was computed from

    def text(self, question: Question, definition: str) -> str:
        """The cursor, for a view with this fingerprint."""
        fields = [_mark(question), definition, self.rows, self.answer, self.state]
        return base64.urlsafe_b64encode(orjson.dumps(fields)).decode().rstrip("=")


def read_skip(question: Question, definition: str) -> SkippedRows:
    """What the cursor of a question to a logical view says."""
    text = question.cursor or ""
    try:
        mark, of, rows, answer, state = orjson.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        skip = SkippedRows(int(rows), str(answer), str(state))
        if skip.rows < 0:
            raise ValueError(rows)
    except (ValueError, TypeError) as error:
        raise _unreadable(text) from error
    if mark != _mark(question):
        raise _of_another_question()
    if of != definition:
        raise _edited(question.view)
    return skip


def _unreadable(text: str) -> QuestionError:
    return QuestionError(
        "the cursor cannot be read",
        found=repr(text[:60]),
        expected="the next_cursor of an answer, unchanged",
        fix="omit it to start from the first page",
    )


def _of_another_question() -> QuestionError:
    return QuestionError(
        "the cursor belongs to another query",
        expected="the same query, except for the limit",
        fix="omit it to start from the first page",
    )


def _edited(view: str) -> ConflictError:
    return ConflictError(
        f"view '{view}' was edited after the page that the cursor came from",
        fix="omit the cursor to start from the first page",
    )


def _mark(question: Question) -> str:
    identity = replace(question, limit=None, cursor=None)
    return hashlib.sha256(repr(identity).encode()).hexdigest()[:12]


def _definition(version: Version) -> str:
    return version.fingerprint[:12]


def _ms(value: Any) -> int | None:
    return None if value is None else int(value)


def _apply(convert: Any, value: Any) -> Any:
    return value if value is None or convert is None else convert(value)
