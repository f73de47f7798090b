"""Answers from memory are those that the store would give, whatever is written between and meanwhile."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from headrace.errors import NotFoundError
from headrace.serve.evaluate import answer
from headrace.serve.freshness import Fresh
from headrace.serve.question import Question
from headrace.serve.recent_answers import RecentAnswers
from headrace.store.store_contract import Snapshot, Store
from headrace.store.version import Version
from tests import wording
from tests.contracts.store.layers import build, end_beat, find, merge, serving, versions
from tests.unit.store.partial_files import Event, make_view, simple_event

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = 60_000
EVERY = make_view("traffic")
VIEW = replace(EVERY, columns=tuple(c for c in EVERY.columns if c.name in ("count_all", "sum_bigint", "max_string")))
NARROW = replace(VIEW, columns=VIEW.columns[:2])
KEYS = ["/a", "/b", "/c"]
TEXTS = {
    b"?key.k0=/a": {"key": {"k0": "/a"}},
    b"?key.k0=/b&window=1h": {"key": {"k0": "/b"}, "window": "1h"},
    b"?key.k0=/c&start=-5m": {"key": {"k0": "/c"}, "start": "-5m"},
    b"?by=": {"by": ""},
    b"?limit=1&order=newest": {"limit": 1, "order": "newest"},
}


def freshness(version: Version) -> Fresh:
    return Fresh(sum(version.commits.values()))


def ask(recent: RecentAnswers, text: bytes) -> tuple[dict[str, Any], bool]:
    """The answer, and whether it came from memory."""
    found = recent.find("traffic", text, NOW)
    question = Question.of("traffic", **TEXTS[text])
    reply = found or recent.ask_cached(question, text, NOW) or recent.ask(question, text, NOW)
    content: dict[str, Any] = orjson.loads(reply)
    return content, found is not None


def from_store(store: Store, text: bytes) -> dict[str, Any]:
    fresh = answer(store, Question.of("traffic", **TEXTS[text]), freshness, NOW)
    content: dict[str, Any] = orjson.loads(orjson.dumps(fresh.as_dict()))
    return content


class Writer:
    """Does to a view what the speed layer, the batch layer and edits do, in any order that the store allows."""

    def __init__(self, store: Store, folder: Path, seed: int) -> None:
        self.store, self.folder, self.chance = store, folder, random.Random(seed)
        self.commits: list[list[Event]] = []
        self.actions: list[Callable[[], object]] = [self.append, self.append, self.beat, self.edit, self.roll_back]
        self.actions += [self.rename, self.stall]
        store.register(VIEW, "f1", {"events": 5})

    def act(self) -> None:
        self.chance.choice(self.actions)()

    def append(self) -> None:
        minute = len(self.commits) * MINUTE
        events = [simple_event(self.chance.choice(KEYS), minute, self.chance.randrange(9)) for _ in range(3)]
        self.commits.append(events)
        merge(self.store, self.folder, serving(self.store), events)

    def beat(self) -> None:
        base = serving(self.store).bases[0]
        if base.next_horizon is not None:
            events = [event for commit in self.commits[base.horizon : base.next_horizon] for event in commit]
            merged = self.chance.random() < 0.5
            end_beat(self.store, self.folder, serving(self.store), events, merged=merged)
        elif base.applied_to > base.horizon:
            self.store.begin_beat("traffic", serving(self.store).number, "events")

    def edit(self) -> None:
        if self.commits and serving(self.store).bases[0].next_horizon is None:
            view = self.chance.choice([VIEW, NARROW])
            version = build(self.store, self.folder, self.commits, view, f"f{self.chance.random()}")
            self.store.promote("traffic", version.number)

    def rename(self) -> None:
        number = serving(self.store).number
        self.store.adopt(serving(self.store).view, f"f{self.chance.random()}", {"events": 7}, number)

    def roll_back(self) -> None:
        """To the newest retired version that has rows, which is first brought on."""
        retired = [version for version in versions(self.store) if not version.live and version.complete]
        if retired:
            self.store.revive("traffic", retired[-1].number)
            for commit in self.commits[find(self.store, retired[-1]).bases[0].applied_to :]:
                merge(self.store, self.folder, retired[-1], commit)
            self.store.promote("traffic", retired[-1].number)

    def stall(self) -> None:
        error = self.chance.choice([None, "division by zero"])
        self.store.stall("traffic", serving(self.store).number, "events", error)


@pytest.mark.parametrize("seed", range(4))
def test_answers_from_memory_equal_those_of_the_store(store: Store, tmp_path: Path, seed: int) -> None:
    writer = Writer(store, tmp_path, seed)
    recent = RecentAnswers(store, freshness)
    sources = {True: 0, False: 0}
    for _ in range(40):
        writer.act()
        for text in writer.chance.choices(list(TEXTS), k=8):
            content, is_from_memory = ask(recent, text)
            assert content == from_store(store, text)
            sources[is_from_memory] += 1
    assert all(count > 50 for count in sources.values()), sources


def test_answers_are_right_and_never_older_while_others_write(store: Store, tmp_path: Path) -> None:
    writer = Writer(store, tmp_path, 1)
    writer.append()
    recent = RecentAnswers(store, freshness)
    texts = [b"?key.k0=/a", b"?by=", b"?key.k0=/b&window=1h"]
    done = threading.Event()
    errors: list[str] = []
    sources = {True: 0, False: 0}

    def read(text: bytes) -> None:
        highest = 0
        while not done.is_set():
            committed = serving(store).bases[0].applied_to
            content, is_from_memory = ask(recent, text)
            commits = content["as_of"]["commits"]["events"]
            events = [event for commit in writer.commits[:commits] for event in commit]
            counted = [event for event in events if text == b"?by=" or event.keys[0] == text[8:10].decode()]
            hits = sum(row["count_all"] for row in content["rows"])
            if hits != len(counted) or sum(content["events"].values()) != len(counted):
                errors.append(f"{text!r}: {hits} of {len(counted)} at commit {commits}: {content}")
            if commits < max(highest, committed) or content["freshness_ms"] != commits:
                errors.append(f"{text!r}: commit {commits} after {highest} and {committed}: {content}")
            highest = max(highest, commits)
            sources[is_from_memory] += 1

    threads = [threading.Thread(target=read, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    try:
        for _ in range(40):
            writer.act()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert errors == []
    assert all(sources.values()), sources


def test_a_short_read_sees_one_state_though_another_is_committed_meanwhile(store: Store, tmp_path: Path) -> None:
    version = store.register(VIEW, "f", {"events": 5})
    merge(store, tmp_path, version, [simple_event("/a", 0)])
    calls: list[int] = []

    def work(snapshot: Snapshot) -> tuple[int, int]:
        current = snapshot.serving("traffic")
        assert current is not None
        calls.append(current.bases[0].applied_to)
        if len(calls) == 1:
            merge(store, tmp_path, version, [simple_event("/a", 0)])
        return current.bases[0].applied_to, snapshot.speed_events(current)

    assert store.read(work) == (2, 2)
    assert calls == [1, 2]


def test_a_short_read_of_a_view_that_is_dropped_meanwhile_fails_as_any_later_one(store: Store, tmp_path: Path) -> None:
    version = store.register(VIEW, "f", {"events": 5})
    merge(store, tmp_path, version, [simple_event("/a", 0)])
    question = Question.of("traffic", {"k0": "/a"})

    def drop(_: Version) -> tuple[int | None, str | None]:
        if store.serving_now("traffic"):
            store.drop("traffic")
        return 0, None

    with wording.raises(NotFoundError, "traffic"):
        answer(store, question, drop, NOW)
    assert store.serving_now("traffic") is None


def test_memory_for_recent_answers_is_limited(store: Store, tmp_path: Path) -> None:
    version = store.register(VIEW, "f", {"events": 5})
    merge(store, tmp_path, version, [simple_event(str(n), 0) for n in range(40)])
    recent = RecentAnswers(store, freshness, most_bytes=20 * 8_000)
    texts = [f"?key.k0={n}".encode() for n in range(40)]
    for n, text in enumerate(texts):
        recent.ask(Question.of("traffic", {"k0": str(n)}), text, NOW)
        assert recent.find("traffic", texts[0], NOW), "it is used all the time"
    kept = [text for text in texts if recent.find("traffic", text, NOW)]
    assert 10 < len(kept) < 40
    assert kept == [texts[0], *texts[-len(kept) + 1 :]]
    long = b"?by=" + b"x" * 20_000
    recent.ask(Question.of("traffic", by=""), long, NOW)
    assert recent.find("traffic", long, NOW) is None
