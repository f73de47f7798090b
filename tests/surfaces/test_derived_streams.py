"""Derived streams in plan, status, HTTP and commands, over a real runtime without Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import headrace as hr
from tests import wording
from tests.surfaces.conftest import ERROR_SHAPE, Ran, Served, visit

DERIVED = """
CREATE STREAM errors AS SELECT page, status, at FROM visits WHERE status >= 500;
CREATE MATERIALIZED VIEW errors_by_page AS SELECT page, count(*) AS n FROM errors GROUP BY page;
"""


@pytest.fixture
def derived(folder: Path) -> Path:
    (folder / "definitions" / "errors.sql").write_text(DERIVED)
    return folder


def test_plan_apply_and_edit(derived: Path, headrace: Callable[..., Ran]) -> None:
    file = derived / "definitions" / "errors.sql"
    plan = headrace("plan", "-w", derived)
    wording.check_line(plan.out, "errors", "visits")
    assert headrace("apply", "--yes", "-w", derived).code == 0
    assert "No changes" in headrace("plan", "-w", derived).out
    file.write_text(DERIVED.replace("500", "400"))
    plan = headrace("plan", "-w", derived)
    wording.check_line(plan.out, "stream errors", "free")
    assert "~ view errors_by_page" in plan.out
    file.write_text(DERIVED.splitlines()[2])
    refused = headrace("plan", "-w", derived)
    wording.check_line(refused.err, "error", "errors_by_page", "errors")
    file.write_text("")
    wording.check_line(headrace("plan", "-w", derived).out, "stream errors")


def test_an_edit_of_a_column_that_no_view_reads_changes_no_view(derived: Path, headrace: Callable[..., Ran]) -> None:
    headrace("apply", "--yes", "-w", derived)
    (derived / "definitions" / "errors.sql").write_text(DERIVED.replace("page, status,", "page, bytes,"))
    plan = headrace("plan", "-w", derived)
    assert "~ stream errors" in plan.out
    assert "view" not in plan.out.replace("its views", "")


def test_nothing_is_sent_to_it_without_a_server(derived: Path, headrace: Callable[..., Ran], tmp_path: Path) -> None:
    headrace("apply", "--yes", "-w", derived)
    events = tmp_path / "events.ndjson"
    events.write_text('{"page": "/"}\n')
    ran = headrace("send", "-w", derived, "errors", events)
    assert ran.code == 1, ran
    wording.check(ran.err, "errors", "visits")
    assert not (derived / "data" / "journal" / "errors").exists()
    listed = headrace("streams", "-w", derived)
    assert "derived from" in listed.out
    (errors, _) = headrace("streams", "-w", derived, "--json").json
    assert (errors["name"], errors["derived_from"], errors["events"]) == ("errors", ["visits"], None)


def test_http_refuses_events_and_lists_it(
    derived: Path, headrace: Callable[..., Ran], serve: Callable[..., Served]
) -> None:
    headrace("apply", "--yes", "-w", derived)
    served = serve(derived)
    reply = served.http.post("/v1/streams/errors/events", json=[visit()])
    error = reply.json()["error"]
    assert (reply.status_code, error["code"], set(error)) == (400, "ingest", ERROR_SHAPE)
    wording.check(f"{error['message']}; {error['fix']}", "errors", "visits")
    errors, visits = served.http.get("/v1/streams").json()["streams"]
    assert (errors["derived_from"], visits["derived_from"]) == (["visits"], [])
    assert errors["commits"] is None
    page = served.http.get("/").text
    assert "derived from visits" in page
    assert "Stream visits has no events yet" in page
    assert "Stream errors has no events yet" not in page
    assert served.http.get("/metrics").status_code == 200
    assert served.http.get("/v1/views").json()["views"][0]["stream"] == "visits"
    assert served.http.post("/v1/plan").json()["empty"] is True
    assert served.http.get("/v1/streams/errors/dead-letters").json()["dead_letters"] == []  # no function has failed
    (derived / "definitions" / "errors.sql").write_text(DERIVED.replace("500", "400"))
    assert served.http.post("/v1/apply", json={}).status_code == 200
    assert served.http.post("/v1/plan").json()["empty"] is True


UNION = """
CREATE STREAM calls (caller STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE STREAM contacts AS SELECT visitor AS person, at FROM visits UNION ALL SELECT caller, at FROM calls;
CREATE MATERIALIZED VIEW people AS SELECT person, count(*) AS n FROM contacts GROUP BY person;
"""


def test_an_answer_says_how_far_it_has_each_stream(
    folder: Path, headrace: Callable[..., Ran], serve: Callable[..., Served]
) -> None:
    (folder / "definitions" / "union.sql").write_text(UNION)
    headrace("apply", "--yes", "-w", folder)
    served = serve(folder)
    assert served.http.post("/v1/streams/visits/events", json=[visit()]).status_code == 200
    answer = served.http.get("/v1/views/people").json()
    none = {"commits": 0, "horizon": 0, "newest_event": None, "settled_until": None}
    assert {name: {**state, **none} for name, state in answer["as_of"]["streams"].items()} == answer["as_of"]["streams"]
    assert list(answer["as_of"]["streams"]) == ["visits", "calls"]
    with hr.connect(served.url) as connection:
        asked = connection.ask("people")
    assert (asked.streams["calls"].horizon, asked.commits) == (0, {"visits": 0, "calls": 0})
    refused = served.http.get("/v1/views/people?version_as_of=1").json()["error"]
    assert (refused["code"], refused["expected"]) == (
        "question",
        "a time, or the commits of each stream, such as visits=0,calls=0",
    )
