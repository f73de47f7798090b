"""The parameters in the URL of a view's page: keys, range, chart and order. Its links and form create such URLs.

They are checked here against the view; `spans` resolves the range, which depends on the newest event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode

from headrace.aggregate import Value
from headrace.language.token_cursor import parse_type
from headrace.errors import QuestionError, did_you_mean
from headrace.serve.question import Question
from headrace.serve.question_times import parse_bound
from headrace.server.status import ViewStatus

NAMES = ("start", "end", "column", "by", "sort")
WINDOW = "window_start"
OLDEST = "oldest"  # a start before all events
MOST_CHARACTERS = 200  # of a parameter that is repeated in a message


@dataclass(frozen=True)
class Selection:
    """The parameters of a view's page.

    - `keys`: (key, text) pairs; a key given twice means either value.
    - `start`, `end`: the range of the rows and the chart, as in a question; `oldest` starts at the first event.
    - `column`: the column of the chart; without it, the first with numbers.
    - `by`: the keys by which the chart has series, the others merged; without it, one series with all keys merged.
    - `sort`: the column that orders the rows, `-` before it for descending; without it, newest window first.
    """

    view: str
    keys: tuple[tuple[str, str], ...] = ()
    start: str = ""
    end: str = ""
    column: str = ""
    by: tuple[str, ...] = ()
    sort: str = ""

    @classmethod
    def read(cls, view: ViewStatus, parameters: Iterable[tuple[str, str]]) -> Selection:
        """The parameters of a URL; those without a value are ignored, since a form sends all of its fields."""
        keys: list[tuple[str, str]] = []
        options: dict[str, str] = {}
        for name, text in parameters:
            if name.startswith("key."):
                _check("key", name.removeprefix("key."), view.keys, view)
                keys += [(name.removeprefix("key."), text)] if text else []
            elif name not in NAMES:
                raise QuestionError(
                    f"the page of a view has no parameter '{name[:MOST_CHARACTERS]}'",
                    expected=", ".join(("key.<name>", *NAMES)),
                    fix=did_you_mean(name, NAMES),
                )
            elif name in options:
                raise QuestionError(f"parameter '{name}' is given twice", fix="give it once")
            else:
                options[name] = text.strip()
        by = tuple(name.strip() for name in options.pop("by", "").split(",") if name.strip())
        selection = cls(view.name, tuple(keys), by=by, **options)
        selection._check(view)
        return selection

    def _check(self, view: ViewStatus) -> None:
        if self.column:
            _check("column of numbers", self.column, numeric_columns(view), view)
        for key in self.by:
            _check("key", key, view.keys, view)
        if len(set(self.by)) != len(self.by):
            raise QuestionError("by names a key twice", found=", ".join(self.by), expected="each key once")
        if view.window_ms is None and (self.start or self.end):
            raise QuestionError(f"view '{self.view}' has no window, so its page takes no start or end")
        parse_bound("start", self.start if self.start != OLDEST else "")
        parse_bound("end", self.end)
        if self.sort:
            _check("column to sort by", self.sort_column, sort_columns(view), view)

    @property
    def sort_column(self) -> str:
        """The column that orders the rows; empty for the order of the windows."""
        return self.sort.removeprefix("-")

    @property
    def descending(self) -> bool:
        """Whether the rows are ordered from the largest down."""
        return self.sort.startswith("-")

    @property
    def where(self) -> tuple[Mapping[str, Value], ...]:
        """The keys as a question takes them."""
        return Question.from_text(self.view, [(f"key.{key}", text) for key, text in self.keys]).where

    def with_(self, **changes: Any) -> Selection:
        """A copy with other parameters."""
        return replace(self, **changes)

    def path(self, anchor: str = "") -> str:
        """The URL of the page with these parameters."""
        parameters = [(f"key.{key}", text) for key, text in self.keys]
        parameters += [(name, text) for name in ("start", "end", "column") if (text := getattr(self, name))]
        parameters += [("by", ",".join(self.by))] if self.by else []
        parameters += [("sort", self.sort)] if self.sort else []
        query = f"?{urlencode(parameters)}" if parameters else ""
        return f"{view_path(self.view)}{query}{'#' + anchor if anchor else ''}"


def view_path(name: str) -> str:
    """The page of a view."""
    return f"/views/{quote(name, safe='')}"


def numeric_columns(view: ViewStatus) -> list[str]:
    """The columns of a view that a chart can draw."""
    return [column.name for column in view.columns if parse_type(column.type).is_numeric]


def sort_columns(view: ViewStatus) -> list[str]:
    """The columns that rows can be sorted by."""
    times = [WINDOW, "settled"] if view.window_ms is not None else []
    return [*view.keys, *(column.name for column in view.columns), *times]


def _check(what: str, name: str, names: Sequence[str], view: ViewStatus) -> None:
    if name not in names:
        raise QuestionError(
            f"view '{view.name}' has no {what} '{name[:MOST_CHARACTERS]}'",
            expected=", ".join(f"'{each}'" for each in names) or f"none: the view has no {what}",
            fix=did_you_mean(name, names),
        )
