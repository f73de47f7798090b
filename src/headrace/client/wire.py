"""Questions and errors in the form that HTTP carries them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from headrace.errors import DefinitionError, DefinitionErrors, HeadraceError, Location, QuestionError, UnavailableError
from headrace.serve.question import ALL, NEWEST, OLDEST, Question
from headrace.serve.times import Bound, iso_ms


def encode_question(question: Question) -> bytes:
    """A question as the body of a lookup: JSON, which keeps the types of keys."""
    asked = {
        "key": list(question.where),
        "by": None if question.by is None else list(question.by),
        "start": _bound("start", question.start),
        "end": _bound("end", question.end),
        "window": ALL if question.all_time else question.window_ms and f"{question.window_ms}ms",
        "every": question.every_ms and f"{question.every_ms}ms",
        "order": NEWEST if question.newest_first else OLDEST,
        "limit": question.limit,
        "cursor": question.cursor,
        **(question.as_of.parameters() if question.as_of else {}),
    }
    return orjson.dumps({name: value for name, value in asked.items() if value is not None}, default=str)


def _bound(name: str, bound: Bound | None) -> str | None:
    if bound is None or not bound.relative:
        return None if bound is None else iso_ms(bound.ms)
    if bound.ms > 0:
        raise QuestionError(f"{name} lies after the newest event", fix="count back from it, as in '-1h'")
    return f"-{-bound.ms}ms" if bound.ms else "now"


def read_error(shown: Any, status: int) -> HeadraceError:
    """The error that a server showed, as the class that it was there."""
    if not isinstance(shown, Mapping) or "message" not in shown:
        return UnavailableError(f"the server replied {status} without a reason")
    if shown.get("errors"):
        errors = (read_error(one, status) for one in shown["errors"])
        return DefinitionErrors([error for error in errors if isinstance(error, DefinitionError)])
    made = _classes().get(str(shown.get("code")), HeadraceError)
    where = _read_where(shown.get("where"))
    return made(
        shown["message"], found=shown.get("found"), expected=shown.get("expected"), fix=shown.get("fix"), where=where
    )


def _read_where(text: str | None) -> Location | None:
    if not text:
        return None
    file, line, column = text.rsplit(":", 2)
    return Location(file, int(line), int(column))


def _classes() -> dict[str, type[HeadraceError]]:
    found: dict[str, type[HeadraceError]] = {}
    rest: list[type[HeadraceError]] = [HeadraceError]  # a base comes before what refines it
    while rest:
        one = rest.pop()
        found.setdefault(one.code, one)
        rest += one.__subclasses__()
    return found
