"""The outcome of each kill, by point: the table that `make test-faults` ends with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass, fields


@dataclass
class Outcome:
    """Of all kills at one point."""

    kills: int = 0
    answers: int = 0  # of the servers that died there, while events flowed
    failed: int = 0  # of these: errors, and numbers that no moment and no definition explains
    lost: int = 0  # acknowledged events that the next server did not have
    twice: int = 0
    wrong: int = 0  # rows of the next server that differ from the reference

    @property
    def bad(self) -> bool:
        return bool(self.failed or self.lost or self.twice or self.wrong)


class Tally:
    """Counts over all seeds."""

    def __init__(self, say: Callable[[str], None] = lambda line: None) -> None:
        self.say = say  # reports progress
        self._points: dict[str, Outcome] = {}

    def of(self, point: str) -> Outcome:
        return self._points.setdefault(point, Outcome())

    @property
    def sum(self) -> Outcome:
        counts = [astuple(outcome) for outcome in self._points.values()]
        return Outcome(*map(sum, zip(*counts, strict=True))) if counts else Outcome()

    def table(self) -> list[str]:
        """A line for each point, and one for all of them."""
        names = [field.name for field in fields(Outcome)]
        rows = [(point, *astuple(outcome)) for point, outcome in self._points.items() if any(astuple(outcome))]
        rows = [("point", *names), *sorted(rows), (f"{len(rows)} points", *astuple(self.sum))]
        return [f"{point:26}" + "".join(f"{count:>10}" for count in counts) for point, *counts in rows]
