"""One evaluation for all readers of a view; readers that lag read the store; a view without readers is let go."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.deliver import live_feed as feed_module
from headrace.deliver.change_question import ChangeQuestion
from headrace.deliver.live_feed import FOLLOWER, LiveFeeds, subscribe
from headrace.deliver.view_reader import ViewReader
from headrace.errors import NotFoundError
from headrace.serve.change_batch import ChangeBatch, ChangeCursor
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.store_contract import Step, Store
from headrace.transport.position import Position
from tests import wording
from tests.unit.serve.workbench import view_of
from tests.unit.store.partial_files import simple_event, write_partials
from tests.waiting import wait_until

MINUTE = 60_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = DuckStore.open(tmp_path / "store", fence=1)
    opened.register(view_of("window(at, '1 minute')"), "a" * 64, {"events": 0})
    yield opened
    opened.close()


@pytest.fixture
def stopped() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def feeds(store: Store, stopped: threading.Event) -> Iterator[LiveFeeds]:
    made = LiveFeeds(store, stopped)
    yield made
    stopped.set()
    made.notify()
    for thread in made.threads:
        thread.join()


def commit(store: Store, folder: Path, *keys: str, minute: int = 0) -> None:
    with store.snapshot() as snapshot:
        version = snapshot.serving("v")
    assert version is not None
    at = version.bases[0].applied_to
    file = write_partials(folder / f"{at}.parquet", version.view, [simple_event(key, minute * MINUTE) for key in keys])
    store.apply(Step("events", at, at + 1, Position.at(at), minute * MINUTE * 1000, at), {version.id: [file]})


def followers(store: Store) -> list[tuple[str, str]]:
    with store.snapshot() as snapshot:
        return [(each.view, each.name) for each in snapshot.followers()]


def test_a_step_is_evaluated_once_for_all_readers(
    store: Store, feeds: LiveFeeds, stopped: threading.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluations: list[object] = []

    after = ViewReader.after

    def counting(reader: ViewReader, cursor: ChangeCursor | None) -> ChangeBatch:
        evaluations.append(cursor)
        return after(reader, cursor)

    commit(store, tmp_path, "a")
    readers = [subscribe(feeds, ChangeQuestion.of("v"), stopped) for _ in range(30)]
    for reader in readers:
        assert next(reader).row["k0"] == "a"
    monkeypatch.setattr(ViewReader, "after", counting)
    for at in range(2, 5):
        commit(store, tmp_path, "a")
        feeds.notify()
        for reader in readers:
            assert next(reader).row["n"] == at
    assert len(evaluations) <= 2 * 3  # a batch for each step, and perhaps a look that finds nothing
    for reader in readers:
        reader.close()
    assert feeds.readers == {"v": 0}


def test_a_reader_that_the_feed_has_left_behind_reads_the_store(
    store: Store, feeds: LiveFeeds, stopped: threading.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "MOST_BATCHES", 2)
    quick = subscribe(feeds, ChangeQuestion.of("v"), stopped)
    commit(store, tmp_path, "a")
    assert next(quick).row["n"] == 1
    commit(store, tmp_path, "a")
    feeds.notify()
    assert next(quick).row["n"] == 2
    late = subscribe(feeds, ChangeQuestion.of("v"), stopped)
    assert next(late).row["n"] == 2
    for at in range(3, 9):
        commit(store, tmp_path, "a")
        feeds.notify()
        assert next(quick).row["n"] == at
    assert next(late).row["n"] == 8  # each row once, as it is now
    commit(store, tmp_path, "b")
    feeds.notify()
    assert [next(reader).row["k0"] for reader in (quick, late)] == ["b", "b"]
    for reader in (quick, late):
        reader.close()


def test_a_view_without_readers_is_let_go_after_a_while(store: Store, stopped: threading.Event, tmp_path: Path) -> None:
    feeds = LiveFeeds(store, stopped, linger_s=1.0)
    reader = subscribe(feeds, ChangeQuestion.of("v", snapshot=False), stopped)

    def change() -> None:
        wait_until(lambda: feeds.readers == {"v": 1})  # it reads from here on
        commit(store, tmp_path, "a")
        feeds.notify()

    changing = threading.Thread(target=change)
    changing.start()
    assert next(reader).row["k0"] == "a"
    changing.join()
    assert followers(store) == [("v", FOLLOWER)]
    reader.close()
    feeds.notify()
    wait_until(lambda: followers(store) == [])
    for thread in feeds.threads:
        thread.join()


def test_readers_of_an_earlier_process_may_come_back(store: Store, stopped: threading.Event) -> None:
    store.follow("v", FOLLOWER)
    feeds = LiveFeeds(store, stopped)
    assert feeds.readers == {"v": 0}
    assert followers(store) == [("v", FOLLOWER)]
    stopped.set()
    feeds.notify()
    for thread in feeds.threads:
        thread.join()


def test_a_view_that_does_not_exist_is_not_followed(store: Store, feeds: LiveFeeds, stopped: threading.Event) -> None:
    with pytest.raises(NotFoundError):
        next(subscribe(feeds, ChangeQuestion.of("none"), stopped))
    assert followers(store) == []


def test_the_end_of_a_view_ends_its_readers(store: Store, feeds: LiveFeeds, stopped: threading.Event) -> None:
    reader = subscribe(feeds, ChangeQuestion.of("v", snapshot=False), stopped)

    def drop() -> None:
        wait_until(lambda: feeds.readers == {"v": 1})
        store.drop("v")
        feeds.notify()

    dropping = threading.Thread(target=drop)
    dropping.start()
    with wording.raises(NotFoundError, "v"):
        next(reader)
    dropping.join()
