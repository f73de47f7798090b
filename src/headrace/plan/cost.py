"""The cost of an edit: the way to the rows of its view, and, of a build, how many events it reads for how long."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from headrace.format import Shown, about, count, plural

if TYPE_CHECKING:
    from headrace.define.model import View
    from headrace.lake.delta_table import LakeTable

# Until a build has run here: what two cores of a laptop do for a view of some sums, and some to spare.
DEFAULT_EVENTS_PER_S = 500_000.0
BEGINNING_S = 4.0  # of a build, however few its events: Spark jobs, a process, a file, and until it serves
BUSY = 2.0  # processes for each core from which on a plan says that the machine is busy


How = Literal["free", "build", "refused"]


@dataclass(frozen=True)
class Way:
    """A way by which a view gets the rows of a new form.

    `stop` the build of another form, since what serves is of this one; `adopt` the rows of a version; `revive` a
    retired version that was of this form; or `build` it from the log.
    """

    kind: Literal["stop", "adopt", "revive", "build"]
    number: int | None = None  # of the version that this is done to


@dataclass(frozen=True)
class Size:
    """The size of a stream's log."""

    events: int
    bytes: int


@dataclass(frozen=True)
class Cost(Shown):
    """The cost of one build. `measured` says whether builds of this workspace gave the speed, or our default did."""

    events: int
    bytes: int
    seconds: float
    measured: bool
    busy: str | None = None  # what else runs, and makes it take longer

    def __str__(self) -> str:
        busy = f" (busy: {self.busy})" if self.busy else ""
        return f"{count(self.events)} events, {about(self.seconds)}{busy}"


@dataclass(frozen=True)
class ServerLoad:
    """The other work of the server: how many times as long a build takes beside it, and, if that is much, in words."""

    slowdown: float = 1.0
    busy: str | None = None


def load_now(other_builds: int = 0) -> ServerLoad:
    """The load of this machine; builds take turns.

    A build waits for disks and other processes for part of its time, so that it slows down less than the load grows.
    """
    cores, running = os.cpu_count() or 1, os.getloadavg()[0]
    machine = f"{running:.0f} processes want {plural(cores, 'core')}" if running / cores >= BUSY else None
    builds = f"{plural(other_builds, 'other build')} running" if other_builds else None
    return ServerLoad(
        sqrt(max(1.0, running / cores)) * (1 + other_builds), " and ".join(filter(None, (builds, machine))) or None
    )


@dataclass(frozen=True)
class Costs:
    """Facts from outside: `size_of` a stream's log, if it is known, and the speed of builds here.

    `beginning_s` is what a build took here beside reading events, on a machine that does nothing else. `way_of` says
    how a view, with a patience, gets its rows, given the versions that there are.
    """

    size_of: Callable[[str], Size | None]
    events_per_s: float | None = None
    beginning_s: float | None = None
    load: ServerLoad = ServerLoad()
    way_of: Callable[[View, Mapping[str, int]], Way | None] | None = None

    def of(self, streams: Sequence[str]) -> Cost | None:
        """The cost of a build over these streams; None if it is not known how much one of them holds."""
        sizes = [size for size in map(self.size_of, streams) if size is not None]
        if len(sizes) < len(streams):
            return None
        events = sum(size.events for size in sizes)
        beginning_s = self.beginning_s if self.beginning_s is not None else BEGINNING_S
        seconds = events / (self.events_per_s or DEFAULT_EVENTS_PER_S) + (beginning_s if events else 0)
        measured = self.events_per_s is not None or self.beginning_s is not None
        size_bytes = sum(size.bytes for size in sizes)
        load = self.load if events else ServerLoad()  # a build of no events does not wait for anything
        return Cost(events, size_bytes, round(seconds * load.slowdown, 3), measured, load.busy)


UNKNOWN = Costs(lambda stream: None)


def sum_up(costs: list[Cost]) -> Cost:
    """The cost of several builds, one after the other."""
    return Cost(
        sum(cost.events for cost in costs),
        sum(cost.bytes for cost in costs),
        round(sum(cost.seconds for cost in costs), 3),
        all(cost.measured for cost in costs),
        next((cost.busy for cost in costs if cost.busy), None),
    )


def lake_size(table: LakeTable) -> Size:
    """The current size of a lake."""
    return Size(table.rows(), sum(file.size for file in table.files(0, table.state.next_commit)))


def unread_size(folder: Path) -> Size | None:
    """The size of a stream that does not run: nothing, unless an earlier one of its name left a log."""
    return None if folder.exists() else Size(0, 0)
