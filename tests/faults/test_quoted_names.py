"""Streams, tables, views, sinks and alerts with names of any characters: every surface, the disk, a killed server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote as url

import orjson
import pytest

import headrace as hr
from headrace.cli.app import run
from headrace.engine.duckdb_terms import duckdb_name as dq
from headrace.engine.value_bounds import LONGEST_KEY
from headrace.language.terms import quote
from headrace.name_encoding import decode_name, encode_name
from tests.server import UpServer
from tests.waiting import wait_until
from tests.warm import Java

WEB, CALLS = "web events/../../x \"q\" `b` %2F 'é' 日", "a:b, c=1"
SLOW, USERS, ALL = "slow? #1", "users & <co>", "both\\n"
PAGES, COUNTS, TOTALS, TOP = "per page/minute", "both: 1=2,3", "..totals; --", "top $5 {x}"
OUT, EVENTS_OUT, ALARM = "../../out *[a]", "events~20out", "too many!/2"
DEFINITIONS = f"""
CREATE STREAM {quote(WEB)} (page STRING, who STRING, ms INT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE STREAM {quote(CALLS)} (page STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
CREATE TABLE {quote(USERS)} (id STRING PRIMARY KEY, plan STRING);
CREATE STREAM {quote(SLOW)} AS SELECT w.page, w.ms, u.plan, w.at FROM {quote(WEB)} w LEFT JOIN {quote(USERS)} u ON w.who = u.id;
CREATE STREAM {quote(ALL)} AS SELECT page, at FROM {quote(WEB)} UNION ALL SELECT {quote(CALLS)}.page, at FROM {quote(CALLS)};
CREATE MATERIALIZED VIEW {quote(PAGES)} AS
SELECT {quote(WEB)}.page, count(*) AS n, sum(ms) AS ms FROM {quote(WEB)} GROUP BY page, window(at, '1 minute');
CREATE MATERIALIZED VIEW {quote(COUNTS)} AS SELECT page, count(*) AS n FROM {quote(ALL)} GROUP BY page;
CREATE MATERIALIZED VIEW {quote(TOTALS)} AS SELECT plan, count(*) AS n, max(ms) AS most FROM {quote(SLOW)} GROUP BY plan;
CREATE VIEW {quote(TOP)} AS SELECT page, sum(n) AS n FROM {dq(PAGES)} GROUP BY page ORDER BY n DESC;
CREATE SINK {quote(OUT)} FROM {quote(PAGES)} WITH (connector = 'files', path = 'out', format = 'json');
CREATE SINK {quote(EVENTS_OUT)} FROM {quote(ALL)} WITH (connector = 'files', path = 'out', format = 'json');
CREATE ALERT {quote(ALARM)} AS SELECT page, n FROM {quote(PAGES)} WHERE n >= 2;
"""  # noqa: E501 - one definition per line
WEB_EVENTS = [
    {"page": "/a", "who": "ann", "ms": 5, "at": "2026-03-01T12:00:00Z"},
    {"page": "/a", "who": "bob", "ms": 7, "at": "2026-03-01T12:00:01Z"},
    {"page": "/b", "who": "ann", "ms": 9, "at": "2026-03-01T12:00:02Z"},
]
CALL_EVENTS = [{"page": "/a", "at": "2026-03-01T12:00:00Z"}]


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "deep" / "er" / "workspace"
    (folder / "definitions").mkdir(parents=True)
    (folder / "headrace.toml").write_text("port = 0\n")
    (folder / "definitions" / "all.sql").write_text(DEFINITIONS)
    yield folder
    UpServer.kill_all()


def command(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str) -> str:
    capsys.readouterr()
    code = run([*arguments, "-w", str(folder)])
    out, err = capsys.readouterr()
    assert code == 0, err
    return out


def answers(ws: hr.Connection) -> dict[str, Any]:
    return {
        PAGES: {row["page"]: (row["n"], row["ms"]) for row in ws.ask(PAGES).rows()},
        COUNTS: {row["page"]: row["n"] for row in ws.ask(COUNTS).rows()},
        TOTALS: {row["plan"]: (row["n"], row["most"]) for row in ws.ask(TOTALS).rows()},
        TOP: [tuple(row.values()) for row in ws.ask(TOP).rows()],
        USERS: {row["id"]: row["plan"] for row in ws.ask(USERS).rows()},
    }


EXPECTED = {
    PAGES: {"/a": (2, 12), "/b": (1, 9)},
    COUNTS: {"/a": 3, "/b": 1},
    TOTALS: {"gold": (2, 9), None: (1, 7)},
    TOP: [("/a", 2), ("/b", 1)],
    USERS: {"ann": "gold"},
}


@pytest.mark.timeout(1800)  # some two minutes, several times as long on a busy machine
def test_names_of_any_characters(
    java: Java, workspace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = java.server(workspace).wait_until_ready()
    send_all(server, workspace, capsys)
    ws = hr.connect(workspace)
    wait_until(lambda: answers(ws) == EXPECTED, details=lambda: answers(ws))
    check_http(server)
    check_python(ws)
    check_commands(workspace, capsys)
    check_outgoing(ws, server, workspace)
    ws.close()
    server.kill()
    check_disk(workspace, tmp_path)

    server = java.server(workspace).wait_until_ready()
    with hr.connect(workspace) as ws:
        assert answers(ws) == EXPECTED
        assert ws.send(CALLS, CALL_EVENTS, key="again/ü").accepted == 1
        wait_until(lambda: ws.ask(COUNTS, key={"page": "/a"}).rows()[0]["n"] == 4)
        ws.refresh(PAGES)
        wait_until(lambda: bool(ws.audits(PAGES)))
    server.stop()
    rows = orjson.loads(command(capsys, workspace, "ask", COUNTS, "--json"))["rows"]
    assert {row["page"]: row["n"] for row in rows} == {"/a": 4, "/b": 1}


def send_all(server: UpServer, workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    users = lines(workspace / "users.ndjson", [{"id": "ann", "plan": "gold"}, {"id": "x" * (LONGEST_KEY + 1)}])
    command(capsys, workspace, "send", USERS, str(users), "--wait")  # an event is joined to what the table holds
    (reason,) = orjson.loads(command(capsys, workspace, "dead-letters", USERS, "count", "--json"))
    assert (reason["reason"], reason["count"]) == ("key 'id' is longer than 65,536 bytes", 1)
    server.wait_for_token(server.post(url(CALLS, safe=""), CALL_EVENTS, None)["token"])
    token = server.post(url(WEB, safe=""), WEB_EVENTS, "a key")["token"]
    assert decode_name(token.rpartition(".")[0]) == WEB
    server.wait_for_token(token)
    server.wait_for_views(PAGES, COUNTS, TOTALS)


def lines(file: Path, events: list[dict[str, Any]]) -> Path:
    file.write_bytes(b"\n".join(map(orjson.dumps, events)))
    return file


def check_http(server: UpServer) -> None:
    for view in (PAGES, COUNTS, TOTALS, TOP):
        path = f"/v1/views/{url(view, safe='')}"
        assert server.get(path)["rows"], view
        assert server.http.get(f"{server.url}/views/{url(view, safe='')}").status_code == 200
    explained = server.get(f"/v1/views/{url(COUNTS, safe='')}/explain", **{"key.page": "/a", "limit": "1"})
    assert explained["events"]
    more = server.get(
        f"/v1/views/{url(COUNTS, safe='')}/explain", **{"key.page": "/a", "cursor": explained["next_cursor"]}
    )
    assert len(more["events"]) == 2
    page = server.http.get(f"{server.url}/").text
    assert f'href="/views/{url(PAGES, safe="")}"' in page
    assert "<co>" not in page
    assert server.http.get(f"{server.url}/graph").status_code == 200
    assert server.get(f"/v1/tables/{url(USERS, safe='')}", **{"key.id": "ann"})["rows"]
    metrics = server.http.get(f"{server.url}/metrics").text
    assert 'stream="' + WEB.replace("\\", r"\\").replace('"', r"\"") + '"' in metrics
    missing = server.http.get(f"{server.url}/v1/views/{url('per page/minut', safe='')}")
    assert missing.status_code == 404
    assert f"did you mean '{PAGES}'?" in missing.json()["error"]["fix"]
    for path in (f"/v1/views/{PAGES}", "/v1/views/..%2F..", "/v1%2Fviews", "/page/..%2F..%2Fheadrace.toml"):
        assert server.http.get(f"{server.url}{path}").status_code == 404, path


def check_python(ws: hr.Connection) -> None:
    rows = ws.sql(f"SELECT page, n FROM {dq(COUNTS)} JOIN {dq(TOP)} USING (page, n) ORDER BY page").rows()
    assert [(row["page"], row["n"]) for row in rows] == [("/b", 1)]
    past = ws.ask(COUNTS, version_as_of={WEB: 0, CALLS: 1}).rows()
    assert [(row["page"], row["n"]) for row in past] == [("/a", 1)]
    past = ws.ask(COUNTS, version_as_of=f"{encode_name(WEB)}=0,{encode_name(CALLS)}=1").rows()
    assert [(row["page"], row["n"]) for row in past] == [("/a", 1)]
    cursors = [event.cursor for event in ws.tail(ALL, last=10, follow=False)]
    after = list(ws.tail(ALL, cursors[1], follow=False))
    assert [event.cursor for event in after] == cursors[2:]
    assert ws.versions(PAGES)[0].version == 1


def check_commands(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "No changes" in command(capsys, workspace, "plan")
    for arguments in (("status",), ("streams",), ("views",), ("sinks",), ("graph",), ("doctor",), ("tables",)):
        command(capsys, workspace, *arguments)
    assert "/a" in command(capsys, workspace, "ask", PAGES, "--json")
    assert "/b" in command(capsys, workspace, "explain", PAGES, "--key", "page=/b", "--at", "2026-03-01T12:00:00Z")
    assert "1" in command(capsys, workspace, "versions", COUNTS)
    assert command(capsys, workspace, "dead-letters", WEB)
    assert command(capsys, workspace, "sql", f"SELECT count(*) AS n FROM {dq(PAGES)}")
    assert command(capsys, workspace, "alerts")


def check_outgoing(ws: hr.Connection, server: UpServer, workspace: Path) -> None:
    out = workspace / "out"
    name, other = encode_name(OUT), encode_name(EVENTS_OUT)
    wait_until(lambda: bool([*out.glob(f"{name}-*.json"), *out.glob(f"{other}-*.json")]))
    wait_until(lambda: sum(len(file.read_text().splitlines()) for file in out.glob(f"{other}-*.json")) == 4)
    server.http.post(f"{server.url}/v1/sinks/{url(OUT, safe='')}/pause").raise_for_status()
    wait_until(lambda: server.get("/v1/alerts")["alerts"][0]["incidents"], details=lambda: server.get("/v1/alerts"))
    alerts = server.get("/v1/alerts")["alerts"]
    assert [alert["name"] for alert in alerts] == [ALARM]
    path = alerts[0]["incidents"][0]["explain"]
    assert server.http.get(f"{server.url}{path}").status_code == 200
    silence = {"for": "1h"}
    server.http.post(f"{server.url}/v1/alerts/{url(ALARM, safe='')}/silences", json=silence).raise_for_status()


def check_disk(workspace: Path, outside: Path) -> None:
    data = workspace / "data"
    assert {decode_name(path.name) for path in (data / "lake").iterdir()} == {WEB, CALLS, USERS}
    assert {decode_name(path.name) for path in (data / "journal").iterdir()} == {WEB, CALLS, USERS}
    assert [path.name for path in outside.iterdir()] == ["deep"], "nothing leaves the workspace"
    assert {path.name for path in workspace.iterdir()} >= {"data", "definitions", "headrace.toml", "out"}
    assert not {path.name for path in workspace.parent.iterdir()} - {"workspace"}
