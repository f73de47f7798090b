"""`connect`: the same methods and errors through a server and directly from a folder."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import orjson
import pyarrow as pa
import pytest

from headrace.api.connect import Connection, connect
from headrace.api.encoding import read_error
from headrace.api.remote import RemoteWorkspace
from headrace.errors import (
    ConflictError,
    HeadraceError,
    IngestError,
    NotFoundError,
    NotReadyError,
    OverloadError,
    QuestionError,
    TooLargeError,
    UnauthorizedError,
    UnavailableError,
    UsageError,
)
from headrace.ingest.input_files import SourceFile
from tests import wording
from tests.surfaces.conftest import Served, visit


def test_a_folder_with_a_server_is_used_through_it(served: Served) -> None:
    with connect(served.runtime.workspace.folder) as connection:
        assert connection.url == served.url
        reply = connection.send("visits", [visit(), visit(status="x")])
        assert (reply.accepted, [r["index"] for r in reply.refused]) == (1, [1])
        assert connection.send("visits", visit(at=datetime(2026, 3, 1, tzinfo=UTC), bytes=Decimal(5))).accepted == 0
        assert connection.send("visits", b'{"visitor":"a","at":"2026-03-01T12:00:00Z"}\n').accepted == 1
        assert connection.wait(reply.token, 0.1).complete is False
        assert connection.status().url == served.url
        assert connection.streams()[0].name == "visits"
        assert connection.views()[0].name == "traffic"
        assert connection.plan().empty


def test_tables_are_sent_and_other_types_are_refused(served: Served, applied: Path) -> None:
    rows = [visit(), {**visit(), "visitor": None}, visit()]
    table = pa.Table.from_pylist(rows)
    with connect(served.url) as connection:
        for events in (table, table.to_pandas()):
            reply = connection.send("visits", events, key=type(events).__name__)
            assert (reply.accepted, [row["index"] for row in reply.refused]) == (2, [1])
            assert connection.send("visits", events, key=type(events).__name__) == reply, "the key counts"
        assert connection.send("visits", table.slice(0, 0)).accepted == 0
        for wrong, *values in (
            ("events.csv", "str"),
            (5, "int"),
            ([visit(), "x"], "list", 1, "str"),
            (table.to_pandas()["page"], "Series", 0, "str"),
        ):
            with wording.raises(IngestError, *values):
                connection.send("visits", wrong)  # type: ignore[arg-type]
    served.stop()
    with connect(applied) as connection:
        assert connection.send("visits", table).accepted == 2


def test_a_folder_without_a_server_is_used_directly(applied: Path) -> None:
    with connect(applied) as connection:
        assert connection.url is None
        assert connection.send("visits", [visit()]).accepted == 1
        assert connection.status().state == "stopped"
        with wording.raises(NotReadyError):
            connection.wait("visits.1")
        with wording.raises(NotReadyError, "traffic"):
            connection.ask("traffic")


def test_a_plan_is_the_same_through_a_server(served: Served) -> None:
    definitions = served.runtime.workspace.definitions
    (definitions / "more.sql").write_text("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM visits;")
    with connect(served.url) as connection:
        plan = connection.plan()
        assert plan == served.verbs.plan()
        with pytest.raises(ConflictError):
            connection.apply("another")
        assert connection.apply(plan.fingerprint) == plan


def test_errors_are_the_same_through_a_server(served: Served) -> None:
    with connect(served.url) as connection:
        with wording.raises(NotFoundError, "trafic", "traffic"):
            connection.ask("trafic")
        with wording.raises(NotFoundError, "nothing"):
            connection.send("nothing", [visit()])
        with wording.raises(QuestionError, "start", "soon"):
            connection.ask("traffic", start="soon")
        with wording.raises(QuestionError, "pgae"):
            connection.ask("traffic", key={"pgae": "/home"})
        with wording.raises(QuestionError, "having", "traffic", "hist", "hits"):
            connection.ask("traffic", having="hist > 5")
        with wording.raises(QuestionError, "order_by", "ORDER BY 9"):
            connection.ask("traffic", order_by="9", limit=5)


def test_answers_come_back_as_answers(served: Served) -> None:
    with connect(served.url) as connection:
        answer = connection.ask("traffic", key={"page": ["/home", None]}, by=["page"], start="-1h", window="5m")
        assert answer.rows() == []
        assert answer.arrow().column_names[0] == "page"
        assert answer.windows is not None
        assert answer.windows["window_ms"] == 300_000
        assert connection.ask("traffic", having="hits > 5 AND count(*) > 1", order_by="hits DESC, page").rows() == []
        assert connection.ask("traffic", having="", order_by="").rows() == []


def test_a_token_is_sent(applied: Path, serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch) -> None:
    served = serve(applied, token="secret")
    with connect(served.url) as connection, pytest.raises(UnauthorizedError):
        connection.status()
    with connect(served.url, token="secret") as connection:
        assert connection.status().state == "starting"
    monkeypatch.setenv("HEADRACE_TOKEN", "secret")
    for target in (served.url, applied):
        with connect(target) as connection:
            assert connection.status().state == "starting"


@pytest.mark.parametrize(
    "reply",
    [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"],
)
def test_a_reply_of_another_server_is_refused(reply: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            taken, _ = listening.accept()
            taken.recv(65536)
            taken.sendall(reply)
            taken.close()

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with connect(url) as connection, wording.raises(UnavailableError, url):
            connection.status()
        thread.join()


def test_a_request_without_reply_is_retried_and_stored_once(served: Served) -> None:
    """The reply is lost on the way: the retry has the same key, so the events count once."""
    requests: list[bytes] = []
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def relay() -> None:
            for lose in (True, False):
                taken, _ = listening.accept()
                with taken, socket.create_connection((host, int(port))) as onward:
                    request = b""
                    while b"\r\n\r\n" not in request or not request.endswith(b"]"):
                        request += taken.recv(65536)
                    requests.append(request)
                    onward.sendall(request)
                    said = b""
                    while not said.endswith(b"}"):
                        said += onward.recv(65536)
                    if not lose:
                        taken.sendall(said)

        thread = threading.Thread(target=relay)
        thread.start()
        backend = RemoteWorkspace(f"http://127.0.0.1:{listening.getsockname()[1]}")
        with Connection(backend) as connection:
            reply = connection.send("visits", [visit()])
        thread.join()
    assert reply.accepted == 1
    assert requests[0] == requests[1]
    with connect(served.url) as connection:
        after = connection.send("visits", [visit()])
    # Two records of one event and a key: the second begins where the first ends.
    assert int(after.token.split(".")[1], 16) == 2 * int(reply.token.split(".")[1], 16)


def test_a_server_that_was_never_reached_is_not_waited_for() -> None:
    waited: list[HeadraceError] = []
    with connect("http://127.0.0.1:9") as connection:
        connection.on_wait(lambda error, pause_s: waited.append(error))
        with wording.raises(UnavailableError, "http://127.0.0.1:9"):
            connection.send("visits", [visit()])
    assert waited == []


@pytest.mark.parametrize("url", ["http://", "http://[", "http://127.0.0.1:99999"])
def test_an_invalid_url_is_refused(url: str) -> None:
    with wording.raises(UsageError):
        connect(url)


def test_retries_come_to_an_end(served: Served) -> None:
    served.ingest("visits").most_backlog_bytes = -1
    with (
        Connection(RemoteWorkspace(served.url, busy_for_s=0.3)) as connection,
        wording.raises(OverloadError, "visits"),
    ):
        connection.send("visits", [visit()])


def test_files_are_cut_at_line_ends(tmp_path: Path, served: Served) -> None:
    file = tmp_path / "visits.ndjson"
    events = [visit(i, page="/p" * (i % 50)) for i in range(300)]
    file.write_bytes(b"\n".join(orjson.dumps(event) for event in events))
    with connect(served.url) as connection:
        heard = Heard()
        sending = connection.sending("visits", heard)
        pieces = list(SourceFile(file, sending.declared, size=1000).pieces())
        assert len(pieces) > 20
        assert [orjson.loads(line) for piece in pieces for line in bytes(piece.lines).splitlines()] == events
        assert sum(piece.read_bytes for piece in pieces) == file.stat().st_size
        reply = connection.send_files("visits", [file, file], heard)
        assert (reply.accepted, reply.already_sent) == (300, 0)
        assert (heard.read_bytes, heard.events) == (2 * file.stat().st_size, 300)
        assert connection.send("visits", file).accepted == 0
        assert connection.send("visits", file, again=True).accepted == 300


class Heard:
    """What a sender says of its progress."""

    def __init__(self) -> None:
        self.read_bytes = self.events = self.waited = 0

    def sent(self, read_bytes: int, events: int) -> None:
        self.read_bytes += read_bytes
        self.events += events

    def waits(self, error: HeadraceError, pause_s: float) -> None:
        self.waited += 1

    def note(self, text: str) -> None:
        pass


def test_a_piece_beyond_the_limit_is_refused(tmp_path: Path, applied: Path, serve: Callable[..., Served]) -> None:
    served = serve(applied, max_body_mb=1)
    file = tmp_path / "long.ndjson"
    file.write_bytes(b" " * (3 << 20) + b"{}")
    with (
        Connection(RemoteWorkspace(served.url, retry_for_s=0)) as connection,
        pytest.raises((TooLargeError, UnavailableError)),
    ):
        connection.send("visits", file)
    file.write_bytes((orjson.dumps(visit()) + b"\n") * 40_000)
    assert file.stat().st_size > 3 << 20
    with connect(served.url) as connection:
        assert connection.send("visits", file).accepted == 40_000


def test_an_unknown_error_is_still_an_error() -> None:
    assert str(read_error({"code": "new", "message": "m", "fix": "f"}, 400)) == "m; f"
    assert "replied 500" in str(read_error(None, 500))
    located = read_error({"code": "definition", "message": "m", "where": "a.sql:3:4"}, 400)
    assert (located.code, str(located)) == ("definition", "a.sql:3:4: m")


def test_connecting_loads_no_spark() -> None:
    code = "import sys, headrace.api.connect; sys.exit('pyspark' in sys.modules or 'fastapi' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
