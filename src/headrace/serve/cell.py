"""The cell of a view that a question means: checked against the version that answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.aggregate import Value
from headrace.errors import QuestionError
from headrace.serve.cell_question import CellQuestion
from headrace.serve.plan import Windows, plan
from headrace.serve.question import Question
from headrace.serve.times import LAST_MS, Bound, iso_ms
from headrace.store.base import Version


@dataclass(frozen=True)
class Cell:
    """One (key, window) of a view; without bounds it is of all time."""

    key: Mapping[str, Value]
    windows: Windows | None
    start_ms: int | None
    end_ms: int | None

    def question(self, view: str) -> Question:
        """The question whose answer is this cell alone."""
        where = (self.key,) if self.key else ()
        if self.start_ms is None or self.end_ms is None:
            return Question(view, where)
        size_ms = self.end_ms - self.start_ms
        bounds = Bound(self.start_ms), Bound(self.end_ms)
        return Question(view, where, start=bounds[0], end=bounds[1], window_ms=size_ms, every_ms=size_ms)

    def window_at(self, ms: int) -> tuple[int, int] | None:
        """The last of the windows that hold this time; None where there is none."""
        assert self.windows is not None, "a view without window has no times"
        start = ms // self.windows.every_ms * self.windows.every_ms
        return (start, start + self.windows.size_ms) if ms < start + self.windows.size_ms else None


def find_cell(asked: CellQuestion, version: Version) -> Cell:
    """The cell that is meant; raises QuestionError where the view has no such cell."""
    view = version.view
    question = Question(
        asked.view, (asked.key,) if asked.key else (), window_ms=asked.window_ms, every_ms=asked.every_ms
    )
    planned = plan(question, version)
    key = planned.where[0] if planned.where else {}
    missing = [name.name for name in view.keys if name.name not in key]
    if missing:
        raise QuestionError(
            f"a cell of view '{view.name}' has one value of each key",
            found=f"none of {', '.join(repr(name) for name in missing)}",
            expected=", ".join(f"{each.name}=…" for each in view.keys),
            fix=r"NULL is written \N",
        )
    if planned.windows is None:
        if asked.at is not None:
            raise QuestionError(
                f"view '{view.name}' has no window, so it takes no at", expected="the keys of the cell only"
            )
        return Cell(key, None, None, None)
    cell = Cell(key, planned.windows, None, None)
    ms = _at_ms(asked, version)
    found = cell.window_at(ms)
    if found is None:
        next_ms = (ms // planned.windows.every_ms + 1) * planned.windows.every_ms
        raise QuestionError(
            f"no window of view '{view.name}' holds that time",
            found=iso_ms(ms),
            expected=f"a time before {iso_ms(next_ms - planned.windows.every_ms + planned.windows.size_ms)} "
            f"or from {iso_ms(next_ms)} on",
        )
    if found[1] > LAST_MS:
        raise QuestionError(
            f"no window of view '{view.name}' holds that time",
            found=iso_ms(ms),
            expected="a time whose window ends in the year 9999 or before",
        )
    return Cell(key, planned.windows, *found)


def _at_ms(asked: CellQuestion, version: Version) -> int:
    window = version.view.window
    assert window is not None, "asked of a view with windows"
    if asked.at is None:
        raise QuestionError(
            f"view '{asked.view}' has windows, and a cell lies in one of them",
            found="no at",
            expected="at, any time in the window, such as its window_start",
        )
    if not asked.at.relative:
        if asked.at.ms < 0:
            raise QuestionError("no pane holds that time", found=str(asked.at), expected="a time from 1970 on")
        return asked.at.ms
    if version.newest_us is None:
        raise QuestionError(f"view '{asked.view}' has no event yet to count from", expected="a time in ISO 8601")
    newest_end = (version.newest_us // (1000 * window.pane_ms) + 1) * window.pane_ms
    return max(0, newest_end + min(asked.at.ms, -1))  # 'now' is the end of the newest pane: that pane is meant
