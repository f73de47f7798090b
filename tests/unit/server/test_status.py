"""The state of a workspace as values: they round-trip through JSON, and fields of newer servers are ignored."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import orjson

from headrace.define.catalog import parse
from headrace.errors import CorruptionError
from headrace.format import freshness
from headrace.plan.cost import Cost
from headrace.plan.planned_change import PlannedChange, RollbackStep
from headrace.serve.freshness import Fresh
from headrace.server.damaged_stream import DamagedStream
from headrace.server.describe_view import describe_view, join_freshness
from headrace.server.running_stream import RunningStream
from headrace.server.status import AuditStatus, BuildStatus, DriftStatus, ViewStatus, WorkspaceStatus
from tests import wording

DEFINITIONS = """
CREATE STREAM visits (page STRING NOT NULL, twice INT AS size * 2, size INT, at TIMESTAMP, WATERMARK FOR at AS at);
CREATE MATERIALIZED VIEW traffic AS SELECT page, count(*) AS hits FROM visits GROUP BY page, window(at, '1 minute');
"""
CATALOG = parse(DEFINITIONS)
AUDIT = AuditStatus(3, "2026-03-01T12:00:00Z", 0, 4, 100, 10, 20, False, (DriftStatus("hits", 1, "page=/home"),))
BUILD = BuildStatus(4, "building", 0, 1, 4, 25, 100, 1.5, None, None)


def view_status(**fields: Any) -> ViewStatus:
    status = describe_view(CATALOG.views["traffic"], [], 4, Fresh(None, "it is being built"), building=BUILD)
    return ViewStatus(**{**vars(status), **fields})


def workspace_status() -> WorkspaceStatus:
    stream = DamagedStream(CATALOG.streams["visits"], CorruptionError("the lake is damaged")).describe()
    view = view_status(last_audit=AUDIT, audits=(AUDIT,), drift={"hits": 1})
    return WorkspaceStatus("shop", "/shop", "http://h", 1, "ok", ("look",), 5, 100, (stream,), (view,))


def test_a_status_is_read_back_from_json() -> None:
    status = workspace_status()
    assert WorkspaceStatus.from_dict(orjson.loads(orjson.dumps(status))) == status
    assert status.views[0].window == (60_000, 60_000)


def test_a_dict_is_as_json_shows_it() -> None:
    content = workspace_status().as_dict()
    assert list(content) == [field.name for field in fields(WorkspaceStatus)]
    assert content["warnings"] == ["look"]
    assert content["views"][0]["keys"] == ["page"]
    assert content["views"][0]["audits"][0]["drift"] == [{"column": "hits", "rows": 1, "example": "page=/home"}]
    assert content["streams"][0]["fields"][1] == {
        "name": "twice",
        "type": "INT",
        "nullable": True,
        "computed": "size * 2",
        "path": None,
        "record": None,
    }


def test_fields_of_a_newer_server_are_ignored() -> None:
    content = workspace_status().as_dict()
    content["moon"] = "full"
    content["views"][0]["last_audit"]["mood"] = "good"
    assert WorkspaceStatus.from_dict(content) == workspace_status()


def test_a_rollback_is_read_back() -> None:
    change = PlannedChange("change", "view", "traffic", "free", ("a column",), "build", Cost(1, 2, 3.0, True))
    step = RollbackStep(3, 2, change)
    content = step.as_dict()
    assert list(content) == ["view", "from", "to", "how", "reason", "details", "cost"]
    assert RollbackStep.from_dict(orjson.loads(orjson.dumps(content))) == step


def test_a_damaged_stream_has_the_members_of_a_running_one() -> None:
    """mypy compares it with the protocol; this checks that it has no other members."""
    damaged = DamagedStream(CATALOG.streams["visits"], CorruptionError("the lake is damaged"))
    names = {name for name in vars(RunningStream) if not name.startswith("_")}
    assert names == {name for name in [*vars(DamagedStream), *vars(damaged)] if not name.startswith("_")} - {"damage"}
    status = damaged.describe()
    assert status.name == "visits"
    assert (status.events, status.last_upkeep, status.error) == (None, None, "the lake is damaged")


def test_a_stream_that_lags_is_named_with_its_own_freshness() -> None:
    for one_stream in ({"visits": (7, None)}, {"visits": (None, "starting")}):
        assert join_freshness(one_stream) == Fresh(*one_stream["visits"], one_stream)
    both = {"visits": (0, None), "calls": (0, None)}
    assert join_freshness(both) == Fresh(0, None, both)
    ages = {"visits": (0, None), "calls": (5_000, None)}
    behind = join_freshness(ages)
    assert behind == Fresh(5_000, "stream 'calls': 5.0 s behind; stream 'visits': up to date", ages)
    wording.check(freshness(behind.ms, behind.reason), "5.0", "calls", "visits")
    unknown = join_freshness({"visits": (20, None), "calls": (None, "catching up with history: 1 of 3 commits")})
    assert unknown[:2] == (
        None,
        "stream 'calls': catching up with history: 1 of 3 commits; stream 'visits': 20 ms behind",
    )
