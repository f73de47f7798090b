"""Streams, views, status, plan, apply and health, over a real runtime without Spark."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from headrace.lake.storage import LocalStorage
from tests.surfaces.conftest import Ran, Served, visit

MORE = "CREATE MATERIALIZED VIEW all_visits AS SELECT count(*) AS hits FROM visits;"


def test_streams_and_views_are_described(served: Served) -> None:
    [stream] = served.http.get("/v1/streams").json()["streams"]
    assert stream["name"] == "visits"
    assert stream["event_time"] == "at"
    assert stream["fields"][0] == {
        "name": "visitor",
        "type": "STRING",
        "nullable": False,
        "computed": None,
        "path": None,
        "record": None,
    }
    [view] = served.http.get("/v1/views").json()["views"]
    assert (view["name"], view["stream"], view["keys"]) == ("traffic", "visits", ["page"])
    assert [column["name"] for column in view["columns"]] == ["hits", "errors", "bytes", "visitors"]


def test_status_has_server_and_streams(served: Served) -> None:
    served.http.post("/v1/streams/visits/events", json=[visit()])
    status = served.http.get("/v1/status").json()
    assert status["url"] == served.url
    assert status["state"] == "starting"
    assert status["streams"][0]["backlog_bytes"] > 0
    assert served.http.get("/health").json() == {
        "status": "starting",
        "reason": "Spark is starting",
        "warnings": [],
    }


def test_a_spark_that_cannot_run_tasks_is_not_ok(served: Served) -> None:
    trouble = "Spark has had no executors for 31 s: its jobs wait; a new session follows"
    served.runtime.monitor.warming_up = None
    served.runtime._spark._session, served.runtime._spark.trouble = Mock(), trouble
    assert served.http.get("/health").json() == {"status": "failing", "reason": trouble, "warnings": []}
    assert served.http.get("/v1/status").json()["state"] == "failing"
    served.runtime._spark._session, served.runtime._spark.trouble = None, "Spark is restarting: its context was stopped"
    assert served.http.get("/health").json()["status"] == "restarting"


def test_an_empty_answer_has_all_fields(served: Served) -> None:
    answer = served.http.get("/v1/views/traffic").json()
    assert answer["rows"] == []
    assert answer["next_cursor"] is None
    assert {"version", "as_of", "freshness_ms", "events", "corrections", "approximate"} <= set(answer)
    assert answer["approximate"].keys() == {"visitors"}
    assert served.http.post("/v1/views/traffic/lookup", json={"key": [{"page": "/"}]}).json()["rows"] == []
    shaped = {"having": "hits > 5", "order_by": "hits DESC", "limit": "3"}
    assert served.http.get("/v1/views/traffic", params=shaped).json()["rows"] == []
    error = served.http.get("/v1/views/traffic", params={"having": "hits >"})
    assert (error.status_code, error.json()["error"]["message"]) == (400, "having: syntax error")


def test_plan_and_apply_on_a_running_server(served: Served) -> None:
    assert served.http.post("/v1/plan").json()["empty"] is True
    (served.runtime.workspace.definitions / "more.sql").write_text(MORE)
    plan = served.http.post("/v1/plan").json()
    assert [(c["kind"], c["what"], c["name"]) for c in plan["changes"]] == [("create", "view", "all_visits")]
    applied = served.http.post("/v1/apply", json={"expect": plan["fingerprint"]})
    assert applied.json() == plan
    assert served.http.post("/v1/plan").json()["empty"] is True
    assert len(served.http.get("/v1/views").json()["views"]) == 2


def test_an_error_of_a_definition_has_its_location(served: Served) -> None:
    (served.runtime.workspace.definitions / "more.sql").write_text("CREATE MATERIALIZED VIEW x AS SELECT;")
    reply = served.http.post("/v1/plan")
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert error["code"] == "definition"
    assert "more.sql:1:" in (error["where"] or error["message"])


def test_openapi_documents_every_endpoint(served: Served) -> None:
    paths = served.http.get("/openapi.json").json()["paths"]
    assert {"/v1/streams/{stream}/events", "/v1/tokens/{token}", "/v1/views/{view}", "/health", "/metrics"} <= set(
        paths
    )
    assert "/" not in paths  # the page is for people
    for path, methods in paths.items():
        for method in methods.values():
            assert method["description"], path
    names = {p["name"] for p in paths["/v1/views/{view}"]["get"]["parameters"]}
    assert {"view", "key", "by", "start", "end", "window", "every", "limit", "cursor"} <= names


def _refuse(storage: LocalStorage, name: str, content: bytes) -> bool:
    raise OSError(errno.EIO, "I/O error", storage.locate(name))


def test_an_apply_that_failed_can_be_repeated(
    served: Served, applied: Path, headrace: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = applied / "definitions" / "shop.sql"
    sql.write_text(sql.read_text().replace("status  INT", "status  BIGINT"))
    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "put", _refuse)
        failed = headrace("apply", "--yes", "-w", applied)
    assert failed.code != 0
    assert "data/lake/visits' cannot be written" in failed.err
    assert "field loosened: status INT → status BIGINT" in headrace("plan", "-w", applied).out
    assert headrace("apply", "--yes", "-w", applied).out.endswith("Applied.\n")
    assert headrace("plan", "-w", applied, "--json").json["empty"] is True
    [stream] = served.http.get("/v1/streams").json()["streams"]
    assert stream["fields"][2]["type"] == "BIGINT"
