"""Events as they come: server-sent events, pages, named subscriptions; by HTTP, Python and commands."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

import headrace as hr
from tests import http
from tests.surfaces.appending import append
from tests.surfaces.conftest import ERROR_SHAPE, Ran, Served, visit
from tests.waiting import wait_until

SSE = {"accept": "text/event-stream"}


def add(served: Served, *seconds: int, **fields: Any) -> None:
    """One commit of visits; `bytes` numbers them."""
    body = orjson.dumps([visit(second, bytes=second, **fields) for second in seconds])
    assert served.http.post("/v1/streams/visits/events", content=body).json()["accepted"] == len(seconds)
    append(served.runtime, "visits")


@contextmanager
def stream(url: str, path: str, **options: Any) -> Iterator[Iterator[dict[str, str]]]:
    """The server-sent events of a reply, as browsers read them."""
    with http.Client(base_url=url) as client, client.stream("GET", path, **options) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream"), reply.read()

        def events() -> Iterator[dict[str, str]]:
            fields: dict[str, str] = {}
            for line in reply.iter_lines():
                if not line:
                    if "data" in fields:
                        yield fields
                    fields = {}
                elif not line.startswith(":"):
                    name, _, value = line.partition(": ")
                    fields[name] = value

        yield events()


def numbers(events: list[Any]) -> list[int]:
    return [event["event"]["bytes"] for event in events]


def test_a_tail_resumes_after_its_last_id_over_restarts(applied: Path, serve: Callable[..., Served]) -> None:
    served = serve(applied)
    add(served, 1, 2)
    with stream(served.url, "/v1/streams/visits/tail", params={"from": "earliest"}) as events:
        first = [next(events), next(events)]
        add(served, 3)
        first.append(next(events))
    content = [orjson.loads(event["data"]) for event in first]
    assert numbers(content) == [1, 2, 3]
    assert [event["id"] for event in first] == [event["cursor"] for event in content]
    assert content[0] | {"arrived": ""} == {
        "cursor": "0-" + str(content[0]["position"]),
        "commit": 0,
        "position": content[0]["position"],
        "arrived": "",
        "event": {"visitor": "ann", "page": "/home", "status": 200, "bytes": 1, "at": "2026-03-01T12:00:01Z"},
    }
    served.stop()
    again = serve(applied)
    add(again, 4)
    headers = {"last-event-id": first[1]["id"]}
    with stream(again.url, "/v1/streams/visits/tail", headers=headers) as events:
        assert [orjson.loads(next(events)["data"])["event"]["bytes"] for _ in range(2)] == [3, 4]


def test_a_server_with_readers_stops_at_once(served: Served) -> None:
    add(served, 1)
    with stream(served.url, "/v1/streams/visits/tail", params={"from": "earliest"}) as events:
        next(events)
        stopped = threading.Thread(target=served.stop)
        stopped.start()
        assert list(events) == []
        stopped.join()


def test_pages_of_json(served: Served) -> None:
    add(served, *range(5))
    add(served, *range(5, 8), page="/cart")
    json = {"accept": "application/json"}

    def page(**parameters: Any) -> Any:
        return served.http.get("/v1/streams/visits/tail", params=parameters, headers=json).json()

    first = page(**{"from": "earliest", "limit": 3})
    assert numbers(first["events"]) == [0, 1, 2]
    assert first["more"]
    assert first["columns"][0] == {"name": "visitor", "type": "STRING"}
    rest = page(cursor=first["cursor"])
    assert numbers(rest["events"]) == [3, 4, 5, 6, 7]
    assert not rest["more"]
    assert numbers(page(last=2)["events"]) == [6, 7]
    assert numbers(page(**{"from": "earliest", "where": "bytes % 3 = 0"})["events"]) == [0, 3, 6]
    assert numbers(page(**{"from": "earliest", "key.page": "/cart"})["events"]) == [5, 6, 7]
    assert page()["events"] == []
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(page, cursor=rest["cursor"], wait="60s")
        add(served, 9)
        assert numbers(waiting.result()["events"]) == [9]


def test_what_a_tail_refuses(served: Served) -> None:
    for path, message in {
        "/v1/streams/visitz/tail": "did you mean 'visits'?",
        "/v1/streams/visits/tail?from=soon": "not a place in a stream",
        "/v1/streams/visits/tail?where=pagee=1": "pagee",
        "/v1/streams/visits/tail?wher=1": "did you mean 'where'?",
        "/v1/streams/visits/tail?from=99-1": "has no cursor 99-1",
        "/v1/streams/visits/tail?key.nope=1": "no field 'nope'",
        "/v1/streams/visits/tail?last=x": "not a number",
        "/v1/streams/visits/tail?last=1&from=latest": "contradict",
        "/v1/subscriptions/none/events": "subscription 'none' does not exist",
        "/v1/subscriptions/none": "does not exist",
    }.items():
        reply = served.http.get(path)
        assert reply.status_code in (400, 404, 422), path
        assert set(reply.json()["error"]) == ERROR_SHAPE
        assert message in reply.text, (path, reply.text)


def test_members_share_and_names_each_get_all(served: Served) -> None:
    add(served, *range(10))
    for name in ("billing", "audit"):
        terms = {"stream": "visits", "from": "earliest", "timeout": "1h"}
        created = served.http.post(f"/v1/subscriptions/{name}", json=terms).json()
        assert (created["guarantee"], created["lag"], created["timeout_ms"]) == ("at-least-once", 10, 3_600_000)

    def take(name: str, **parameters: Any) -> Any:
        return served.http.get(f"/v1/subscriptions/{name}/events", params=parameters).json()

    one, two = take("billing", limit=4, member="a"), take("billing", limit=4, member="b")
    assert numbers(one["events"]) == [0, 1, 2, 3]
    assert numbers(two["events"]) == [4, 5, 6, 7]
    assert numbers(take("audit", limit=100)["events"]) == [*range(10)]
    path = "/v1/subscriptions/billing"
    assert served.http.post(f"{path}/ack", json={"lease": one["lease"]}).json() == {"acknowledged": 4}
    assert served.http.post(f"{path}/ack", json={"lease": one["lease"]}).json() == {"acknowledged": 0}
    some = [two["events"][0]["cursor"], two["events"][2]["cursor"]]
    assert served.http.post(f"{path}/ack", json={"lease": two["lease"], "events": some}).json() == {"acknowledged": 2}
    assert served.http.post(f"{path}/nack", json={"lease": two["lease"]}).json() == {"returned": 2}
    again = take("billing", member="c")
    assert (numbers(again["events"]), again["attempt"]) == ([5, 7], 2)
    status = served.http.get(path).json()
    assert {name: status[name] for name in ("lag", "in_flight", "delivered", "redelivered", "acknowledged")} == {
        "lag": 4,
        "in_flight": 2,
        "delivered": 8,
        "redelivered": 2,
        "acknowledged": 6,
    }
    assert numbers(take("billing", member="d", wait="30s", limit=1)["events"]) == [8]
    assert served.http.delete(path).json() == {"dropped": "billing"}
    assert [s["name"] for s in served.http.get("/v1/subscriptions").json()["subscriptions"]] == ["audit"]


def test_events_without_an_acknowledgement_come_again_after_the_time_out(served: Served) -> None:
    add(served, *range(3))
    path, terms = "/v1/subscriptions/s", {"stream": "visits", "from": "earliest", "timeout": "1s"}
    served.http.post(path, json=terms)

    def take() -> Any:
        return served.http.get(f"{path}/events", params={"wait": "30s"}).json()

    assert numbers(take()["events"]) == [0, 1, 2]
    again = take()
    assert numbers(again["events"]) == [0, 1, 2]
    assert again["attempt"] > 1


def test_a_member_whose_connection_closes_gives_its_events_back(served: Served) -> None:
    add(served, *range(6))
    served.http.post("/v1/subscriptions/s", json={"stream": "visits", "from": "earliest", "timeout": "1h"})
    options = {"params": {"limit": 2, "credit": 4}, "headers": SSE}
    with stream(served.url, "/v1/subscriptions/s/events", **options) as events:
        one, two = (orjson.loads(next(events)["data"]) for _ in range(2))
        wait_until(lambda: served.http.get("/v1/subscriptions/s").json()["in_flight"] == 4)  # its credit
        served.http.post("/v1/subscriptions/s/ack", json={"lease": one["lease"]})
        three = orjson.loads(next(events)["data"])
        assert [numbers(batch["events"]) for batch in (one, two, three)] == [[0, 1], [2, 3], [4, 5]]
        assert served.http.get("/v1/subscriptions/s").json()["members"] == 1
    received: list[int] = []
    with stream(served.url, "/v1/subscriptions/s/events", **options) as events:
        for _ in range(2):
            batch = orjson.loads(next(events)["data"])
            assert batch["attempt"] == 2
            received += numbers(batch["events"])
    assert sorted(received) == [2, 3, 4, 5]


def test_nothing_is_forgotten_over_a_restart(applied: Path, serve: Callable[..., Served]) -> None:
    served = serve(applied)
    add(served, *range(6))
    served.http.post("/v1/subscriptions/s", json={"stream": "visits", "from": "earliest", "timeout": "1h"})
    served.http.post(
        "/v1/subscriptions/once", json={"stream": "visits", "from": "earliest", "guarantee": "at-most-once"}
    )
    one, two = (served.http.get("/v1/subscriptions/s/events", params={"limit": 2}).json() for _ in range(2))
    once = served.http.get("/v1/subscriptions/once/events", params={"limit": 4}).json()
    assert (once["lease"], numbers(once["events"])) == (None, [0, 1, 2, 3])
    assert served.http.post("/v1/subscriptions/s/ack", json={"lease": one["lease"]}).json() == {"acknowledged": 2}
    served.stop()
    again = serve(applied)
    assert again.http.get("/v1/subscriptions/s").json()["in_flight"] == 2
    assert numbers(again.http.get("/v1/subscriptions/s/events").json()["events"]) == [4, 5]
    assert again.http.post("/v1/subscriptions/s/nack", json={"lease": two["lease"]}).json() == {"returned": 2}
    batch = again.http.get("/v1/subscriptions/s/events").json()
    assert (numbers(batch["events"]), batch["attempt"]) == ([2, 3], 2)
    assert again.http.post("/v1/subscriptions/s/ack", json={"lease": batch["lease"]}).json() == {"acknowledged": 2}
    assert numbers(again.http.get("/v1/subscriptions/once/events").json()["events"]) == [4, 5]
    refused = again.http.post("/v1/subscriptions/once/ack", json={"lease": "1.1.x"}).json()["error"]
    assert "nothing is acknowledged" in refused["message"]


def test_what_a_subscription_refuses(served: Served) -> None:
    add(served, 1)
    post = served.http.post
    post("/v1/subscriptions/s", json={"stream": "visits", "from": "earliest"})
    batch = served.http.get("/v1/subscriptions/s/events").json()
    for path, body, message in [
        ("x", {}, "one of both"),
        ("x", {"stream": "visitz"}, "did you mean 'visits'"),
        ("x", {"stream": "visits", "guarantee": "exactly-once"}, "at-least-once or at-most-once"),
        ("x", {"stream": "visits", "timeout": "0.1s"}, "1 second to 12 hours"),
        ("x", {"stream": "visits", "where": "nope > 1"}, "nope"),
        ("x", {"stream": "visits", "wheer": "1"}, "did you mean 'where'"),
        ("x", {"stream": 5}, "not text"),
        ("%2e%2e%2fx", {"stream": "visits"}, "the name of a subscription is not valid"),
        (".x", {"stream": "visits"}, "not valid"),
        ("s", {"stream": "visits", "guarantee": "at-most-once"}, "exists with another guarantee"),
        ("s/ack", {}, "a lease is missing"),
        ("s/ack", {"lease": "nonsense"}, "not a lease"),
        ("s/ack", {"lease": batch["lease"], "events": ["77-7"]}, "has no event 77-7"),
        ("s/nack", {"lease": 5}, "not text"),
    ]:
        reply = post(f"/v1/subscriptions/{path}", json=body)
        assert reply.status_code >= 400, (path, body)
        assert message in reply.text, (path, body, reply.text)
    assert post("/v1/subscriptions/s", json={"stream": "visits"}).json()["name"] == "s"


def test_subscriptions_in_python(served: Served) -> None:
    add(served, *range(5))
    with hr.connect(served.url) as ws:
        assert [event["bytes"] for event in ws.tail("visits", "earliest", follow=False)] == [0, 1, 2, 3, 4]
        events = ws.tail("visits", last=1, where="bytes > 3")
        event = next(events)
        assert (event["bytes"], event["at"].minute, event.arrived.tzinfo is not None) == (4, 0, True)
        add(served, 5)
        assert next(events)["bytes"] == 5
        assert next(iter(ws.subscribe("visits", start=event.cursor)))["bytes"] == 5
        with ws.subscribe("visits", name="billing", start="earliest", limit=2) as billing:  # type: ignore[attr-defined]
            received = []
            for visited in billing:
                received.append(visited["bytes"])
                visited.ack()
                if len(received) == 5:
                    break
        assert received == [0, 1, 2, 3, 4]
        (status,) = ws.subscriptions()
        assert (status.acknowledged, status.lag, status.redelivered) == (5, 1, 0)
        with ws.subscribe("visits", name="billing") as billing:  # type: ignore[attr-defined]
            (batch,) = [next(billing.batches())]
            assert [each["bytes"] for each in batch] == [5]
            attempt = batch.attempt
            batch.nack()
            batch = next(billing.batches())
            assert batch.attempt == attempt + 1
            batch.ack()
        ws.drop_subscription("billing")
        with pytest.raises(hr.HeadraceError, match="no stream or view 'nope'"):
            ws.subscribe("nope", name="x")


def test_commands(served: Served, headrace: Callable[..., Ran], applied: Path) -> None:
    add(served, *range(12))
    ran = headrace("tail", "visits", "-w", served.url, "--no-follow", "--json")
    assert numbers([orjson.loads(line) for line in ran.out.splitlines()]) == [*range(2, 12)]
    ran = headrace("tail", "visits", "-w", served.url, "--from", "earliest", "--where", "bytes < 2", "--limit", "2")
    assert [line.split("  ")[4] for line in ran.out.splitlines()] == ["bytes=0", "bytes=1"]
    options = ("--stream", "visits", "--from", "earliest", "-w", served.url)
    assert headrace("subscriptions", "create", "s", *options, "--json").json["lag"] == 12
    ran = headrace("tail", "visits", "--name", "s", "--limit", "12", "-w", served.url, "--json")
    assert numbers([orjson.loads(line) for line in ran.out.splitlines()]) == [*range(12)]
    (status,) = headrace("subscriptions", "-w", served.url, "--json").json
    assert (status["lag"], status["acknowledged"]) == (0, 12)
    assert "at-least-once, 30.0 s" in headrace("subscriptions", "-w", served.url).out
    assert headrace("status", "-w", served.url, "--json").json["subscriptions"][0]["name"] == "s"
    assert "was dropped" in headrace("subscriptions", "drop", "s", "-w", served.url).out
    assert headrace("subscriptions", "drop", "-w", served.url).code == 2
    assert headrace("tail", "visits", "-n", "1", "--from", "latest", "-w", served.url).code == 2
    served.stop()
    ran = headrace("tail", "visits", "-n", "2", "--no-follow", "--json", "-w", applied)
    assert numbers([orjson.loads(line) for line in ran.out.splitlines()]) == [10, 11]
    ran = headrace("tail", "visits", "--from", "latest", "-w", applied)
    assert (ran.code, "no server is running" in ran.err) == (1, True)
    assert "subscriptions need one" in headrace("subscriptions", "-w", applied).err
