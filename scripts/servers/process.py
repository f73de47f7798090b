"""Processes in the background, ports, and packages to install; every failure is one sentence."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PORTS = range(20_000, 32_000)  # below those that systems give to outgoing connections: a restart finds its port free
START_S = 300.0  # on a busy machine
STOP_S = 60.0

State = dict[str, Any]  # of one service, in services.json


class Failed(Exception):
    """One sentence for the user."""

    code = 1


class NotAvailable(Failed):
    """The service cannot be installed here."""

    code = 3


def say(service: str, text: str) -> None:
    print(f"{service}: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def is_running(state: State | None) -> bool:
    """Whether the process runs; another one that got its number later does not count."""
    if not state or not state.get("pid"):
        return False
    ended = subprocess.run(
        ["ps", "-ww", "-o", "command=", "-p", str(state["pid"])], capture_output=True, text=True, check=False
    )
    return state["folder"] in ended.stdout


def children(pid: int) -> list[int]:
    ended = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True)
    pairs = [line.split() for line in ended.stdout.splitlines()]
    return [int(child) for child, parent in pairs if int(parent) == pid]


def is_alive(pid: int) -> bool:
    """Whether any of its threads runs: those of a killed process end one by one, and the last one frees its port."""
    ended = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    stat = ended.stdout.strip()
    return bool(stat) and (not stat.startswith("Z") or "l" in stat)  # l: several threads


def end(service: str, state: State, number: signal.Signals) -> None:
    """Send a signal and wait; after a minute it is killed."""
    if not is_running(state):
        return
    pid = state["pid"]
    pids = [pid]
    if number is signal.SIGKILL:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)  # so that it starts no child that would outlive it
        pids += children(pid)
    for one in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, number)
    deadline = time.monotonic() + STOP_S
    while any(is_alive(one) for one in pids):
        if time.monotonic() > deadline:
            if number is signal.SIGKILL:
                raise Failed(f"{service}: process {pid} did not end in {STOP_S:.0f} s")
            say(service, f"did not end in {STOP_S:.0f} s; killing it")
            end(service, state, signal.SIGKILL)
            return
        time.sleep(0.05)


def start(service: str, state: State, command: list[str], is_ready: Callable[[str], bool], **how: Any) -> None:
    """Start it in the background and wait until it is ready; `is_ready` gets what it has printed."""
    log = Path(state["log"])
    with log.open("ab") as out:
        begin = out.tell()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            cwd=state["folder"],
            **how,
        )

    def printed() -> str:
        with log.open("rb") as file:
            file.seek(begin)
            return file.read().decode(errors="replace")

    began = time.monotonic()
    try:
        wait_until_ready(service, process, log, lambda: is_ready(printed()), printed)
    except BaseException:
        process.kill()
        process.wait()
        raise
    state["pid"] = process.pid
    say(service, f"ready in {time.monotonic() - began:.1f} s")


def wait_until_ready(
    service: str,
    process: subprocess.Popen[bytes],
    log: Path,
    is_ready: Callable[[], bool],
    printed: Callable[[], str],
) -> None:
    began = told = time.monotonic()
    while not is_ready():
        if process.poll() is not None:
            raise Failed(f"{service}: ended with code {process.returncode}; {log} ends: {tail(printed())}")
        now = time.monotonic()
        if now - began > START_S:
            raise Failed(f"{service}: not ready in {START_S:.0f} s; {log} ends: {tail(printed())}")
        if now - told > 5:
            told = now
            say(service, f"starting, {now - began:.0f} s")
        time.sleep(0.05)


def tail(text: str) -> str:
    return " | ".join(line.strip() for line in text.splitlines()[-5:])


def run(service: str, what: str, command: list[str], *, failure: type[Failed] = Failed, **how: Any) -> str:
    """Run to its end; says every few seconds that it still runs. Raises `failure` if it fails."""
    began = told = time.monotonic()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, **how)
        try:
            while process.poll() is None:
                time.sleep(0.05)
                if time.monotonic() - told > 10:
                    told = time.monotonic()
                    say(service, f"{what}, {told - began:.0f} s")
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        out.seek(0)
        text = out.read().decode(errors="replace")
    if process.returncode:
        errors = [line for line in text.splitlines() if "error" in line.lower()] or text.splitlines()[-3:]
        raise failure(f"{service}: {what} failed: {' | '.join(line.strip() for line in errors[:3])}")
    return text


def install(service: str, package: str, need: str) -> None:
    """A Debian package, where this user may install it."""
    if not shutil.which("apt-get"):
        raise NotAvailable(f"{service}: {need} was not found, and this system has no apt-get; install {need} yourself")
    if os.geteuid() != 0:
        raise NotAvailable(f"{service}: {need} was not found; install it: sudo apt-get install {package}")
    how = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    update = ["apt-get", "update", "-qq"]
    run(service, "reading Debian's package lists", update, failure=NotAvailable, env=how)
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
    run(service, f"installing Debian's package {package}", command, failure=NotAvailable, env=how)


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def choose_port(service: str, wanted: int | None) -> int:
    if wanted is None:
        return next(port for port in random.sample(PORTS, len(PORTS)) if is_free(port))
    require_free(service, wanted)
    return wanted


def require_free(service: str, port: int) -> None:
    if not is_free(port):
        raise Failed(
            f"{service}: port {port} is taken by another process; end it, or choose another port: "
            f"`scripts/services down {service}`, then `up {service} --{service}-port N`"
        )
