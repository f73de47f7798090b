"""`headrace status --watch` in another process: JSON, plain text, a terminal; through a restart."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from tests.surfaces.conftest import HEADRACE, Ran, Served

WATCH = [str(HEADRACE), "status", "--watch", "--every", "0.1"]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a command that is killed at the end, if it still runs."""
    started: list[subprocess.Popen[str]] = []

    def command(*arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*WATCH, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # Tests in the background of a shell inherit that Ctrl-C is ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        started.append(process)
        return process

    yield command
    for process in started:
        process.kill()
        process.wait()


def until(process: subprocess.Popen[str], words: str) -> str:
    """The first line with these words."""
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return line
    raise AssertionError(f"ended without '{words}': {process.communicate()}")


def test_json_continues_through_a_restart(applied: Path, serve: Callable[..., Served], start: Start) -> None:
    process = start("--json", "-w", applied)
    status = orjson.loads(until(process, '"gone"'))
    assert status["error"]["message"] == "no server is running for workspace 'shop'"
    for _ in range(2):
        served = serve(applied)
        status = orjson.loads(until(process, '"starting"'))
        assert status["url"] == served.url
        assert status["streams"][0]["name"] == "visits"
        served.stop()
        until(process, '"gone"')
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=180)
    assert (process.returncode, err) == (0, "")


def test_without_a_terminal_there_are_plain_blocks(served: Served, start: Start) -> None:
    process = start("-w", served.url)
    for _ in range(2):
        until(process, f"workspace shop: starting at {served.url}")
        assert "maintain time" in until(process, "dead letters")
        until(process, "traffic")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=180)
    assert (process.returncode, err) == (0, "")


def test_q_quits_on_a_terminal(served: Served) -> None:
    screen, inner = pty.openpty()
    process = subprocess.Popen([*WATCH, "-w", served.url], stdin=inner, stdout=inner, stderr=inner, close_fds=True)
    os.close(inner)
    try:
        output, deadline, key_sent = b"", time.monotonic() + 180, False
        while process.poll() is None:
            assert time.monotonic() < deadline, output
            if select.select([screen], [], [], 0.1)[0]:
                try:
                    output += os.read(screen, 65536)
                except OSError:  # the other end was closed
                    break
            if not key_sent and b"q or Ctrl-C quits" in output and b"traffic" in output:
                os.write(screen, b"q")
                key_sent = True
        assert process.wait(120) == 0, output
        assert b"\x1b[?1049l" in output  # the previous screen is restored
    finally:
        process.kill()
        process.wait()
        os.close(screen)


def test_a_folder_that_is_not_a_workspace_is_refused_at_once(tmp_path: Path, headrace: Callable[..., Ran]) -> None:
    result = headrace("status", "--watch", "-w", tmp_path)
    assert result.code == 1
    assert "is not a workspace" in result.err
