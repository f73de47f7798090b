"""Questions and errors as JSON for HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from headrace.errors import DefinitionError, DefinitionErrors, HeadraceError, Location, QuestionError, UnavailableError
from headrace.language.source_text import quote_lines
from headrace.serve.question import ALL, NEWEST, OLDEST, Question, key_text
from headrace.serve.question_times import Bound, iso_ms


def encode_question(question: Question) -> bytes:
    """A question as the body of a lookup: JSON, which keeps the types of keys."""
    fields = {
        "keys" if question.lookup else "key": list(question.where),
        "by": None if question.by is None else list(question.by),
        "start": _bound("start", question.start),
        "end": _bound("end", question.end),
        "window": _window(question),
        "zone": question.calendar.zone if question.calendar else question.zone,
        "cumulate": question.cumulate_ms and f"{question.cumulate_ms}ms",
        "every": question.every_ms and f"{question.every_ms}ms",
        "order": NEWEST if question.newest_first else OLDEST,
        "settled_only": question.settled_only or None,
        "corrections": question.corrections or None,
        "having": question.having,
        "order_by": None if question.lookup else question.order_by,
        "limit": None if question.lookup else question.limit,
        "cursor": question.cursor,
        **(question.as_of.parameters() if question.as_of else {}),
    }
    return orjson.dumps({name: value for name, value in fields.items() if value is not None}, default=str)


def _window(question: Question) -> str | None:
    if question.calendar:
        return str(question.calendar)
    return ALL if question.all_time else f"{question.window_ms}ms" if question.window_ms else None


def _bound(name: str, bound: Bound | None) -> str | None:
    if bound is None or not bound.relative:
        return None if bound is None else iso_ms(bound.ms)
    if bound.ms > 0:
        raise QuestionError(f"{name} lies after the newest event", fix="count back from it, as in '-1h'")
    return f"-{-bound.ms}ms" if bound.ms else "now"


def key_pairs(key: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Values of fields as parameters of a URL."""
    return [
        (f"key.{name}", key_text(each))
        for name, value in key.items()
        for each in (value if isinstance(value, list | tuple) else [value])
    ]


def read_error(content: Any, status: int) -> HeadraceError:
    """The error of a reply, with its original class."""
    if not isinstance(content, Mapping) or "message" not in content:
        return UnavailableError(f"the server replied {status} without a reason")
    if content.get("errors"):
        errors = (read_error(item, status) for item in content["errors"])
        return quote_lines(DefinitionErrors([error for error in errors if isinstance(error, DefinitionError)]), {})
    error_class = _classes().get(str(content.get("code")), HeadraceError)
    where = _read_where(content.get("where"), content.get("excerpt"))
    error = error_class(
        content["message"],
        found=content.get("found"),
        expected=content.get("expected"),
        fix=content.get("fix"),
        where=where,
    )
    if isinstance(error, DefinitionError):
        error.write = content.get("write")
    return error


def _read_where(text: str | None, excerpt: str | None) -> Location | None:
    if not text:
        return None
    file, line, column = text.rsplit(":", 2)
    return Location(file, int(line), int(column), excerpt=excerpt)


def _classes() -> dict[str, type[HeadraceError]]:
    classes: dict[str, type[HeadraceError]] = {}
    pending: list[type[HeadraceError]] = [HeadraceError]  # a base class comes before its subclasses
    while pending:
        error_class = pending.pop()
        classes.setdefault(error_class.code, error_class)
        pending += error_class.__subclasses__()
    return classes
