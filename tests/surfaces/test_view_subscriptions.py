"""Named subscriptions over views: all rows, then what changes; shared by members, kept over restarts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import headrace as hr
from tests.surfaces.changing import change_view
from tests.surfaces.conftest import Served
from tests.surfaces.sql_shop import visit_of


def hits(batch: dict[str, Any]) -> list[tuple[str, str, int | None]]:
    return [(each["op"], each["row"]["page"], each["row"].get("hits")) for each in batch["events"]]


def test_rows_come_first_then_changes_and_redeliveries_are_the_same(
    applied: Path, serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = serve(applied)
    change_view(served.runtime, tmp_path, "traffic", visit_of("/home", 0), visit_of("/cart", 0))
    path = "/v1/subscriptions/boards"
    created = served.http.post(path, json={"view": "traffic", "timeout": "1h"}).json()
    assert (created["view"], created["stream"], created["cursor"]) == ("traffic", None, "")

    def take(**parameters: Any) -> Any:
        return served.http.get(f"{path}/events", params={"wait": "20s", **parameters}).json()

    first = take()
    assert sorted(hits(first)) == [("upsert", "/cart", 1), ("upsert", "/home", 1)]
    assert first["columns"][0] == {"name": "page", "type": "STRING"}
    change_view(served.runtime, tmp_path, "traffic", visit_of("/home", 0))
    second = take()
    assert hits(second) == [("upsert", "/home", 2)]
    assert second["events"][0]["commit"] > first["events"][0]["commit"]
    served.http.post(f"{path}/ack", json={"lease": first["lease"], "events": ["0"]})
    change_view(served.runtime, tmp_path, "traffic", visit_of("/home", 0))
    served.http.post(f"{path}/nack", json={"leases": [first["lease"], second["lease"]]})
    served.stop()
    served = serve(applied)
    again = [take(), take()]
    assert [len(batch["events"]) for batch in again] == [1, 1]  # what was acknowledged does not come again
    assert again[1]["events"] == second["events"]  # as it was delivered, though the row has changed since
    assert hits(take()) == [("upsert", "/home", 3)]
    status = served.http.get(path).json()
    assert (status["in_flight"], status["lag"], status["acknowledged"]) == (3, 3, 1)
    followers = [each.name for each in _followers(served)]
    assert "subscription:boards" in followers
    served.http.delete(path)
    assert "subscription:boards" not in [each.name for each in _followers(served)]


def _followers(served: Served) -> Any:
    with served.runtime._store.snapshot() as snapshot:
        return snapshot.followers()


def test_conditions_and_python(served: Served, tmp_path: Path) -> None:
    change_view(served.runtime, tmp_path, "traffic", visit_of("/home", 0), visit_of("/cart", 0))
    with hr.connect(served.url) as ws:
        with ws.subscribe("traffic", name="busy", where="hits > 1") as busy:  # type: ignore[attr-defined]
            change_view(served.runtime, tmp_path, "traffic", visit_of("/home", 0))
            for change in busy:
                change.ack()
                if change.op == "upsert":
                    break
            assert (change["page"], change.row["hits"], change["window_start"].tzinfo is not None) == ("/home", 2, True)
        names = {"keyed": {"key": {"page": "/cart"}}, "later": {"start": "latest"}}
        for name, terms in names.items():
            with ws.subscribe("traffic", name=name, guarantee="at-most-once", **terms) as subscription:  # type: ignore[attr-defined]
                change_view(served.runtime, tmp_path, "traffic", visit_of("/cart", 0))
                assert next(iter(subscription))["page"] == "/cart"
    for body, message in [
        ({"view": "traffik"}, "did you mean 'traffic'"),
        ({"view": "traffic", "where": "nope = 1"}, "nope"),
        ({"view": "traffic", "key": {"nope": 1}}, "no key 'nope'"),
        ({"view": "traffic", "from": "12-4"}, "cursor of changes"),
        ({"view": "traffic", "stream": "visits"}, "one of both"),
    ]:
        reply = served.http.post("/v1/subscriptions/x", json=body)
        assert reply.status_code >= 400, body
        assert message in reply.text, reply.text
