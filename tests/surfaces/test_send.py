"""`headrace send`: files of every format, folders, standard input, and a file that grows."""

from __future__ import annotations

import gzip
import io
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from headrace.cli.app import run
from headrace.errors import HeadraceError
from headrace.server.runtime import Runtime
from headrace.web.application import create_app
from headrace.web.http_server import HttpListener, bind, url_of
from headrace.workspace.settings import Workspace
from tests.surfaces.conftest import HEADRACE, Holding, Ran, Served, visit
from tests.surfaces.forms import BAD, FORMS, GOOD, TEXT_STREAM
from tests.waiting import wait_until

Command = Callable[..., Ran]


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
@pytest.mark.parametrize("form", FORMS)
def test_a_file_of_each_format(headrace: Command, applied: Path, form: str, packing: str) -> None:
    body = FORMS[form][1](GOOD, BAD, GOOD)
    if packing:
        body = gzip.compress(body) if packing == ".gz" else pa.compress(body, codec="zstd", asbytes=True)
    file = applied / f"events.{form}{packing}"
    file.write_bytes(body)
    result = headrace("send", "visits", file, "-w", applied, "--json")
    assert (result.code, result.json["accepted"]) == (0, 3), result.err
    nameless = file.rename(applied / "events")
    assert headrace("send", "visits", nameless, "-w", applied, "--json").json["accepted"] == 3
    result = headrace("send", "visits", nameless, "--format", form, "--again", "-w", applied, "--json")
    assert result.json["accepted"] == 3


def test_folders_are_sent_recursively(headrace: Command, applied: Path, served: Served) -> None:
    inside = applied / "in"
    (inside / "deep").mkdir(parents=True)
    for name in ("b.ndjson", "a.json", "deep/c.csv", ".hidden.ndjson", "notes.md"):
        form = name.rpartition(".")[2]
        (inside / name).write_bytes(FORMS[form if form in FORMS else "ndjson"][1](GOOD, GOOD))
    result = headrace("send", "visits", inside, "-w", applied)
    assert result.code == 0
    assert "3 files" in result.err
    assert "6 events sent" in result.out
    empty = applied / "empty"
    empty.mkdir()
    none = headrace("send", "visits", empty, "-w", applied)
    assert none.code == 1
    assert "contains no file that can be sent" in none.err


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("none.ndjson", None, "cannot be read; found no such file"),
        ("empty.csv", b"", "is empty"),
        ("blank.ndjson", b"\n\n", "no events found"),
        ("broken.ndjson.gz", gzip.compress(b"{}\n" * 100)[:-8], "broken.ndjson.gz': the gzip data cannot be unpacked"),
        ("odd.csv", b"a,b\n1,2", "odd.csv': the header of the CSV contains no field of the stream"),
    ],
)
def test_the_error_of_a_file_that_cannot_be_sent_names_the_reason(
    headrace: Command, applied: Path, name: str, body: bytes | None, words: str
) -> None:
    if body is not None:
        (applied / name).write_bytes(body)
    result = headrace("send", "visits", applied / name, "-w", applied)
    assert (result.code, words in result.err) == (1, True), result.err


def test_standard_input(headrace: Command, applied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for form, (_, write) in FORMS.items():
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(gzip.compress(write(GOOD, BAD)))))
        result = headrace("send", "visits", "-", "-w", applied, "--json")
        assert (result.code, result.json["accepted"]) == (0, 2), (form, result.err)


def test_lines_of_text(headrace: Command, applied: Path) -> None:
    (applied / "definitions" / "lines.sql").write_text(TEXT_STREAM)
    assert run(["apply", "--yes", "-w", str(applied)]) == 0
    file = applied / "a.csv"
    file.write_bytes(b"a,b\n\n1,2\n")
    assert headrace("send", "lines", file, "-w", applied, "--json").json["accepted"] == 2
    wrong = headrace("send", "visits", file, "--format", "text", "-w", applied)
    assert "a stream of lines is declared with FORMAT TEXT" in wrong.err


def test_an_error_names_the_file(headrace: Command, applied: Path) -> None:
    good, broken = applied / "a.ndjson", applied / "b.json"
    good.write_bytes(orjson.dumps(visit()) + b"\n")
    broken.write_bytes(b"[1, 2")
    result = headrace("send", "visits", good, broken, "-w", applied)
    assert result.code == 1
    assert "b.json': not a valid JSON array" in result.err


class Following:
    """A `headrace send --follow` in another process."""

    def __init__(self, file: Path, url: str) -> None:
        command = [str(HEADRACE), "send", "lines", str(file), "--follow", "-w", url]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def stop(self, number: int) -> tuple[str, str]:
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=180)
        assert self.process.returncode == 0, err
        return out, err


def test_a_growing_file_is_followed(applied: Path, serve: Callable[..., Served]) -> None:
    (applied / "definitions" / "lines.sql").write_text(TEXT_STREAM)
    assert run(["apply", "--yes", "-w", str(applied)]) == 0
    served = serve(applied)
    journal = served.runtime.workspace.journal("lines")

    def has(text: bytes) -> Callable[[], bool]:
        return lambda: any(text in segment.read_bytes() for segment in journal.iterdir())

    file = applied / "app.log"
    file.write_bytes(b"first line\nsecond li")
    following = Following(file, served.url)
    wait_until(has(b"first line\n"))
    assert not has(b"second")()
    with file.open("ab") as log:
        log.write(b"ne\nhalf of the old")
    wait_until(has(b"second line\n"))
    file.rename(applied / "app.log.1")
    file.write_bytes(b"after rotation\n")
    wait_until(has(b"after rotation\n"))
    assert has(b"half of the old\n")()
    os.truncate(file, 0)
    with file.open("ab") as log:  # less than before: a truncation is noticed by the size
        log.write(b"anew\n")
    wait_until(has(b"anew\n"))
    out, err = following.stop(signal.SIGINT)
    assert "5 events sent" in out
    assert "token lines." in out
    assert re.search(r"^[1-5] events? sent$", err, re.MULTILINE)  # without a terminal, progress is printed as lines
    following = Following(file, served.url)
    with file.open("ab") as log:
        log.write(b"later\n")
    wait_until(has(b"later\n"))
    out, _ = following.stop(signal.SIGTERM)
    assert "1 event sent in" in out
    assert "1 event sent before" in out
    assert sum(segment.read_bytes().count(b"anew\n") for segment in journal.iterdir()) == 1


def test_sends_without_a_server_run_one_after_the_other(applied: Path, headrace: Command) -> None:
    holding = Holding(applied)
    senders = []
    for number in range(2):
        file = applied / f"{number}.ndjson"
        file.write_bytes(orjson.dumps(visit(number)))
        err = applied / f"{number}.err"
        command = [str(HEADRACE), "send", "visits", str(file), "-w", str(applied)]
        with err.open("w") as out:
            senders.append((subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=out), err))
    waiting = f"waiting: workspace '{applied}' is in use by process {holding.process.pid}"
    for _, err in senders:
        wait_until(lambda err=err: waiting in err.read_text())
    assert "1 event sent" in holding.end()
    assert [sender.wait(180) for sender, _ in senders] == [0, 0]
    journal = applied / "data" / "journal" / "visits"
    assert sum(segment.read_bytes().count(b'"visitor"') for segment in journal.glob("*.seg")) == 3


def test_a_server_that_has_started_meanwhile_is_used(applied: Path, serve: Callable[..., Served]) -> None:
    from headrace.api.connect import connect

    with connect(applied) as connection:
        assert connection.url is None
        served = serve(applied)
        assert connection.send("visits", [visit()]).accepted == 1
        assert connection.url == served.url


def test_send_waits_for_a_server_that_does_not_listen_yet(applied: Path) -> None:
    from headrace.api.connect import connect

    waits = threading.Event()
    listener = bind("127.0.0.1", 0)
    runtime = Runtime.open(Workspace.open(applied), url_of(listener))  # the state of `headrace up` for a moment
    server = HttpListener(create_app(runtime), 100)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    try:
        with connect(applied) as connection, ThreadPoolExecutor() as pool:
            connection.on_wait(lambda error, _: waits.set() if "is starting" in error.message else None)
            reply = pool.submit(connection.send, "visits", [visit()])
            assert waits.wait(180)
            thread.start()
            assert reply.result(180).accepted == 1
    finally:
        server.stop()
        thread.join()
        runtime.stop()
        listener.close()


def test_send_waits_for_an_overloaded_server(applied: Path, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.api.connect import connect

    errors: list[HeadraceError] = []

    class Progress:
        def sent(self, read_bytes: int, events: int) -> None:
            pass

        def waits(self, error: HeadraceError, pause_s: float) -> None:
            assert pause_s >= 1  # the value of Retry-After
            errors.append(error)
            served.ingest("visits").most_backlog_bytes = 1 << 30

        def note(self, text: str) -> None:
            pass

    served.ingest("visits").most_backlog_bytes = -1
    file = applied / "a.ndjson"
    file.write_bytes(orjson.dumps(visit()))
    with connect(served.url) as connection:
        reply: Any = connection.send_files("visits", [file], Progress())
    assert reply.accepted == 1
    assert [error.code for error in errors] == ["overload"]
