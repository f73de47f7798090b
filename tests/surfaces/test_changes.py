"""The changes of a view by HTTP, Python and command line: from a real server, over reconnects and restarts."""

from __future__ import annotations

import http.client
import signal
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from headrace.api.connect import connect
from headrace.api.remote_calls import ServerEvents
from headrace.errors import NotFoundError, NotReadyError, QuestionError
from headrace.serve.change_batch import ChangeCursor, ViewChange
from headrace.store.store_contract import Step
from headrace.transport.position import Position
from tests.ports import free_port
from tests.surfaces.conftest import ERROR_SHAPE, HEADRACE, Ran, Served
from tests.surfaces.sql_shop import MINUTE_MS, NOON_MS, visit_of
from tests.unit.store.partial_files import Event, write_partials
from tests.waiting import wait_until


class Shop:
    """A served view that changes when a test says so, in the store and in the lake."""

    def __init__(self, folder: Path, serve: Callable[..., Served]) -> None:
        self.folder = folder
        self._serve = serve
        self._commits = 0
        self.port = free_port()
        self.served = serve(folder, port=self.port)
        self.subscribers: list[Subscriber] = []

    def commit(self, *visits: Event) -> None:
        runtime = self.served.runtime
        with runtime._store.snapshot() as snapshot:
            version = snapshot.serving("traffic")
        assert version is not None
        at = version.bases[0].applied_to
        self._commits += 1
        file = write_partials(self.folder / f"{self._commits}.parquet", version.view, visits)
        newest_us = max([version.newest_us or 0, *(visit.at_ms * 1000 for visit in visits)])
        lake = runtime.lookup.pipelines["visits"].table
        lake.commit(lake.state, Position.at(at + 1), newest_us, [])  # a view ahead of its lake would be dropped
        step = Step("visits", at, at + 1, Position.at(at + 1), newest_us, at)
        runtime._store.apply(step, {version.id: [file]})
        runtime._notify()

    def restart(self) -> None:
        self.served.stop()
        self.served = self._serve(self.folder, port=self.port)


@pytest.fixture
def shop(applied: Path, serve: Callable[..., Served]) -> Iterator[Shop]:
    shop = Shop(applied, serve)
    yield shop
    for subscriber in shop.subscribers:
        subscriber.close()


class Subscriber:
    """A plain HTTP client of server-sent events."""

    def __init__(self, shop: Shop, query: str = "", last_id: str | None = None, view: str = "traffic") -> None:
        parts = urlsplit(shop.served.url)
        assert parts.hostname
        self._connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=120)
        headers = {"last-event-id": last_id} if last_id else {}
        self._connection.request("GET", f"/v1/views/{view}/changes{query}", headers=headers)
        self.reply = self._connection.getresponse()
        shop.subscribers.append(self)
        self._events = ServerEvents()
        self._read = self._events.read(iter(self.reply.readline, b""))

    @property
    def id(self) -> str | None:
        return self._events.id

    def next(self) -> dict[str, Any]:
        """The next message or error."""
        for name, _, data in self._read:
            if data and name != "columns":
                content: dict[str, Any] = orjson.loads(data)
                return content
        raise AssertionError("the reply has ended")

    def rows(self, count: int) -> list[tuple[Any, ...]]:
        """So many changes."""
        found = [self.next() for _ in range(count)]
        return [(each["op"], *(each.get("row", {}).get(name) for name in ("page", "hits"))) for each in found]

    def close(self) -> None:
        self.reply.close()
        self._connection.close()


CAUGHT_UP = ("caught_up", None, None)


def test_all_rows_come_first_and_then_each_change(shop: Shop) -> None:
    shop.commit(visit_of("/home", 0), visit_of("/home", 0), visit_of("/cart", 0))
    subscriber = Subscriber(shop)
    assert (subscriber.reply.status, subscriber.reply.getheader("content-type")) == (
        200,
        "text/event-stream; charset=utf-8",
    )
    first = subscriber.next()
    assert first["row"] == {
        "page": "/cart",
        "window_start": "2026-03-01T12:00:00Z",
        "window_end": "2026-03-01T12:01:00Z",
        "hits": 1,
        "errors": 1,  # the partials of tests know no FILTER
        "bytes": 100,
        "visitors": 1,
        "settled": False,
    }
    assert {name: first[name] for name in ("op", "version", "commit", "snapshot")} == {
        "op": "upsert",
        "version": 1,
        "commit": 1,
        "snapshot": True,
    }
    assert subscriber.rows(2) == [("upsert", "/home", 2), CAUGHT_UP]
    shop.commit(visit_of("/home", 0))
    change = subscriber.next()
    assert (change["op"], change["row"]["hits"], change["commit"], "snapshot" in change) == ("upsert", 3, 2, False)
    shop.commit()  # nothing changes
    shop.commit(visit_of("/cart", 5))
    assert sorted(subscriber.rows(3), key=repr) == [
        ("upsert", "/cart", 1),
        ("upsert", "/cart", 1),
        ("upsert", "/home", 3),
    ]


def test_a_reader_continues_after_the_last_id_over_a_restart(shop: Shop) -> None:
    shop.commit(visit_of("/home", 0), visit_of("/cart", 0))
    subscriber = Subscriber(shop)
    assert subscriber.rows(3)[-1] == CAUGHT_UP
    shop.commit(visit_of("/home", 0))
    assert subscriber.rows(1) == [("upsert", "/home", 2)]
    last = subscriber.id
    subscriber.close()
    shop.commit(visit_of("/cart", 0))
    shop.restart()
    shop.commit(visit_of("/new", 0))
    again = Subscriber(shop, last_id=last)
    assert sorted(again.rows(2)) == [("upsert", "/cart", 2), ("upsert", "/new", 1)]
    assert again.rows(1) == [CAUGHT_UP]
    by_parameter = Subscriber(shop, f"?cursor={last}")
    assert sorted(by_parameter.rows(2)) == [("upsert", "/cart", 2), ("upsert", "/new", 1)]


def test_only_changes_from_now_on(shop: Shop) -> None:
    shop.commit(visit_of("/home", 0))
    subscriber = Subscriber(shop, "?snapshot=false")
    assert subscriber.rows(1) == [CAUGHT_UP]
    shop.commit(visit_of("/cart", 0))
    assert subscriber.rows(1) == [("upsert", "/cart", 1)]


def test_keys_and_conditions_select_rows(shop: Shop) -> None:
    shop.commit(visit_of("/home", 0), visit_of("/cart", 0), visit_of(None, 0))
    by_key = Subscriber(shop, "?key.page=/cart&key.page=%5CN")
    assert by_key.rows(3) == [("upsert", None, 1), ("upsert", "/cart", 1), CAUGHT_UP]
    busy = Subscriber(shop, "?where=hits%20BETWEEN%202%20AND%203")
    assert busy.rows(1) == [CAUGHT_UP]
    # Each change is read before the next one: several that are read together are one.
    for change in (("upsert", "/home", 2), ("upsert", "/home", 3), ("delete", "/home", None)):
        shop.commit(visit_of("/home", 0))
        assert busy.rows(1) == [change]
    shop.commit(visit_of("/home", 0))  # neither was sent, nor is
    shop.commit(visit_of("/cart", 0))
    assert busy.rows(1) == [("upsert", "/cart", 2)]
    assert by_key.rows(1) == [("upsert", "/cart", 2)]


def test_readers_share_one_evaluation_and_a_slow_one_holds_up_nobody(shop: Shop) -> None:
    shop.commit(visit_of("/home", 0))
    readers = [Subscriber(shop) for _ in range(20)]
    for reader in readers:
        assert reader.rows(2) == [("upsert", "/home", 1), CAUGHT_UP]
    feed = shop.served.runtime.feeds.feed("traffic")
    wait_until(lambda: feed.readers == 20)
    for count in range(2, 7):
        shop.commit(visit_of("/home", 0))
        for reader in readers[1:]:  # the first one does not read
            assert reader.rows(1) == [("upsert", "/home", count)]
    assert readers[0].rows(5)[-1] == ("upsert", "/home", 6)
    for reader in readers:
        reader.close()
    shop.commit(visit_of("/home", 0))
    wait_until(lambda: feed.readers == 0)


def test_a_quiet_reply_shows_that_it_is_alive(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.web.sse.HEARTBEAT_S", 0.1)
    subscriber = Subscriber(shop)
    assert subscriber.rows(1) == [CAUGHT_UP]
    assert subscriber.reply.readline() == b": still here\n"


@pytest.mark.parametrize(
    ("view", "query", "status", "message"),
    [
        ("trafic", "", 404, "view 'trafic' does not exist"),
        ("traffic", "?key.pag=x", 400, "view 'traffic' has no key 'pag'"),
        ("traffic", "?where=nope%20%3E%205", 400, "where: "),
        ("traffic", "?wher=x", 400, "'wher' is not a parameter of changes"),
        ("traffic", "?snapshot=maybe", 400, "snapshot is neither true nor false"),
        ("traffic", "?cursor=@@", 400, "the cursor of changes cannot be read"),
        ("traffic", "?snapshot=false&where=hits", 400, "where: "),
    ],
)
def test_mistakes_are_told_before_anything_is_sent(
    shop: Shop, view: str, query: str, status: int, message: str
) -> None:
    subscriber = Subscriber(shop, query, view=view)
    content = orjson.loads(subscriber.reply.read())["error"]
    assert (subscriber.reply.status, content.keys()) == (status, ERROR_SHAPE)
    assert content["message"].startswith(message)


def test_the_end_of_a_view_ends_the_reply(shop: Shop) -> None:
    subscriber = Subscriber(shop)
    assert subscriber.rows(1) == [CAUGHT_UP]
    shop.served.runtime._store.drop("traffic")
    shop.served.runtime._notify()
    assert subscriber.next()["error"]["message"] == "view 'traffic' does not exist"


# Python


def next_change(changes: Iterator[ViewChange]) -> tuple[Any, ...]:
    change = next(changes)
    return change.op, change.row.get("page"), change.row.get("hits")


def test_python_reads_changes_over_a_restart(shop: Shop) -> None:
    shop.commit(visit_of("/home", 0), visit_of("/cart", 0))
    with connect(shop.folder) as workspace:
        changes = workspace.subscribe("traffic", where="hits < 5", key={"page": ["/home", "/new"]})
        first = next(changes)
        assert (first.op, first.row["page"], first.row["window_start"].timestamp() * 1000) == (
            "upsert",
            "/home",
            NOON_MS,
        )
        shop.commit(visit_of("/new", 0))
        assert next_change(changes) == ("upsert", "/new", 1)
        with ThreadPoolExecutor(1) as pool:
            beside = pool.submit(lambda: (shop.restart(), shop.commit(visit_of("/new", 0))))
            assert next_change(changes) == ("upsert", "/new", 2)
            beside.result()
        changes.close()


def test_python_continues_after_a_cursor(shop: Shop) -> None:
    shop.commit(visit_of("/home", 0))
    with connect(shop.folder) as workspace:
        changes = workspace.subscribe("traffic")
        cursor = next(changes).cursor
        assert cursor
        assert ChangeCursor.from_text(cursor).tick == 1
        changes.close()
        shop.commit(visit_of("/cart", 0))
        again = workspace.subscribe("traffic", cursor=cursor)
        assert next_change(again) == ("upsert", "/cart", 1)
        again.close()


def test_in_the_process_of_the_server(shop: Shop) -> None:
    from headrace.deliver.change_question import ChangeQuestion

    shop.commit(visit_of("/home", 0))
    changes = shop.served.verbs.changes(ChangeQuestion.of("traffic"))
    assert next_change(changes) == ("upsert", "/home", 1)
    shop.commit(visit_of("/home", 0))
    assert next_change(changes) == ("upsert", "/home", 2)
    changes.close()
    assert shop.served.runtime.feeds.readers == {"traffic": 0}


def test_python_without_a_server_or_a_view(shop: Shop) -> None:
    with connect(shop.folder) as workspace:
        with pytest.raises(NotFoundError, match="there is no stream or view 'trafic'"):
            next(iter(workspace.subscribe("trafic")))
        with pytest.raises(QuestionError, match="has no key 'pages'"):
            next(iter(workspace.subscribe("traffic", key={"pages": "x"})))
    shop.served.stop()
    with connect(shop.folder) as workspace, pytest.raises(NotReadyError, match="the server is not running"):
        next(iter(workspace.subscribe("traffic")))


# Command line


def test_watch_prints_a_line_for_each_change(shop: Shop, headrace: Callable[..., Ran]) -> None:
    shop.commit(visit_of("/home", 0), visit_of("/cart", 0))
    command = [str(HEADRACE), "watch", "traffic", "--key", "page=/home", "--json", "-w", str(shop.folder)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    try:
        first = orjson.loads(process.stdout.readline())
        assert (first["op"], first["row"]["window_start"], first["row"]["hits"]) == (
            "upsert",
            "2026-03-01T12:00:00Z",
            1,
        )
        shop.commit(visit_of("/home", 0))
        assert orjson.loads(process.stdout.readline())["row"]["hits"] == 2
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
    finally:
        process.kill()
        process.communicate()
    refused = headrace("watch", "traffic", "--where", "nope = 1", "-w", shop.folder)
    assert (refused.code, refused.out) == (2, "")
    assert "nope" in refused.err


def test_a_minute_later(shop: Shop) -> None:
    """Rows settle: they change once more."""
    shop.commit(visit_of("/home", 0))
    subscriber = Subscriber(shop, "?settled_only=true")
    assert subscriber.rows(1) == [CAUGHT_UP]
    shop.commit(Event(("/late",), NOON_MS + 10 * MINUTE_MS, visit_of("", 0).values))
    settled = subscriber.next()
    assert (settled["row"]["page"], settled["row"]["settled"]) == ("/home", True)
    subscriber.close()
