"""The state of a workspace as values: what JSON shows is read back, whatever a newer server adds."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import orjson

from headrace.define.catalog import parse
from headrace.errors import CorruptionError
from headrace.plan.change import Change, RollbackStep
from headrace.plan.cost import Cost
from headrace.server.damaged import DamagedStream
from headrace.server.describe import describe_view
from headrace.server.state import AuditStatus, BuildStatus, DriftStatus, ViewStatus, WorkspaceStatus
from headrace.server.stream import RunningStream

DEFINITIONS = """
CREATE STREAM visits (page STRING NOT NULL, twice INT AS size * 2, size INT, at TIMESTAMP, WATERMARK FOR at AS at);
CREATE MATERIALIZED VIEW traffic AS SELECT page, count(*) AS hits FROM visits GROUP BY page, window(at, '1 minute');
"""
CATALOG = parse(DEFINITIONS)
AUDIT = AuditStatus(3, "2026-03-01T12:00:00Z", 0, 4, 100, 10, 20, False, (DriftStatus("hits", 1, "page=/home"),))
BUILD = BuildStatus(4, "building", 0, 1, 4, 25, 100, 1.5, None, None)


def view_status(**known: Any) -> ViewStatus:
    described = describe_view(CATALOG.views["traffic"], [], 4, (None, "it is being built"), building=BUILD)
    return ViewStatus(**{**vars(described), **known})


def workspace_status() -> WorkspaceStatus:
    stream = DamagedStream(CATALOG.streams["visits"], CorruptionError("the lake is damaged")).describe()
    view = view_status(last_audit=AUDIT, audits=(AUDIT,), drift={"hits": 1})
    return WorkspaceStatus("shop", "/shop", "http://h", 1, "ok", ("look",), 5, 100, (stream,), (view,))


def test_what_json_shows_is_read_back() -> None:
    status = workspace_status()
    assert WorkspaceStatus.from_dict(orjson.loads(orjson.dumps(status))) == status
    assert status.views[0].window == (60_000, 60_000)


def test_a_dict_is_as_json_shows_it() -> None:
    shown = workspace_status().as_dict()
    assert list(shown) == [field.name for field in fields(WorkspaceStatus)]
    assert shown["warnings"] == ["look"]
    assert shown["views"][0]["keys"] == ["page"]
    assert shown["views"][0]["audits"][0]["drift"] == [{"column": "hits", "rows": 1, "example": "page=/home"}]
    assert shown["streams"][0]["fields"][1] == {
        "name": "twice",
        "type": "INT",
        "nullable": True,
        "computed": "size * 2",
    }


def test_what_a_newer_server_adds_is_left_out() -> None:
    shown = workspace_status().as_dict()
    shown["moon"] = "full"
    shown["views"][0]["last_audit"]["mood"] = "good"
    assert WorkspaceStatus.from_dict(shown) == workspace_status()


def test_a_rollback_is_read_back() -> None:
    change = Change("change", "view", "traffic", "free", ("a column",), "build", Cost(1, 2, 3.0, True))
    step = RollbackStep(3, 2, change)
    shown = step.as_dict()
    assert list(shown) == ["view", "from", "to", "how", "reason", "details", "cost"]
    assert RollbackStep.from_dict(orjson.loads(orjson.dumps(shown))) == step


def test_a_damaged_stream_answers_all_that_a_stream_is_asked() -> None:
    """mypy compares it with the protocol; here it is seen that it has no more and no less."""
    damaged = DamagedStream(CATALOG.streams["visits"], CorruptionError("the lake is damaged"))
    asked = {name for name in vars(RunningStream) if not name.startswith("_")}
    assert asked == {name for name in [*vars(DamagedStream), *vars(damaged)] if not name.startswith("_")} - {"damage"}
    shown = damaged.describe()
    assert shown.name == "visits"
    assert (shown.events, shown.last_upkeep, shown.error) == (None, None, "the lake is damaged")
