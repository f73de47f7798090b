"""A real `headrace up` with Spark: events in, answers out by all three surfaces, a clean stop."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from headrace.api.connect import Connection, connect
from headrace.cli.app import run
from headrace.errors import NotReadyError
from tests import http
from tests.surfaces.conftest import HEADRACE, Ran, Up, visit
from tests.waiting import wait_until

EVENTS = [
    visit(0, visitor="ann", bytes=10),
    visit(30, visitor="bob", bytes=20),
    visit(70, page="/cart", status=500, bytes=5),
    visit(80, page=None, bytes=7),
    visit(90, status=304),
    visit(600, page="/cart", bytes=1),
]


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A server with six visits in its view and one dead letter."""
    folder = tmp_path_factory.mktemp("live") / "shop"
    assert run(["init", str(folder)]) == 0
    running = Up(folder)
    # Both need Spark, which is still starting.
    early = [["refresh", "traffic"], ["dead-letters", "visits", "replay"]]
    waiting = [subprocess.Popen([str(HEADRACE), *arguments], cwd=folder) for arguments in early]
    assert [command.wait(timeout=180) for command in waiting] == [0, 0]
    (folder / "visits.ndjson").write_bytes(b"".join(orjson.dumps(event) + b"\n" for event in EVENTS) + b"broken\n")
    process = subprocess.run(
        [str(HEADRACE), "send", "visits", "visits.ndjson", "--wait"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert "7 events sent" in process.stdout
    assert "All views include them." in process.stdout
    assert "1 could not be parsed: `headrace dead-letters visits` shows why" in process.stderr
    yield running
    if running.process.poll() is None:
        running.stop()


@pytest.fixture
def connection(up: Up) -> Iterator[Connection]:
    with connect(up.folder) as connection_:
        yield connection_


def test_a_point_answer(up: Up) -> None:
    reply = http.get(f"{up.url}/v1/views/traffic?key.page=/home&start=2026-03-01T12:00:00Z").json()
    assert reply["rows"] == [
        {
            "page": "/home",
            "window_start": "2026-03-01T12:00:00Z",
            "window_end": "2026-03-01T12:01:00Z",
            "hits": 2,
            "errors": 0,
            "bytes": 30,
            "visitors": 2,
            "settled": True,
        }
    ]
    assert reply["freshness_ms"] == 0
    assert reply["as_of"]["newest_event"] == "2026-03-01T12:10:00Z"
    assert reply["as_of"]["commits"] == {"visits": 1}
    assert reply["events"] == {"batch": 0, "speed": 2}


def test_keys_windows_and_pages(connection: Connection) -> None:
    total = connection.ask("traffic", by="", window="1h").rows()
    assert [(row["hits"], row["errors"], row["settled"]) for row in total] == [(5, 1, False)]
    assert connection.ask("traffic", key={"page": None}).rows()[0]["bytes"] == 7
    either = connection.ask("traffic", key=[{"page": "/cart"}, {"page": "/home"}], window="1h").rows()
    assert [row["page"] for row in either] == ["/cart", "/home"]
    last = connection.ask("traffic", start="-1m").rows()
    assert [(row["page"], row["window_start"]) for row in last] == [("/cart", datetime(2026, 3, 1, 12, 10, tzinfo=UTC))]
    pages, cursor = [], None
    while True:
        answer = connection.ask("traffic", limit=1, cursor=cursor)
        pages += answer.rows()
        cursor = answer.next_cursor
        if cursor is None:
            break
    assert pages == connection.ask("traffic").rows()
    assert len(pages) == 4


def test_lookup_of_many_keys(up: Up) -> None:
    question = {"key": [{"page": "/home"}, {"page": "/none"}], "by": ["page"], "window": "1h"}
    reply = http.post(f"{up.url}/v1/views/traffic/lookup", json=question).json()
    assert [(row["page"], row["hits"]) for row in reply["rows"]] == [("/home", 2)]


def test_ask_on_the_command_line(up: Up, headrace: Callable[..., Ran]) -> None:
    result = headrace("ask", "traffic", "-w", up.folder, "--key", "page=/cart", "--window", "1h")
    assert result.code == 0
    title, _, row, *_ = result.out.splitlines()
    assert title.split() == ["page", "window_start", "window_end", "hits", "errors", "bytes", "visitors", "settled"]
    assert row.split() == [
        "/cart",
        "2026-03-01",
        "12:00:00",
        "2026-03-01",
        "13:00:00",
        "2",
        "1",
        "6",
        "1",
        "provisional",
    ]
    assert "version 1 · as of 1 commit of visits, newest event 2026-03-01 12:10:00 UTC" in result.out
    assert "freshness: up to date" in result.out
    assert "1 row: 0 settled, 1 provisional · events: 0 batch, 2 speed · 2 on time + 0 corrections" in result.out
    assert "visitors: within " in result.out
    more = headrace("ask", "traffic", "-w", up.url, "--limit", "2")
    assert "NULL" in headrace("ask", "traffic", "-w", up.folder, "--key", r"page=\N").out
    assert "more rows: --cursor " in more.out
    cursor = more.out.split("--cursor ")[1].split()[0]
    rest = headrace("ask", "traffic", "-w", up.url, "--limit", "2", "--cursor", cursor, "--json")
    assert len(rest.json["rows"]) == 2
    assert headrace("ask", "traffic", "-w", up.url, "--key", "page=/none").out.startswith("no rows\n")


def test_the_events_behind_a_cell_by_all_surfaces(up: Up, connection: Connection, headrace: Callable[..., Ran]) -> None:
    cell = ("--key", "page=/home", "--at", "2026-03-01T12:00:30Z")
    result = headrace("explain", "traffic", "-w", up.folder, *cell, "--limit", "1")
    assert result.code == 0, result.err
    assert result.out.startswith("traffic · page=/home · 2026-03-01 12:00:00 to 2026-03-01 12:01:00 UTC\n")
    assert (
        "2 events of 1 commit: 2 on time + 0 late, 0 corrections · the view has the same count: 0 batch, 2 speed"
        in result.out
    )
    cursor = result.out.split("more events: --cursor ")[1].split()[0]
    rest = headrace("explain", "traffic", "-w", up.url, *cell, "--cursor", cursor, "--json").json
    assert [orjson.loads(event["value"])["visitor"] for event in rest["events"]] == ["bob"]
    parameters = {"key.page": "/home", "at": "2026-03-01T12:00:30Z"}
    reply = http.get(f"{up.url}/v1/views/traffic/explain", params=parameters).json()
    assert (reply["found"], reply["agrees"], reply["cell"]["rows"][0]["hits"]) == (2, True, 2)
    explanation = connection.explain("traffic", {"page": None}, at=datetime(2026, 3, 1, 12, 1, tzinfo=UTC))
    assert [event.arguments["bytes"] for event in explanation.events] == [7]
    page = http.get(f"{up.url}/views/traffic/explain", params=parameters).text
    for words in (
        "2 events of the log: 2 on time + 0 late, 0 corrections; the view has the same count.",
        "{&quot;visitor&quot;:",
    ):
        assert words in page
    empty = headrace("explain", "traffic", "-w", up.url, "--key", "page=/home", "--at", "2026-03-01T12:05:00Z").out
    assert "the nearest windows of this key with events: --at 2026-03-01T12:00:00Z" in empty


def test_as_of_by_all_surfaces(up: Up, connection: Connection, headrace: Callable[..., Ran]) -> None:
    now = connection.ask("traffic").rows()
    past = connection.ask("traffic", version_as_of=1)
    assert past.rows() == now
    assert (past.events, past.freshness_reason) == ({"batch": 5, "speed": 0}, "as of 1 commit of visits")
    result = headrace("ask", "traffic", "-w", up.url, "--version-as-of", "0")
    assert result.out.startswith("no rows\n"), result.err
    wrong = headrace("ask", "traffic", "-w", up.folder, "--version-as-of", "9")
    assert (wrong.code, wrong.err) == (
        2,
        "error: the lake of stream 'visits' has 1 commit; found version as of 9; "
        "expected a number of commits up to 1\n",
    )
    assert (
        "an answer as of an earlier time does not change"
        in headrace("ask", "traffic", "--version-as-of", "1", "--watch", "-w", up.url).err
    )
    parameters = {"timestamp_as_of": "2100-01-01", "by": "", "window": "1h"}
    lines = {"accept": "application/x-ndjson"}
    reply = http.get(f"{up.url}/v1/views/traffic", params=parameters, headers=lines)
    assert orjson.loads(reply.text.splitlines()[-1])["answer"]["rows"][0]["hits"] == 5
    early = {"timestamp_as_of": "2020-01-01"}
    reply = http.get(f"{up.url}/v1/views/traffic", params=early)
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "question")
    answer = headrace("sql", "SELECT sum(hits) AS n FROM traffic VERSION AS OF 1", "-w", up.folder, "--json").json
    assert answer["rows"] == [{"n": 5}]


def test_watch_follows_until_interrupted(up: Up) -> None:
    watching = subprocess.Popen(
        [str(HEADRACE), "ask", "traffic", "--by", "", "--window", "1h", "--watch", "--json"],
        cwd=up.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    output = ""
    while output.count('"freshness_ms"') < 2:
        line = watching.stdout.readline()
        assert line, watching.communicate()
        output += line
    watching.send_signal(signal.SIGINT)
    _, err = watching.communicate(timeout=180)
    assert err == ""
    assert watching.returncode == 0


def test_status_and_health(up: Up, headrace: Callable[..., Ran]) -> None:
    wait_until(lambda: http.get(f"{up.url}/health").json()["status"] == "ok")
    status = headrace("status", "-w", up.folder, "--json").json
    assert status["state"] == "ok"
    assert (status["streams"][0]["events"], status["streams"][0]["dead_letters"]) == (6, 1)
    assert status["views"][0]["freshness_ms"] == 0
    assert f"workspace shop: ok at {up.url}" in headrace("status", "-w", up.url).out
    assert http.get(f"{up.url}/health").json()["status"] == "ok"


def test_page_and_metrics(up: Up) -> None:
    page = http.get(up.url).text
    for words in ("shop</bdi>", "/cart", "1 dead letter of visits", "hits per 1 minute, page together", "<rect"):
        assert words in page, words
    metrics = http.get(f"{up.url}/metrics").text
    assert 'headrace_state{headrace_state="ok"} 1.0' in metrics
    assert 'headrace_events_total{stream="visits"} 6.0' in metrics
    assert 'headrace_dead_letters{stream="visits"} 1.0' in metrics
    assert 'headrace_view_lag_commits{view="traffic"} 0.0' in metrics
    for times in ("commit", "merge"):
        assert f'headrace_{times}_seconds_count{{stream="visits"}} 0' not in metrics
        assert f'headrace_{times}_seconds_count{{stream="visits"}}' in metrics
    samples = {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in metrics.splitlines() if line[0] != "#"
    }
    of = '{stream="visits",view="traffic"}'
    assert float(samples[f"headrace_latency_seconds_count{of}"]) > 0  # since an event arrived, until the view had it
    assert float(samples[f"headrace_latency_seconds_sum{of}"]) > 0


def test_a_view_added_to_a_running_server_has_the_whole_history(up: Up, headrace: Callable[..., Ran]) -> None:
    (up.folder / "definitions" / "more.sql").write_text(
        "CREATE MATERIALIZED VIEW by_status AS SELECT status, count(*) AS n FROM visits GROUP BY status;"
    )
    result = headrace("apply", "--yes", "-w", up.folder)
    assert result.code == 0, result.err
    with connect(up.folder) as connection:
        wait_until(lambda: {view.name: view.version for view in connection.views()}["by_status"] is not None)
        rows = connection.ask("by_status").rows()
    assert {row["status"]: row["n"] for row in rows} == {200: 4, 304: 1, 500: 1}
    assert headrace("ask", "by_status", "-w", up.folder).out.splitlines()[0].split() == ["status", "n"]


def test_a_field_added_to_a_running_server_has_the_whole_history(up: Up, headrace: Callable[..., Ran]) -> None:
    """Earlier events have it as an undeclared field."""
    files = {name: up.folder / "definitions" / name for name in ("shop.sql", "more.sql")}
    before = {path: path.read_text() for path in files.values()}
    url = f"{up.url}/v1/streams/visits/events"
    later = [visit(610 + i, country=country, status=204) for i, country in enumerate(["de", "fr", "de", 5, None])]
    assert http.post(url, json=later).json()["accepted"] == 5
    files["shop.sql"].write_text(before[files["shop.sql"]].replace("page    STRING", "country STRING, page STRING"))
    result = headrace("apply", "--yes", "-w", up.folder)
    assert result.code == 0, result.err
    assert "~ stream visits  free: older events are parsed again where a view uses the new field" in result.out
    reply = http.post(url, json=[visit(620, country="fr", status=204), visit(0, country=5)]).json()
    assert reply["refused"] == [{"index": 1, "reason": "field 'country' takes STRING, found the number 5"}]
    files["more.sql"].write_text(
        "CREATE MATERIALIZED VIEW by_country AS SELECT country, count(*) AS n FROM visits WHERE status = 204 "
        "GROUP BY country;"
    )
    assert headrace("apply", "--yes", "-w", up.folder).code == 0
    expected = {"de": 2, "fr": 2, None: 2}
    with connect(up.folder) as connection:

        def counts() -> dict[str | None, int]:
            return {row["country"]: row["n"] for row in _rows(connection, "by_country")}

        wait_until(lambda: counts() == expected, details=counts)
        (stream,) = connection.streams()
        assert [field.name for field in stream.fields][1] == "country"


def _rows(connection: Connection, view: str) -> list[dict[str, Any]]:
    """Its rows; none while it is being built."""
    try:
        return connection.ask(view).rows()
    except NotReadyError:
        return []


def test_a_second_up_fails_and_names_the_first(up: Up) -> None:
    second = subprocess.run(
        [str(HEADRACE), "up", "-w", str(up.folder), "--port", "0"], capture_output=True, text=True, check=False
    )
    assert second.returncode == 1
    assert f"is in use by process {up.process.pid} at {up.url}" in second.stderr
    assert second.stderr.count("\n") == 1


def test_it_stops_and_answers_from_its_folder(up: Up, headrace: Callable[..., Ran]) -> None:
    code, out, err = up.stop()
    assert code == 0, err
    assert out.splitlines()[-1] == "Stopped."
    log_lines = [orjson.loads(line) for line in err.splitlines()]
    assert "pipeline ready" in [line["event"] for line in log_lines]
    assert "pipeline ready" in (up.folder / "data" / "logs" / "headrace.log").read_text()
    assert (up.folder / "data" / "logs" / "spark.log").stat().st_size > 0
    result = headrace("ask", "traffic", "-w", up.folder, "--by", "", "--window", "1h", "--json")
    assert result.json["rows"][0]["hits"] == 11
    assert result.json["freshness_reason"] == "the server is not running"
    process = subprocess.run(  # it starts a Spark of its own, so it runs in another process
        [str(HEADRACE), "explain", "traffic", "-k", "page=/cart", "--at", "2026-03-01T12:01:00Z", "--json"],
        cwd=up.folder,
        capture_output=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert orjson.loads(process.stdout)["events"][0]["arguments"] == {
        "hits": 1,
        "errors": 1,
        "bytes": 5,
        "visitors": "ann",
    }
