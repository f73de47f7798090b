"""Each change of a row is delivered once: over random splits into commits, to readers that lag and are killed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from headrace.define.catalog import parse
from headrace.deliver.live_feed import LiveFeed
from headrace.deliver.notifier import Notifier
from headrace.deliver.sinks import sink_feed
from headrace.deliver.subscription_source import ViewSource
from headrace.deliver.view_reader import ViewReader
from headrace.serve.change_batch import ChangeCursor
from headrace.store.duckdb.duckdb_store import DuckStore
from tests.faults.seeds import SEEDS
from tests.unit.serve.workbench import STREAM, Workbench, bench, view_of
from tests.unit.store.partial_files import Event, simple_event

MINUTE = 60_000
SIZES = {
    "window(at, '2 minutes')": (2, 2),
    "window(at, '3 minutes', '1 minute')": (3, 1),
    "date_trunc('hour', at)": (60, 60),
}
Place = tuple[str, int]  # a key, and the start of a window in minutes
Message = tuple[str, Place, Any]  # the op, the row, and its content with version and commit
Read = Callable[[str | None], tuple[list[Message], str | None]]


@dataclass
class Reference:
    """The rows of the view in plain Python, and what a commit delivers of them."""

    size: int
    slide: int
    patience: int
    having: int
    counts: dict[Place, int] = field(default_factory=dict)
    newest: float | None = None

    def windows(self, event: Event) -> list[Place]:
        minute = event.at_ms // MINUTE
        last = minute // self.slide * self.slide
        starts = range(last, minute - self.size, -self.slide)
        return [(event.keys[0], start) for start in starts]

    def settled(self, place: Place) -> bool:
        return self.newest is not None and place[1] + self.size <= self.newest - self.patience

    def shown(self, on_close: bool) -> dict[Place, int]:
        return {
            place: n for place, n in self.counts.items() if n >= self.having and (self.settled(place) or not on_close)
        }

    def commit(self, events: list[Event], on_close: bool) -> int:
        """How many messages a reader gets who has read everything before."""
        touched = {place for event in events for place in self.windows(event)}
        before = {place for place in self.counts.keys() | touched if self.settled(place)}
        for event in events:
            for place in self.windows(event):
                self.counts[place] = self.counts.get(place, 0) + 1
        times = [event.at_ms / MINUTE for event in events]
        self.newest = max([*times, *([] if self.newest is None else [self.newest])], default=None)
        settles = {place for place in self.shown(on_close=True) if place not in before}
        if on_close:
            return len(settles) + len(touched & before)
        return len(touched) + len(settles - touched)


def some_commits(chance: random.Random) -> list[list[Event]]:
    """Events in an order of arrival with pauses and late ones, split at random."""
    minute, events = 100.0, []
    for _ in range(chance.randrange(10, 40)):
        minute += chance.choice([0, 0.2, 0.7, 1.5, 1.5, 9])
        late = chance.choice([0, 0, 0, 0.5, 2, 30])
        events.append(simple_event(chance.choice("ab"), int(max(0, minute - late) * MINUTE), 1))
    cuts = sorted(chance.sample(range(len(events)), chance.choice([1, 3, 8])))
    return [events[start:end] for start, end in zip([0, *cuts], [*cuts, len(events)], strict=True)]


def place_of(row: dict[str, Any]) -> Place:
    return row["k0"], parse_minute(row["window_start"])


def parse_minute(text: str) -> int:
    days, hours, minutes = int(text[8:10]) - 1, int(text[11:13]), int(text[14:16])
    return (days * 24 + hours) * 60 + minutes


def read_feed(work: Workbench, on_close: bool) -> Read:
    """Server-sent events, as the page, `headrace watch` and HTTP get them."""
    feed = LiveFeed(work.store, "v", settled_only=on_close)

    def read(cursor: str | None) -> tuple[list[Message], str | None]:
        batch = feed.read(cursor)
        if batch is None:
            return [], None
        lines = [line for line in batch.messages.decode().splitlines() if line.startswith("data: ")]
        parsed = [orjson.loads(line.removeprefix("data: ")) for line in lines]
        return [(each["op"], place_of(each["row"]), each) for each in parsed], batch.cursor

    return read


def read_subscription(work: Workbench, on_close: bool) -> Read:
    source = ViewSource(work.store, Notifier(), "s", "v", None, {})

    def read(cursor: str | None) -> tuple[list[Message], str | None]:
        page = source.next(cursor or "", 3)
        parsed = [orjson.loads(line) for line in page.lines]
        messages = [(each["op"], place_of(each["row"]), {**each, "cursor": None}) for each in parsed]
        return messages, None if page.cursor == cursor else page.cursor

    return read


def read_sink(work: Workbench, on_close: bool, where: str = "") -> Read:
    close = "EMIT ON WINDOW CLOSE" if on_close else ""
    target = "WITH (connector = 'http', url = 'http://localhost/') FORMAT UPSERT ENCODE JSON"
    text = f"CREATE SINK s FROM v {where} {target} {close};"
    view = "CREATE MATERIALIZED VIEW v AS SELECT k0, count(*) AS n FROM events GROUP BY k0, window(at, '2 minutes');"
    (sink,) = parse(STREAM + view + text).sinks.values()
    feed = sink_feed.ViewFeed(sink, work.store, 4)

    def read(cursor: str | None) -> tuple[list[Message], str | None]:
        batch = feed.after(cursor)
        if batch is None:
            return [], None
        messages: list[Message] = []
        for change in batch.changes:
            start = change.row["window_start"]
            content = {**change.row, "version": change.version, "commit": change.commit}
            messages.append((change.op, place_of({**change.row, "window_start": start.isoformat()}), content))
        return messages, batch.cursor

    return read


@dataclass
class Delivered:
    """What a reader got."""

    rows: dict[Place, int] = field(default_factory=dict)
    last: dict[Place, Message] = field(default_factory=dict)
    cursor: str | None = None

    def catch_up(self, read: Read, most: int | None = None) -> int:
        """Read to the end, or some batches; returns how many messages there were."""
        count = 0
        for _ in range(1000 if most is None else most):
            messages, cursor = read(self.cursor)
            if cursor is None or (cursor == self.cursor and not messages):
                break
            for message in messages:
                self._take(message)
            count, self.cursor = count + len(messages), cursor
        return count

    def _take(self, message: Message) -> None:
        op, place, content = message
        assert self.last.get(place) != message, f"delivered twice: {message}"
        self.last[place] = message
        if op == "upsert":
            self.rows[place] = (content.get("row") or content)["n"]
        else:
            self.rows.pop(place, None)


READERS = {"feed": read_feed, "sink": read_sink, "subscription": read_subscription}
CASES = [
    (name, window, on_close)
    for name in READERS
    for window in SIZES
    for on_close in ((False,) if name == "subscription" else (False, True))
]


@pytest.mark.parametrize(("reader", "window", "on_close"), CASES)
def test_each_change_is_delivered_once(reader: str, window: str, on_close: bool) -> None:
    for seed in SEEDS:
        chance = random.Random(f"{reader} {window} {on_close} {seed}")
        patience, having = chance.choice([0, 1, 4]), chance.choice([0, 0, 2])
        with bench(patience * MINUTE) as work:
            work.start(view_of(window, f"HAVING n >= {having}" if having else ""))
            reference = Reference(*SIZES[window], patience, having)
            read = READERS[reader](work, on_close)
            delivered = Delivered()
            delivered.catch_up(read)
            behind = 0
            for commit in some_commits(chance):
                work.commit(commit)
                expected = reference.commit(commit, on_close)
                if chance.random() < 0.3:  # killed: what it had in memory is gone
                    work.store.close()
                    work.store = DuckStore.open(work.folder / "store", fence=1)
                    read = READERS[reader](work, on_close)
                if chance.random() < 0.3:  # it falls behind
                    delivered.catch_up(read, chance.choice([0, 1, 2]))
                    behind += 1
                    continue
                count = delivered.catch_up(read)
                if not behind and (reader != "sink" or not having):  # a sink knows which rows need no delete
                    assert count == expected
                behind = 0
            delivered.catch_up(read)
            assert delivered.rows == reference.shown(on_close)


def test_a_row_that_changes_and_settles_in_one_commit_is_sent_once() -> None:
    with bench() as work:
        work.start(view_of("window(at, '1 minute')"))
        work.commit([simple_event("a", 0, 1)])
        cursor = _read_all(work, None)[1]
        work.commit([simple_event("a", 30_000, 1), simple_event("b", 30_000, 1), simple_event("a", 90_000, 1)])
        ops, cursor = _read_all(work, cursor)
        assert sorted(ops) == [("upsert", "a", 1, False), ("upsert", "a", 2, True), ("upsert", "b", 1, True)]
        work.commit([simple_event("b", 150_000, 1)])
        ops, _ = _read_all(work, cursor)
        assert sorted(ops) == [("upsert", "a", 1, True), ("upsert", "b", 1, False)]


def test_a_closed_window_that_having_leaves_out_gives_no_delete() -> None:
    with bench() as work:
        work.start(view_of("window(at, '1 minute')", "HAVING n > 1"))
        cursor = _read_all(work, None, on_close=True)[1]
        work.commit([simple_event("a", 0, 1), simple_event("b", 0, 1), simple_event("b", 0, 1)])
        work.commit([simple_event("a", 90_000, 1)])
        ops, cursor = _read_all(work, cursor, on_close=True)
        assert ops == [("upsert", "b", 2, True)]


def test_a_sink_on_close_deletes_only_what_it_has_sent() -> None:
    with bench() as work:
        work.start(view_of("window(at, '2 minutes')"))
        delivered = Delivered()
        delivered.catch_up(read_sink(work, True, "WHERE n > 1"))
        work.commit([simple_event(key, 0, 1) for key in "abb"])
        for minute in (2, 4):  # each time it is started again
            work.commit([simple_event("c", minute * MINUTE, 1)])
            delivered.catch_up(read_sink(work, True, "WHERE n > 1"))
        assert [(op, place) for op, place, _ in delivered.last.values()] == [("upsert", ("b", 0))]
        work.commit([simple_event("a", 0, 1)])  # a correction
        delivered.catch_up(read_sink(work, True, "WHERE n > 1"))
        assert delivered.rows == {("b", 0): 2, ("a", 0): 2}


def _read_all(
    work: Workbench, cursor: ChangeCursor | None, *, on_close: bool = False
) -> tuple[list[tuple[Any, ...]], ChangeCursor | None]:
    reader = ViewReader(work.store, "v", limit=100, mode="settled" if on_close else "changed")
    ops: list[tuple[Any, ...]] = []
    while True:
        batch = reader.after(cursor)
        ops += [(each.op, each.row["k0"], each.row.get("n"), each.row.get("settled")) for each in batch.changes]
        cursor = batch.cursor
        if not batch.more:
            return ops, cursor
