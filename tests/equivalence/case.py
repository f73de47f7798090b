"""One case of the law: a view over a stream, with a life of its own, asked again and again along the way.

What happens to it is drawn from a seed of its own, so a case that fails can be run without its neighbours.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace.define.catalog import parse
from headrace.define.fingerprint import fingerprint
from headrace.define.model import View
from headrace.errors import NotReadyError
from headrace.serve.answer import Answer
from headrace.store.partial_columns import COUNTED
from headrace.store.selection import Selection
from headrace.store.version import Version

from .bench import Bench
from .edits import edit_shape
from .feed import Feed
from .generate import BASE, make_shape
from .reference import Event, Sessions, Shape, corrections, differences

HOUR_MS = 3_600_000
MOST_OUTPUTS = 5
MOVES = ("beat", "beat", "edit", "edit", "roll back", "nothing")


class Case:
    """A view: created, edited, rolled back, its horizon moved on, each at moments of its own."""

    def __init__(self, bench: Bench, feed: Feed, seed: int, name: str, rounds: int) -> None:
        self.bench, self.feed = bench, feed
        self.seed, self.name = seed, name
        self.chance = random.Random(f"{seed}/{name}")
        self.wanted = [make_shape(self.chance, name, MOST_OUTPUTS)]  # the newest last
        self.shapes: dict[str, Shape] = {}  # by the fingerprint of a version
        self.created = self.chance.choice([0, 0, *range(rounds)])
        self.moves: list[str] = []  # what has happened, for who must understand it
        self.answers = 0

    # What happens to it

    def decide(self, at: int) -> Shape | None:
        """The next move; what the view shall be from now on, if it shall be there."""
        if at < self.created:
            return None
        move = "create" if at == self.created else self.chance.choice(MOVES)
        match move:
            case "beat":
                self.bench.batch.refresh(self.name)
            case "edit":
                self.wanted.append(edit_shape(self.chance, self.wanted[-1]))
            case "roll back":
                self.wanted.append(self.chance.choice(self.wanted))
        shape = self.wanted[-1]
        self.moves.append(f"round {at}, commit {len(self.feed.commits)}: {move}; {shape.sql}")
        self.shapes[self._fingerprint(shape)] = shape
        return shape

    def _fingerprint(self, shape: Shape) -> str:
        (view,) = parse(shape.sql, known=self.bench.catalog).views.values()
        return fingerprint(view)

    def live(self) -> None:
        """A look, some of the batch layer's work, and a look. A build or a beat that is not done goes on later."""
        if self.moves:
            self.check()
            self.work(self.chance.choice([0, 1, 2, 9]))
            self.check()

    def work(self, most: int) -> None:
        """So many pieces of the batch layer's work on this view."""
        while most and self.bench.advance(self.name):
            most -= 1

    def speak_by_speed_alone(self) -> None:
        """Register what serves once more, over all of the log, for the speed layer only."""
        self.bench.add_view(replace(self._shape_of(self.serving()), name=f"{self.name}_speed").sql)

    # What it says

    def versions(self) -> list[Version]:
        with self.bench.store.snapshot() as snapshot:
            return [version for version in snapshot.versions() if version.view.name == self.name]

    def serving(self) -> Version:
        (version,) = [version for version in self.versions() if version.serving]
        return version

    def check(self) -> None:
        """It says what the reference says of the commits that it has; before it is ready, it says that."""
        versions = self.versions()
        for version in versions:
            assert version.stalled is None, self._told(version, "stalled", version.stalled)
            assert version.alarm is None, self._told(version, "alarm", version.alarm)
        if not any(version.serving for version in versions):
            with pytest.raises(NotReadyError):
                self.bench.answer(self.name)
            return
        self.check_version(self.serving())

    def check_version(self, version: Version) -> None:
        """One question, drawn at random, to a version that serves."""
        declared = self._shape_of(version)
        shape, asked, among = self._question(declared)
        commits = self.feed.commits[: version.bases[0].applied_to]
        rows, *counted = self._ask(version.view.name, asked)
        wrong = differences(shape, rows, _taken(shape, commits, among))
        if not shape.overlaps:
            wanted = [
                len(_taken(shape, commits[: version.bases[0].horizon], among)),
                len(_taken(shape, commits[version.bases[0].horizon :], among)),
                corrections(declared, commits, self.bench.stream.patience_ms, among, self.feed.idle_us),
            ]
            if counted != wanted:
                wrong.append(f"events by batch layer, by speed layer, corrections: {counted} instead of {wanted}")
        with self.bench.store.snapshot() as snapshot:
            counted_all = snapshot.corrections(version)
        wanted_all = corrections(declared, commits, self.bench.stream.patience_ms, idle_us=self.feed.idle_us)
        if counted_all != wanted_all:
            wrong.append(f"corrections of the view: {counted_all} instead of {wanted_all}")
        assert not wrong, self._told(version, f"asked {asked}", *wrong[:5])

    def check_layers(self) -> None:
        """At the end: batch only, speed only, and any horizon between them agree, column by column."""
        merged, by_speed = self.serving(), self._speed_version()
        end = len(self.feed.commits)
        assert (merged.bases[0].applied_to, by_speed.bases[0].applied_to, by_speed.bases[0].horizon) == (end, end, 0)
        assert merged.fingerprint == self._fingerprint(self.wanted[-1]), self._told(merged, "is not the newest edit")
        found = [(merged, self._folded(merged)), (by_speed, self._folded(by_speed))]
        self.check_version(by_speed)
        self.check_version(merged)
        self.bench.batch.refresh(self.name)
        self.work(100)
        by_batch = self.serving()
        assert by_batch.bases[0].horizon == end, self._told(by_batch, "its horizon did not move on")
        self.check()
        found.append((by_batch, self._folded(by_batch)))
        for version, rows in found[1:]:
            wrong = _disagreements(merged.view, found[0][1], rows)
            assert not wrong, self._told(version, f"against the same at horizon {merged.bases[0].horizon}", *wrong[:5])

    def _speed_version(self) -> Version:
        with self.bench.store.snapshot() as snapshot:
            version = snapshot.serving(f"{self.name}_speed")
        assert version is not None
        return version

    def _shape_of(self, version: Version) -> Shape:
        own = version if version.view.name == self.name else self.serving()  # that of speed alone is of the same shape
        return self.shapes[own.fingerprint]

    def _question(self, shape: Shape) -> tuple[Shape, dict[str, Any], Callable[[Event], bool]]:
        """A question to a view of this shape, the view that answers it by itself, and which events it is about."""
        asked: dict[str, Any] = {}
        start, end = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
        if shape.keys and self.chance.random() < 0.3:
            kept = self.chance.sample(shape.keys, self.chance.randrange(len(shape.keys)))
            shape, asked["by"] = replace(shape, keys=tuple(kept)), [name for name, _ in kept]
        if isinstance(shape.window, Sessions) and self.chance.random() < 0.2:
            shape, asked["window"] = replace(shape, window=None), "all"
        elif isinstance(shape.window, tuple) and self.chance.random() < 0.5:
            hours = self.chance.choice([1, 24])
            shape, asked["window"] = replace(shape, window=(hours * HOUR_MS, hours * HOUR_MS)), f"{hours}h"
            if hours == 1 and self.chance.random() < 0.5:
                asked["start"], asked["end"] = start, end = BASE - timedelta(hours=2), BASE
        return shape, asked, lambda event: start <= event["at"] < end

    def _ask(self, view: str, asked: dict[str, Any]) -> tuple[list[dict[str, Any]], int, int, int]:
        """All rows, page by page; events by the batch layer, by the speed layer, and corrections."""
        pages: list[Answer] = []
        limit = self.chance.choice([1000, 10_000, 37])
        while not pages or pages[-1].next_cursor:
            cursor = pages[-1].next_cursor if pages else None
            pages.append(self.bench.answer(view, limit=limit, cursor=cursor, **asked))
        self.answers += len(pages)
        return (
            [row for page in pages for row in page.rows()],
            sum(page.events["batch"] for page in pages),
            sum(page.events["speed"] for page in pages),
            sum(page.corrections for page in pages),
        )

    def _folded(self, version: Version) -> dict[tuple[Any, ...], tuple[Any, ...]]:
        """(pane, keys...) -> events, corrections and the partials of each column."""
        window, keys = version.view.window, tuple(key.name for key in version.view.keys)
        with self.bench.store.snapshot() as snapshot:
            table = snapshot.fold(version, Selection(keys, bucket_ms=window.pane_ms if window else None))
        at = 1 + len(keys)
        rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        assert len({row[:at] for row in rows}) == len(rows)
        return {row[:at]: row[at:] for row in rows}

    def _told(self, version: Version, *said: object) -> str:
        sizes = [len(commit) for commit in self.feed.commits]
        tables = [(table.from_commit, table.to_commit) for table in version.batch]
        return "\n".join(
            [
                f"case {self.seed}/{self.name} disagrees; alone: "
                f"HEADRACE_LAW={self.seed}/{self.name} python -m pytest tests/equivalence/test_law_end_to_end.py",
                f"version {version.number} ({version.state}): {self._shape_of(version).sql}",
                f"events of each commit: {sizes}; {version.bases[0]}; batch tables {tables}",
                *self.moves,
                *map(str, said),
            ]
        )


def _taken(shape: Shape, commits: list[list[Event]], among: Callable[[Event], bool]) -> list[Event]:
    return [event for commit in commits for event in commit if among(event) and shape.takes(event)]


def _disagreements(
    view: View, a: dict[tuple[Any, ...], tuple[Any, ...]], b: dict[tuple[Any, ...], tuple[Any, ...]]
) -> list[str]:
    """Where two lots of merged partials do not say the same, by each aggregate's own `agrees`."""
    said = [f"rows {a.keys() ^ b.keys()} are in one only"] if a.keys() != b.keys() else []
    for key in a.keys() & b.keys():
        if a[key][:2] != b[key][:2]:
            said.append(f"{key}: events and corrections {a[key][:2]} against {b[key][:2]}")
        at = len(COUNTED)
        for column in view.columns:
            end = at + len(column.aggregate.columns)
            if not column.aggregate.agrees(a[key][at:end], b[key][at:end]):
                said.append(f"{key} {column.name}: {a[key][at:end]} against {b[key][at:end]}")
            at = end
        if a[key][at:] != b[key][at:]:
            said.append(f"{key}: bounds of sessions {a[key][at:]} against {b[key][at:]}")
    return said
