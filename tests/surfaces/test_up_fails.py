"""When `headrace up` cannot start or must stop: a one-line error, an exit code, no lease."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.workspace.lease_holder import live_holder
from tests.surfaces.conftest import HEADRACE, Holding, Ran, Served, Up
from tests.waiting import wait_until


def up(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(HEADRACE), "up", "-w", str(folder), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={"PATH": "/usr/bin:/bin", **environment},
    )


def test_a_port_in_use_is_named(applied: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        process = up(applied, "--port", str(port))
    assert process.returncode == 1
    assert process.stderr == (
        f"error: port {port} on 127.0.0.1 is in use by another program; "
        "choose another with --port, or --port 0 for a free one\n"
    )


def test_a_port_of_another_server_is_named(served: Served, tmp_path: Path, headrace: Callable[..., Ran]) -> None:
    other = tmp_path / "other"
    headrace("init", other)
    port = int(served.url.rpartition(":")[2])
    assert f"port {port} on 127.0.0.1 is in use by another Headrace server;" in up(other, "--port", str(port)).stderr


def test_a_workspace_of_another_server_is_refused_before_libraries_are_loaded(
    served: Served, applied: Path, headrace: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "headrace.cli.run_server", None)  # its import fails
    ran = headrace("up", "-w", applied)
    assert (ran.code, f"at {served.url}; use that server, or stop it first" in ran.err) == (1, True), ran.err


def test_other_machines_need_a_token(applied: Path) -> None:
    process = up(applied, "--host", "0.0.0.0", "--port", "0")
    assert process.returncode == 1
    assert "no token is set" in process.stderr


def test_a_wrong_definition_stops_the_first_start(folder: Path) -> None:
    (folder / "definitions" / "bad.sql").write_text("CREATE VIEW x AS SELECT 1;")
    process = up(folder, "--port", "0")
    assert process.returncode == 2
    assert "bad.sql:1:" in process.stderr
    assert live_holder(folder / "data" / "lease.json") is None
    data = folder / "data"
    assert data.stat().st_mode & 0o777 == 0o700
    assert "Warning" not in process.stderr
    data.chmod(0o755)
    err = up(folder, "--port", "0").stderr
    assert f"Warning: data folder '{data}' is open to other users (mode 755); chmod 700 '{data}'\n" in err


def test_without_java_there_is_a_one_line_error(applied: Path, tmp_path: Path) -> None:
    process = up(applied, "--port", "0", PATH=str(tmp_path), HOME=str(tmp_path))
    assert process.returncode == 1
    assert "error: Java was not found" in process.stderr.splitlines()[-1]
    assert "Traceback" not in process.stderr
    assert live_holder(applied / "data" / "lease.json") is None


def test_changes_other_than_creates_need_apply(applied: Path) -> None:
    sql = applied / "definitions" / "shop.sql"
    before = sql.read_text()
    sql.write_text(before.replace("sum(bytes) ", "max(bytes) "))
    running = Up(applied)
    code, _, err = running.stop(signal.SIGINT)
    assert code == 0
    assert "~ view traffic" in err
    assert "These changes need `headrace apply`; serving the applied definitions." in err
    sql.write_text("CREATE nonsense;")
    running = Up(applied)
    code, _, err = running.stop()
    assert code == 0
    assert "shop.sql:1:" in err
    assert "serving the applied" in err


def test_it_stops_when_another_process_takes_over(applied: Path) -> None:
    running = Up(applied)
    running.process.send_signal(signal.SIGSTOP)
    lease = applied / "data" / "lease.json"
    wait_until(lambda: live_holder(lease) is None)
    second = Up(applied)
    running.process.send_signal(signal.SIGCONT)
    code, _, err = running.end()
    assert code == 3
    assert "another process has taken this workspace over" in err
    assert "Traceback" not in err
    second.stop()


def test_a_stop_that_takes_too_long_ends_by_force() -> None:
    code = "import time; from headrace.cli import run_server as up; up._exit_late_at(time.monotonic()); time.sleep(600)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (1, "error: the server did not stop in time and was killed\n")


def test_up_waits_for_a_send_without_a_server(applied: Path) -> None:
    holding = Holding(applied)
    process = subprocess.Popen(
        [str(HEADRACE), "up", "-w", str(applied), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout
    assert process.stderr
    in_use = f"waiting: workspace '{applied}' is in use by process {holding.process.pid}\n"
    assert process.stderr.readline() == in_use
    assert "1 event sent" in holding.end()
    assert "Headrace serves" in process.stdout.readline()
    process.terminate()
    process.communicate(timeout=180)
