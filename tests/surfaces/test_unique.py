"""unique(x) on a real server: estimates in the speed layer, exact after a refresh, and the answer says which."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.api.connect import connect
from headrace.cli.app import run
from tests.server import UpServer
from tests.surfaces.conftest import Ran
from tests.warm import Java

DEFINITIONS = """CREATE STREAM visits (visitor STRING, page STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
CREATE MATERIALIZED VIEW people AS SELECT page, unique(visitor) AS visitors, count(*) / unique(visitor) AS each
FROM visits GROUP BY page, window(at, '1 minute');
"""
ERROR = 0.08  # five times the standard error
Visit = tuple[str, str | None, int]  # page, visitor, minute


@pytest.fixture
def up(java: Java, tmp_path: Path) -> Iterator[UpServer]:
    folder = tmp_path / "people"
    assert run(["init", str(folder)]) == 0
    (folder / "definitions" / "shop.sql").write_text(DEFINITIONS)
    yield java.server(folder).wait_until_ready()
    UpServer.kill_all()


def send(up: UpServer, visits: list[Visit]) -> None:
    events = [
        {"page": page, "visitor": visitor, "at": f"2026-03-01T00:{minute:02d}:00Z"} for page, visitor, minute in visits
    ]
    reply = up.post("visits", events, None)
    assert reply["accepted"] == len(events)
    up.wait_for_token(reply["token"])


def counts(visits: list[Visit]) -> dict[str, int]:
    """Distinct visitors of each page."""
    pages = {page for page, _, _ in visits}
    return {page: len({v for p, v, _ in visits if p == page and v is not None}) for page in pages}


def asked(up: UpServer, **question: Any) -> dict[str, Any]:
    return up.get("/v1/views/people", window="1h", **question)


def by_page(answer: dict[str, Any]) -> dict[str, int]:
    return {row["page"]: row["visitors"] for row in answer["rows"]}


def estimated(answer: dict[str, Any]) -> set[str]:
    """The pages whose number is an estimate."""
    return {answer["rows"][place]["page"] for place in answer["estimates"].get("visitors", [])}


def check_exact(up: UpServer, visits: list[Visit]) -> None:
    answer = asked(up)
    assert by_page(answer) == counts(visits)
    assert (answer["approximate"], answer["estimates"]) == ({}, {})
    everyone = len({visitor for _, visitor, _ in visits if visitor is not None})
    (total,) = asked(up, by="")["rows"]
    assert total["visitors"] == everyone
    with connect(up.url) as connection:
        merged = connection.sql("SELECT unique_merge(visitors) AS n FROM people")
        assert merged.rows() == [{"n": everyone}]
        assert merged.views["people"]["approximate"] == {}


def test_estimates_become_exact_with_a_refresh(up: UpServer, headrace: Callable[..., Ran]) -> None:
    visits: list[Visit] = [("/a", f"v{n}", n % 3) for n in range(20_000)] + [("/a", f"v{n}", 7) for n in range(9_000)]
    visits += [("/b", f"w{n}", n % 2) for n in range(6_000)]
    visits += [("/c", f"w{n % 10}", 1) for n in range(100)] + [("/c", None, 1)]
    send(up, visits)
    exact = counts(visits)
    assert exact == {"/a": 20_000, "/b": 6_000, "/c": 10}

    answer = asked(up)
    assert estimated(answer) == {"/a", "/b"}
    assert answer["approximate"]["visitors"] == "within 3.2 % in 95 of 100 answers"
    found = by_page(answer)
    assert found["/c"] == 10
    assert all(0 < abs(found[page] - exact[page]) <= ERROR * exact[page] for page in ("/a", "/b"))
    shown = headrace("ask", "people", "--window", "1h", "-w", up.folder).out
    assert "visitors: within 3.2 % in 95 of 100 answers in 2 of 3 rows, exact in the others" in shown
    assert shown.count("~") == 4  # both columns of two rows
    with connect(up.url) as connection:
        read = connection.sql("SELECT sum(visitors) FROM people").views["people"]["approximate"]
        assert read["visitors"].endswith("in 4 of 7 rows, exact in the others")
        not_read = connection.sql("SELECT count(*) FROM people").views["people"]["approximate"]
        assert not_read == {}, "no estimate is part of this answer"

    assert "drift 0" in headrace("refresh", "people", "-w", up.folder).out
    check_exact(up, visits)
    assert "~" not in headrace("ask", "people", "--window", "1h", "-w", up.folder).out

    later: list[Visit] = [("/a", "somebody", 1), ("/d", "somebody", 2)]
    send(up, later)
    answer = asked(up)
    assert estimated(answer) == {"/a"}, "new events make estimates of their own rows only"
    assert {page: n for page, n in by_page(answer).items() if page != "/a"} == {"/b": 6_000, "/c": 10, "/d": 1}
    panes = up.get("/v1/views/people", **{"key.page": "/a"})
    assert [panes["rows"][place]["window_start"][14:16] for place in panes["estimates"]["visitors"]] == ["01"]
    commit = answer["as_of"]["commits"]["visits"]
    as_of = asked(up, version_as_of=commit)
    assert (by_page(as_of), as_of["approximate"]) == (counts(visits + later), {}), "computed in batch from the log"

    assert "drift 0" in headrace("refresh", "people", "-w", up.folder).out
    check_exact(up, visits + later)
    assert headrace("refresh", "people", "--full", "-w", up.folder).code == 0
    check_exact(up, visits + later)
