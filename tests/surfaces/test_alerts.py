"""`headrace alerts`: what an alert has not looked at, incidents that are over, and keys that can be pasted."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cli import output
from tests import wording
from tests.surfaces.conftest import Ran, Served
from tests.surfaces.sql_shop import NOON_MS, fill, visit_of

ALERT = "CREATE ALERT busy AS SELECT page, hits, bytes FROM traffic WHERE hits >= 1 WITH (log = 'false');"


@pytest.fixture
def watched(folder: Path, headrace: Callable[..., Ran], serve: Callable[..., Served]) -> Served:
    """A server with an alert that looks at its view only when a test has it do so."""
    (folder / "definitions" / "more.sql").write_text(ALERT)
    assert headrace("apply", "--yes", "-w", folder).code == 0
    served = serve(folder)
    served.runtime.alerts.redefine(served.runtime.lookup.catalog)
    return served


def look(served: Served) -> None:
    (watch,) = served.runtime.alerts._watches.values()
    while watch.step(NOON_MS * 1000):
        pass


def test_an_alert_says_how_far_it_is_behind(watched: Served, folder: Path, headrace: Callable[..., Ran]) -> None:
    fill(watched.runtime, folder)
    (status,) = headrace("alerts", "-w", folder, "--json").json
    assert (status["state"], status["behind_commits"]) == ("ok", 1)
    assert "1 commit" in headrace("alerts", "-w", folder).out
    look(watched)
    (status,) = headrace("alerts", "-w", folder, "--json").json
    assert (status["state"], status["behind_commits"], status["undelivered"]) == ("firing", 0, 0)
    assert "commit" not in headrace("alerts", "-w", folder).out
    (status,) = watched.http.get("/v1/alerts").json()["alerts"]
    assert status["behind_commits"] == 0


def test_incidents_that_are_over_are_counted(
    watched: Served, folder: Path, headrace: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(watched.runtime, folder, visits=[visit_of("/products/shoes", 0), visit_of("/home", 1), visit_of("/home", 9)])
    look(watched)
    monkeypatch.setattr(output, "UNLIMITED", 80)
    titles, _, cells, *_ = headrace("alerts", "-w", folder).out.splitlines()
    shown = dict(zip(titles.split(), cells.replace("01 12", "01_12").split(), strict=False))
    (status,) = headrace("alerts", "-w", folder, "--json").json
    assert len(status["resolved"]) == 2
    assert (shown["firing"], shown["incidents"], shown["last"]) == ("1", "3", "2026-03-01_12:09:00")
    incidents = headrace("alerts", "busy", "-w", folder).out.split("\n\n")[1]
    assert "since" in incidents.splitlines()[0]
    assert "window_end" not in incidents.splitlines()[0]
    monkeypatch.undo()
    titles, _, first, *_ = headrace("alerts", "busy", "-w", folder).out.split("\n\n")[1].splitlines()
    assert titles.split()[-4:] == ["fired", "at", "resolved", "at"]
    assert first.split()[-1] == "–"
    assert "fired at" not in headrace("alerts", "-w", folder).out
    resolved_at = status["resolved"][0]["resolved_at"].replace("T", " ")[:19]
    assert resolved_at in headrace("alerts", "busy", "-w", folder).out


def test_keys_of_alerts_can_be_pasted(watched: Served, folder: Path, headrace: Callable[..., Ran]) -> None:
    pages = [None, "NULL", r"\N", "two words"]
    fill(watched.runtime, folder, visits=[visit_of(page, 9) for page in pages])
    look(watched)
    out = headrace("alerts", "-w", folder).out
    for page, shown in zip(pages, ["'page=\\N'", "page=NULL", "'page=\\\\N'", "'page=two words'"], strict=True):
        assert f" {shown} " in out
        (row,) = headrace("ask", "traffic", "--key", *shlex.split(shown), "-w", folder, "--json").json["rows"]
        assert row["page"] == page


def test_no_rows_of_the_text_null_show_how_a_missing_value_is_written(
    watched: Served, folder: Path, headrace: Callable[..., Ran]
) -> None:
    fill(watched.runtime, folder)
    hint = "page=NULL", r"page=\N"
    wording.check_line(headrace("ask", "traffic", "--key", "page=NULL", "-w", folder).out, *hint)
    assert "missing value" not in headrace("ask", "traffic", "--key", "page=/nosuch", "-w", folder).out
    assert "missing value" not in headrace("ask", "traffic", "--key", r"page=\N", "-w", folder).out


def test_dead_letters_are_not_known_while_spark_starts(
    watched: Served, folder: Path, headrace: Callable[..., Ran]
) -> None:
    for action in ("list", "count"):
        wording.check(headrace("dead-letters", "visits", action, "-w", folder).out, "visits")
    watched.stop()
    wording.check(headrace("dead-letters", "visits", "-w", folder).out, "visits")


@pytest.mark.parametrize("command", ["alerts", "sinks"])
def test_before_the_first_start_nothing_runs(folder: Path, headrace: Callable[..., Ran], command: str) -> None:
    wording.check(headrace(command, "-w", folder).out, "headrace up")
