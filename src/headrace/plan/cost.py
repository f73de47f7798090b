"""What an edit takes: the way to the rows of its view, and of a build, how many events it reads and about how long."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from headrace.format import Shown, about, count

if TYPE_CHECKING:
    from headrace.define.model import View
    from headrace.lake.table import LakeTable

# Until a build has run here: what two cores of a laptop do for a view of some sums, and some to spare.
DEFAULT_EVENTS_PER_S = 500_000.0
BEGINNING_S = 3.0  # of a build, however few its events: a Spark job, a process, a file


How = Literal["free", "build", "refused"]


@dataclass(frozen=True)
class Way:
    """How a view comes by the rows of a new form.

    `stop` the build of another form, since what serves is of this one; `adopt` the rows of a version; `revive` a
    retired version that was of this form; or `build` it from the log.
    """

    kind: Literal["stop", "adopt", "revive", "build"]
    number: int | None = None  # of the version that this is done to


@dataclass(frozen=True)
class Size:
    """How much a stream's log holds."""

    events: int
    bytes: int


@dataclass(frozen=True)
class Cost(Shown):
    """What one build reads. `measured` says whether builds of this workspace gave the speed, or our default did."""

    events: int
    bytes: int
    seconds: float
    measured: bool

    def __str__(self) -> str:
        return f"{count(self.events)} events, {about(self.seconds)}"


@dataclass(frozen=True)
class Costs:
    """What is known from outside: `size_of` a stream's log, if that can be told, and how fast builds went here.

    `way_of` says how a view, with a patience, comes by its rows, given the versions that there are.
    """

    size_of: Callable[[str], Size | None]
    events_per_s: float | None = None
    way_of: Callable[[View, Mapping[str, int]], Way | None] | None = None

    def of(self, streams: Sequence[str]) -> Cost | None:
        """The cost of a build over these streams; None if it is not known how much one of them holds."""
        sizes = [size for size in map(self.size_of, streams) if size is not None]
        if len(sizes) < len(streams):
            return None
        events = sum(size.events for size in sizes)
        seconds = events / (self.events_per_s or DEFAULT_EVENTS_PER_S) + (BEGINNING_S if events else 0)
        return Cost(events, sum(size.bytes for size in sizes), round(seconds, 3), self.events_per_s is not None)


UNKNOWN = Costs(lambda stream: None)


def sum_up(costs: list[Cost]) -> Cost:
    """What several builds cost, one after the other."""
    return Cost(
        sum(cost.events for cost in costs),
        sum(cost.bytes for cost in costs),
        round(sum(cost.seconds for cost in costs), 3),
        all(cost.measured for cost in costs),
    )


def lake_size(table: LakeTable) -> Size:
    """What a lake holds now."""
    return Size(table.rows(), sum(file.size for file in table.files(0, table.state.next_commit)))


def unread_size(folder: Path) -> Size | None:
    """Of a stream that does not run: nothing, unless an earlier one of its name has left a log. That is not opened."""
    return None if folder.exists() else Size(0, 0)
