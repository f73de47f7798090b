"""Sources without end: sockets, commands and folders, with real processes that are killed and started again."""

from __future__ import annotations

import gzip
import os
import re
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import orjson
import pytest

from headrace.cli.app import run
from tests.surfaces.conftest import HEADRACE, Ran, Served, visit
from tests.surfaces.forms import TEXT_STREAM
from tests.unit.transport.journals import lines_of
from tests.waiting import wait_until

Command = Callable[..., Ran]
VISIT = visit()


@pytest.fixture
def lines(applied: Path) -> Path:
    """A workspace with a stream of lines."""
    (applied / "definitions" / "lines.sql").write_text(TEXT_STREAM)
    assert run(["apply", "--yes", "-w", str(applied)]) == 0
    return applied


class Source:
    """A `headrace send` of a source, in a process of its own."""

    started: list[Source] = []  # noqa: RUF012 - to be ended if a test fails

    def __init__(self, *arguments: object, stream: str = "lines") -> None:
        command = [str(HEADRACE), "send", stream, *map(str, arguments)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.err = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.started.append(self)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.err += line

    def wait_for(self, words: str) -> None:
        wait_until(lambda: words in self.err or self.process.poll() is not None)
        assert words in self.err

    @property
    def port(self) -> int:
        self.wait_for("listening on")
        port = re.search(r"listening on \S+:(\d+)\.", self.err)
        assert port
        return int(port[1])

    def stop(self, number: int = signal.SIGINT, code: int = 0) -> str:
        self.process.send_signal(number)
        return self.end(code)

    def end(self, code: int = 0) -> str:
        assert self.process.stdout is not None
        assert self.process.wait(180) == code, self.err
        self._reader.join()
        return self.process.stdout.read()


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    yield
    while Source.started:
        source = Source.started.pop()
        source.process.kill()
        source.process.wait()
        assert source.process.stdout is not None
        assert source.process.stderr is not None
        source._reader.join()
        source.process.stdout.close()
        source.process.stderr.close()


def stored(served: Served, stream: str = "lines") -> list[bytes]:
    """The lines of the journal, in order."""
    journal = served.ingest(stream).transport
    text = lines_of(served.runtime.workspace.journal(stream), journal.end)
    return [line for line in text.splitlines() if line.strip()]


def has(served: Served, count: int) -> Callable[[], bool]:
    return lambda: len(stored(served)) >= count


def holds(served: Served, *lines: bytes) -> Callable[[], bool]:
    return lambda: {*lines} <= {*stored(served)}


def talk(port: int, text: bytes) -> bytes:
    """Send a text, end it, and wait for the other side to end: then everything is stored."""
    with socket.create_connection(("127.0.0.1", port), timeout=180) as connection:
        connection.sendall(text)
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(1)


@pytest.mark.parametrize(("stream", "text"), [("lines", b"one\n"), ("visits", orjson.dumps(VISIT) + b"\n")])
def test_a_line_of_a_pipe_is_sent_while_the_pipe_stays_open(
    lines: Path, serve: Callable[..., Served], stream: str, text: bytes
) -> None:
    served = serve(lines)
    command = [str(HEADRACE), "send", stream, "-", "--json", "-w", served.url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        try:
            for count in (1, 2):
                process.stdin.write(text)
                process.stdin.flush()
                wait_until(lambda count=count: len(stored(served, stream)) == count)
            out, _ = process.communicate(text * 3 + text.rstrip(), timeout=180)
        finally:
            process.kill()
    assert process.returncode == 0
    assert orjson.loads(out)["accepted"] == 6
    assert [line + b"\n" for line in stored(served, stream)] == [text] * 6


def test_lines_of_many_connections_are_stored_before_each_is_closed(lines: Path, serve: Callable[..., Served]) -> None:
    served = serve(lines)
    source = Source("--listen", "127.0.0.1:0", "-w", served.url)
    port = source.port
    assert "cannot be read again" in source.err
    assert talk(port, b"one\ntwo\nthree without an end") == b""
    assert sorted(stored(served)) == [b"one", b"three without an end", b"two"]
    texts = [b"".join(b"%d of %d\n" % (n, each) for n in range(500)) for each in range(20)]
    threads = [threading.Thread(target=talk, args=(port, text)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = sorted(line for text in texts for line in text.splitlines())
    assert sorted(stored(served))[: len(expected)] == expected
    assert "10,003 events sent" in source.stop()


def test_a_line_arrives_in_parts_and_a_lost_connection_ends_alone(lines: Path, serve: Callable[..., Served]) -> None:
    served = serve(lines)
    source = Source("--listen", "127.0.0.1:0", "-w", served.url)
    port = source.port
    with socket.create_connection(("127.0.0.1", port), timeout=180) as slow:
        slow.sendall(b"a lo")
        with socket.create_connection(("127.0.0.1", port), timeout=180) as lost:
            lost.sendall(b"before\nhalf")
            wait_until(has(served, 1))
            lost.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        source.wait_for("4 bytes of an incomplete line are left out")
        slow.sendall(b"ng line\n")
        wait_until(has(served, 2))
        slow.sendall(b"last")
        out = source.stop(signal.SIGTERM)
    assert stored(served) == [b"before", b"a long line"]
    assert "2 events sent" in out


def test_what_comes_while_the_server_is_away_is_sent_later(lines: Path, serve: Callable[..., Served]) -> None:
    served = serve(lines)
    source = Source("--listen", "127.0.0.1:0", "-w", str(lines))
    port = source.port
    assert talk(port, b"first\n") == b""
    served.stop()
    with socket.create_connection(("127.0.0.1", port), timeout=180) as connection:
        connection.sendall(b"".join(b"%d\n" % n for n in range(1000)))
        connection.shutdown(socket.SHUT_WR)
        source.wait_for("waiting:")
        served = serve(lines)
        assert connection.recv(1) == b""
    assert stored(served) == [b"first", *(b"%d" % n for n in range(1000))]
    source.stop()
    source = Source("--listen", "127.0.0.1:0", "-w", str(lines))
    port = source.port
    served.stop()
    with socket.create_connection(("127.0.0.1", port), timeout=180) as connection:
        connection.sendall(b"never\n")
        source.wait_for("waiting:")
        connection.shutdown(socket.SHUT_WR)
        source.stop(code=130)
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    assert "not all could be sent" in source.err


def test_a_full_stream_makes_the_sender_wait(lines: Path, serve: Callable[..., Served]) -> None:
    served = serve(lines)
    source = Source("--listen", "127.0.0.1:0", "-w", served.url)
    port = source.port
    most, served.ingest("lines").most_backlog_bytes = served.ingest("lines").most_backlog_bytes, -1
    text = b"".join(b"%d %s\n" % (n, b"x" * 1000) for n in range(20_000))
    sender = threading.Thread(target=talk, args=(port, text))
    sender.start()
    source.wait_for("waiting:")
    served.ingest("lines").most_backlog_bytes = most
    sender.join()
    assert b"\n".join(stored(served)) + b"\n" == text
    source.stop()


def test_a_line_server_is_connected_to_again(lines: Path, serve: Callable[..., Served]) -> None:
    served = serve(lines)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        source = Source("--connect", address, "-w", served.url)
        connection, _ = listening.accept()
        connection.sendall(b"one\ntw")
        wait_until(has(served, 1))
        connection.sendall(b"o\n")
        connection.close()
        source.wait_for("connecting again in 1 s")
        connection, _ = listening.accept()
        connection.sendall(b"three\n")
        wait_until(has(served, 3))
        connection.close()
    assert "3 events sent" in source.stop()
    assert stored(served) == [b"one", b"two", b"three"]
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        source = Source("--connect", address, "--once", "--json", "-w", served.url)
        connection, _ = listening.accept()
        connection.sendall(b"four\nfive")
        connection.close()
        assert orjson.loads(source.end())["accepted"] == 2


def test_a_command_is_started_again_when_it_ends(lines: Path, serve: Callable[..., Served]) -> None:
    served = serve(lines)
    file = lines / "count"
    source = Source("--command", f"echo x >> {file}; echo started; exit 3", "-w", served.url)
    source.wait_for("; it is restarted in 1 s")
    assert re.search("ended with exit code 3 after [0-9]+ s; it is restarted in 1 s", source.err)
    wait_until(has(served, 2))
    out = source.stop()
    assert "events sent" in out
    runs = file.read_text().count("x")
    assert len(stored(served)) in (runs, runs - 1)  # the last one may be ended between its two commands


def running_in(group: int) -> list[str]:
    """The processes of a group that have not ended; some machines keep ended ones without a parent."""
    states = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, of = status.read_text().rpartition(")")[2].split()[:3]
            states += [state] if int(of) == group and state != "Z" else []
    return states


def test_a_command_that_runs_is_ended_with_the_source(lines: Path, serve: Callable[..., Served]) -> None:
    served = serve(lines)
    log, pid = lines / "a.log", lines / "pid"
    log.write_bytes(b"one\n")
    source = Source("--command", f"echo $$ > {pid}; tail -n +1 -F {log} | cat", "-w", served.url)
    wait_until(has(served, 1))
    with log.open("ab") as file:
        file.write(b"two\n")
    wait_until(has(served, 2))
    assert "2 events sent" in source.stop()
    wait_until(lambda: not running_in(int(pid.read_text())))


def test_a_command_once(headrace: Command, lines: Path, serve: Callable[..., Served]) -> None:
    serve(lines)
    result = headrace("send", "lines", "--command", "seq 100000", "--once", "--json", "-w", lines)
    assert (result.code, result.json["accepted"]) == (0, 100_000), result.err
    result = headrace("send", "lines", "--command", "seq 10; exit 4", "--once", "-w", lines)
    assert result.code == 1
    assert "'seq 10; exit 4' ended with exit code 4; 10 events are kept" in result.err
    for once in ([], ["--once"]):
        result = headrace("send", "lines", "--command", "no-such-program", *once, "-w", lines)
        assert result.code == 1
        assert "the command 'no-such-program' was not found" in result.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "send takes one source; found none"),
        (["--listen", "127.0.0.1:7777", "--watch", "."], "found --listen and --watch"),
        (["--listen", "7777"], "--listen '7777' is not an address; expected HOST:PORT"),
        (["--connect", "127.0.0.1:99999"], "is not an address"),
        (["--connect", "127.0.0.1:1"], "127.0.0.1:1 cannot be connected to: Connection refused"),
        (["--watch", "nowhere"], "folder 'nowhere' does not exist"),
        (["--watch", ".", "--pattern", "/x"], "pattern '/x' is not one of names in a folder"),
        (["--listen", "127.0.0.1:0", "--pattern", "*"], "--pattern does not belong to --listen"),
        (["--listen", "127.0.0.1:0", "--once"], "--once does not belong to --listen"),
        (["--watch", ".", "--again"], "--again does not belong to --watch"),
        (["--command", "x", "--format", "csv"], "--command does not take csv; expected lines: ndjson or text"),
        (["--command", "x", "--format", "ndjson"], "stream 'lines' has the format TEXT"),
        (["--command", " "], "the command is empty"),
    ],
)
def test_a_source_that_cannot_be_read_is_one_sentence(
    headrace: Command, lines: Path, arguments: list[str], words: str
) -> None:
    result = headrace("send", "lines", *arguments, "-w", lines)
    assert result.code in (1, 2)
    assert words in result.err, result.err


def test_a_port_that_is_in_use_is_named(headrace: Command, lines: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        result = headrace("send", "lines", "--listen", f"127.0.0.1:{port}", "-w", lines)
    assert (result.code, f"port {port} is in use" in result.err) == (1, True), result.err


def test_a_folder_is_watched_over_kills_rotation_and_renames(lines: Path, serve: Callable[..., Served]) -> None:
    served = serve(lines)
    folder = lines / "in"
    (folder / "deep").mkdir(parents=True)
    log = folder / "app.log"
    log.write_bytes(b"1\n2\nhal")
    source = Source("--watch", folder, "-w", served.url)
    source.wait_for("continues where this one stops")
    wait_until(holds(served, b"1", b"2"))
    (folder / "deep" / ".temporary").write_bytes(b"whole 1\nwhole 2")
    (folder / "deep" / ".temporary").rename(folder / "deep" / "b.txt")
    (folder / "c.txt.gz").write_bytes(gzip.compress(b"packed 1\npacked 2\n"))
    with log.open("ab") as file:
        file.write(b"f 3\n")
    wait_until(holds(served, b"half 3", b"whole 1", b"packed 2"))
    source.process.kill()
    source.process.wait()
    with log.open("ab") as file:
        file.write(b"4\n")
    source = Source("--watch", folder, "-w", served.url)
    wait_until(holds(served, b"4"))
    with log.open("ab") as file:
        file.write(b"5\n")
    log.rename(folder / "app-1.log")
    log.write_bytes(b"6\n")
    wait_until(holds(served, b"5", b"6"))
    source.process.kill()
    source.process.wait()
    log.rename(folder / "app-2.log")
    log.write_bytes(b"7\n")
    source = Source("--watch", folder, "-w", served.url)
    wait_until(holds(served, b"7"))
    os.utime(folder / "deep" / "b.txt", (1, 1))  # long ago: its last line is complete
    wait_until(holds(served, b"whole 2"))
    out = source.stop()
    assert sorted(stored(served)) == sorted(
        [b"1", b"2", b"half 3", b"whole 1", b"whole 2", b"packed 1", b"packed 2", b"4", b"5", b"6", b"7"]
    )
    assert "before it was renamed" in source.err
    new, before = re.search(r"(\d+) events? sent in", out), re.search(r"(\d+) events sent before", out)
    assert new, out
    assert before, out
    assert int(new[1]) + int(before[1]) == 11, out  # a slow machine takes the last line for complete sooner


def test_a_file_that_cannot_be_sent_does_not_stop_the_others(served: Served, applied: Path) -> None:
    folder = applied / "in"
    folder.mkdir()
    good = {"visitor": "ann", "page": "/home", "status": 200, "bytes": 1, "at": "2026-03-01T12:00:00Z"}
    (folder / "a.json.gz").write_bytes(gzip.compress(b"{}\n" * 100)[:-8])
    (folder / "b.csv").write_bytes(b"x,y\n1,2\n")
    (folder / "c.json").write_bytes(orjson.dumps([good, good]))
    (folder / "d.json").write_bytes(orjson.dumps(good))
    (folder / "e.jsonl").write_bytes(orjson.dumps(good) + b"\n" + orjson.dumps(good)[:20])
    (folder / "notes.md").write_bytes(b"not sent")
    source = Source("--watch", folder, "-w", served.url, stream="visits")
    wait_until(lambda: len(stored(served, "visits")) >= 4)
    source.wait_for("a.json.gz': the gzip data cannot be unpacked")
    source.wait_for("b.csv': the header of the CSV contains no field of the stream")
    (folder / "b.csv").write_bytes(b"visitor,at\nbob,2026-03-01T12:00:00Z\n")
    wait_until(lambda: len(stored(served, "visits")) >= 5)
    with (folder / "e.jsonl").open("ab") as file:
        file.write(orjson.dumps(good)[20:])
    wait_until(lambda: len(stored(served, "visits")) >= 6)
    assert "6 events sent" in source.stop()
    assert sum(b"bob" in line for line in stored(served, "visits")) == 1


def test_without_a_server_lines_are_stored_and_a_server_has_to_wait(lines: Path, serve: Callable[..., Served]) -> None:
    source = Source("--listen", "127.0.0.1:0", "-w", lines)
    assert talk(source.port, b"one\ntwo\n") == b""
    assert "no server is running: events are stored, and `headrace up` waits" in source.err
    source.stop()
    assert stored(serve(lines)) == [b"one", b"two"]


def test_a_folder_without_new_files_says_so(headrace: Command, lines: Path, serve: Callable[..., Served]) -> None:
    served = serve(lines)
    folder = lines / "in"
    folder.mkdir()
    for n in range(20):
        (folder / f"{n}.txt").write_bytes(b"".join(b"%d of %d\n" % (line, n) for line in range(100)))
    source = Source("--watch", folder, "--pattern", "*.txt", "--json", "-w", served.url)
    wait_until(has(served, 2000))
    reply = orjson.loads(source.stop())
    assert (reply["accepted"], reply["already_sent"], len(stored(served))) == (2000, 0, 2000)
    result = headrace("send", "lines", folder, "-w", served.url)  # the same record of what was sent
    assert "Nothing new in 20 files: 2,000 events sent before" in result.out
