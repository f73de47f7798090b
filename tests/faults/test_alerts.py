"""Alerts of a real server: a webhook gets each notice, over a kill of the server and while it cannot be reached."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from headrace.cli.app import run
from tests.server import UpServer
from tests.waiting import wait_until
from tests.warm import Java

DEFINITIONS = """
CREATE STREAM visits (page STRING, status INT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 SECOND);
CREATE MATERIALIZED VIEW health AS
SELECT page, count(*) AS hits, 100.0 * count(*) FILTER (WHERE status >= 500) / count(*) AS error_rate
FROM visits GROUP BY page, window(at, '1 minute');
CREATE ALERT failing AS SELECT page, error_rate FROM health WHERE error_rate > 5 AND hits >= 10
WITH (webhook = 'http://127.0.0.1:{port}/hook', severity = 'critical', summary = '{{page}}: {{error_rate}} %');
CREATE ALERT quiet ON STREAM visits WHEN NO EVENTS FOR INTERVAL 3 SECONDS WITH (webhook = 'http://127.0.0.1:{port}/q');
"""
START = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Hook:
    """A URL that keeps what it gets, and refuses it while it is told to."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self.port = server.server_address[1]
        self.got: list[tuple[str, dict[str, Any]]] = []
        self.refuses = False

    def states(self, path: str) -> list[tuple[str, str | None]]:
        """State and page of each notice, repeats left out."""
        notices = {notice["id"]: notice for at, notice in self.got if at == path}
        return [(notice["state"], notice["key"].get("page")) for notice in notices.values()]


@contextmanager
def listen() -> Iterator[Hook]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if not hook.refuses:
                hook.got.append((self.path, json.loads(body)))
            self.send_response(503 if hook.refuses else 204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    hook = Hook(server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield hook
    finally:
        server.shutdown()
        server.server_close()


def events(page: str, second: int, statuses: list[int]) -> list[dict[str, Any]]:
    at = (START + timedelta(seconds=second)).isoformat()
    return [{"page": page, "status": status, "at": at} for status in statuses]


def test_notices_reach_a_webhook_over_kills(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    (folder / "definitions").mkdir(parents=True)
    (folder / "headrace.toml").write_text("")
    with listen() as hook:
        (folder / "definitions" / "all.sql").write_text(DEFINITIONS.format(port=hook.port))
        server = UpServer(folder).wait_until_ready()
        server.post("visits", events("/a", 5, [200] * 8 + [500] * 2) + events("/b", 5, [200] * 10), None)
        wait_until(lambda: hook.states("/hook") == [("firing", "/a")], details=lambda: hook.got)
        (_, notice) = next(each for each in hook.got if each[0] == "/hook")
        assert float(notice["row"]["error_rate"]) == 20
        assert notice["summary"].startswith("/a: 20")
        assert notice["severity"] == "critical"
        assert notice["explain"].startswith(f"{server.url}/views/health/explain?key.page=%2Fa&at=2026-01-01T12")
        assert server.http.get(notice["explain"]).status_code == 200
        hook.refuses = True
        server.post("visits", events("/a", 70, [200] * 10) + events("/b", 135, [500] * 10), None)
        wait_until(lambda: _alert(server, "failing")["undelivered"] == 2, details=lambda: hook.got)
        wait_until(lambda: "answered 503" in (_alert(server, "failing")["delivery_error"] or ""))
        server.kill()
        hook.refuses = False
        server = UpServer(folder).wait_until_ready()
        expected = [("firing", "/a"), ("resolved", "/a"), ("firing", "/b")]
        wait_until(lambda: sorted(hook.states("/hook")) == sorted(expected), details=lambda: hook.got)
        wait_until(lambda: ("firing", None) in hook.states("/q"), details=lambda: hook.got)
        server.post("visits", events("/a", 136, [200]), None)
        wait_until(lambda: ("resolved", None) in hook.states("/q"), details=lambda: hook.got)
        wait_until(lambda: _alert(server, "failing")["undelivered"] == 0)  # it is noted after the hook has answered
        status = _alert(server, "failing")
        assert (status["state"], status["firing"]) == ("firing", 1)
        assert [each["state"] for each in status["resolved"]] == ["resolved"]
        assert run(["alerts", "failing", "--silence", "1h", "--where", "page=/b", "-w", str(folder)]) == 0
        assert _alert(server, "failing")["incidents"][0]["silenced"]
        assert 'headrace_alert_firing{alert="failing"} 1.0' in server.http.get(f"{server.url}/metrics").text
        server.stop()


def _alert(server: UpServer, name: str) -> dict[str, Any]:
    alerts: list[dict[str, Any]] = server.get("/v1/alerts")["alerts"]
    return next(alert for alert in alerts if alert["name"] == name)


SPLIT = """
CREATE STREAM {stream} (device STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 0 SECONDS);
CREATE MATERIALIZED VIEW {stream}_alarms AS SELECT device, count(*) AS n FROM {stream}
GROUP BY device, window(at, '10 minutes');
CREATE ALERT {stream}_early AS SELECT device, n FROM {stream}_alarms WHERE n >= 3;
CREATE ALERT {stream}_closed AS SELECT device, n FROM {stream}_alarms WHERE n >= 3 EMIT ON WINDOW CLOSE;
"""


def test_one_request_and_one_event_at_a_time_give_the_same_incidents(java: Java, tmp_path: Path) -> None:
    (tmp_path / "definitions").mkdir()
    (tmp_path / "headrace.toml").write_text("lease_s = 2\nrehearse = false\n")
    text = SPLIT.format(stream="whole") + SPLIT.format(stream="single")
    (tmp_path / "definitions" / "all.sql").write_text(text)
    minutes = [1, 2, 3, 120, 240, 241, 242, 360, 480]
    alarms = [{"device": "d", "at": (START + timedelta(minutes=minute)).isoformat()} for minute in minutes]
    server = java.server(tmp_path).wait_until_ready()
    server.wait_for_token(server.post("whole", alarms, None)["token"])
    for number, alarm in enumerate(alarms):
        if number == 5:  # in the midst of an incident
            server.kill()
            server = java.server(tmp_path).wait_until_ready()
        server.wait_for_token(server.post("single", [alarm], None)["token"])
    expected = [(f"{hour}:00:00Z", f"{hour}:00:00Z", f"{hour}:10:00Z") for hour in ("2026-01-01T16", "2026-01-01T12")]
    for name in ("whole_early", "single_early", "whole_closed", "single_closed"):
        wait_until(lambda name=name: _times(server, name) == expected, details=lambda name=name: _alert(server, name))  # type: ignore[misc]
    server.stop()


def _times(server: UpServer, name: str) -> list[tuple[str, str, str]]:
    incidents = _alert(server, name)["resolved"]
    return [(each["since"], each["fired_at"], each["resolved_at"]) for each in incidents]
