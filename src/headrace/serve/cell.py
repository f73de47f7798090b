"""The cell of a view that a question is about, checked against the version that answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.aggregate import Value
from headrace.errors import QuestionError
from headrace.serve.cell_question import CellQuestion
from headrace.serve.plan import plan
from headrace.serve.question import Question
from headrace.serve.tiling import Windows
from headrace.serve.times import LAST_MS, Bound, iso_ms
from headrace.store.version import Version


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
            return Question(view, where, having="")  # a row that HAVING leaves out is explained all the same
        size_ms = self.end_ms - self.start_ms
        bounds = Bound(self.start_ms), Bound(self.end_ms)
        return Question(view, where, start=bounds[0], end=bounds[1], window_ms=size_ms, every_ms=size_ms, having="")

    def window_at(self, ms: int) -> tuple[int, int] | None:
        """The last window that contains this time; None if there is none."""
        assert self.windows is not None, "a view without window has no times"
        return self.windows.at(ms)


def find_cell(question: CellQuestion, version: Version) -> Cell:
    """The cell of a question; raises QuestionError if the view has no such cell."""
    view = version.view
    row_question = Question(
        question.view,
        (question.key,) if question.key else (),
        window_ms=question.window_ms,
        every_ms=question.every_ms,
        calendar=question.calendar,
        zone=question.zone,
    )
    read_plan = plan(row_question, version)
    key = read_plan.where[0] if read_plan.where else {}
    missing = [name.name for name in view.keys if name.name not in key]
    if missing:
        raise QuestionError(
            f"a cell of view '{view.name}' has one value of each key",
            found=f"none of {', '.join(repr(name) for name in missing)}",
            expected=", ".join(f"{each.name}=…" for each in view.keys),
            fix=r"NULL is written \N",
        )
    if read_plan.windows is None:
        if question.at is not None:
            raise QuestionError(
                f"view '{view.name}' has no window, so it takes no at", expected="the keys of the cell only"
            )
        return Cell(key, None, None, None)
    cell = Cell(key, read_plan.windows, None, None)
    ms = _at_ms(question, version)
    window = cell.window_at(ms)
    if window is None:
        next_ms = (ms // read_plan.windows.every_ms + 1) * read_plan.windows.every_ms
        raise QuestionError(
            f"no window of view '{view.name}' holds that time",
            found=iso_ms(ms),
            expected=f"a time before {iso_ms(next_ms - read_plan.windows.every_ms + read_plan.windows.size_ms)} "
            f"or from {iso_ms(next_ms)} on",
        )
    if window[1] > LAST_MS:
        raise QuestionError(
            f"no window of view '{view.name}' holds that time",
            found=iso_ms(ms),
            expected="a time whose window ends in the year 9999 or before",
        )
    return Cell(key, read_plan.windows, *window)


def _at_ms(question: CellQuestion, version: Version) -> int:
    window = version.view.window
    assert window is not None, "only for a view with windows"
    if question.at is None:
        raise QuestionError(
            f"view '{question.view}' has windows: say which one",
            found="no time",
            expected="any time in the window, such as its window_start",
            fix="give --at TIME (over HTTP and in Python: at)",
        )
    if not question.at.relative:
        if question.at.ms < 0:
            raise QuestionError("no pane holds that time", found=str(question.at), expected="a time from 1970 on")
        return question.at.ms
    if version.newest_us is None:
        raise QuestionError(f"view '{question.view}' has no event yet to count from", expected="a time in ISO 8601")
    newest_end = (version.newest_us // (1000 * window.pane_ms) + 1) * window.pane_ms
    return max(0, newest_end + min(question.at.ms, -1))  # 'now' is the end of the newest pane, and means that pane
