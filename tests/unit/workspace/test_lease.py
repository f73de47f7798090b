"""The lease: one holder, also if its file is damaged or the clock is set; fences only increase."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from headrace.disk import free_bytes
from headrace.errors import DiskFullError, FencedError, WorkspaceError
from headrace.workspace.lease import Lease
from headrace.workspace.lease_holder import Holder, live_holder, pid_namespace, read_holder
from tests import wording


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "lease.json"


@pytest.fixture
def lease(file: Path) -> Iterator[Lease]:
    lease_ = Lease(file, url="http://x", silent_after_s=60)  # it beats each second whatever the machine does
    yield lease_
    lease_.release()


def wait_for_a_heartbeat(file: Path) -> Holder:
    before, deadline = read_holder(file), time.monotonic() + 60
    while (now := read_holder(file)) is None or now == before:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return now


def test_a_second_holder_is_refused_and_a_released_lease_is_free(file: Path, lease: Lease) -> None:
    with pytest.raises(WorkspaceError, match=f"in use by process {os.getpid()} at http://x"):
        Lease(file, url=None)
    lease.release()
    following = Lease(file, url=None)
    assert following.fence == lease.fence + 1
    following.release()
    lease._fd = os.open(file, os.O_RDONLY)  # the fixture releases once more


@pytest.mark.parametrize("content", [None, b"", b"{}", b'{"pid": 1', b"\xff" * 50, b"[]"])
def test_a_lost_or_damaged_lease_is_written_again(file: Path, lease: Lease, content: bytes | None) -> None:
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    lease.check()
    holder = read_holder(file)
    assert holder is not None
    assert (holder.pid, holder.fence) == (os.getpid(), lease.fence)
    wait_for_a_heartbeat(file)


def test_the_lease_of_a_process_that_took_over_is_not_changed(file: Path, lease: Lease) -> None:
    holder = read_holder(file)
    assert holder is not None
    content = orjson.dumps(replace(holder, pid=1, fence=holder.fence + 1).__dict__)
    other = file.with_suffix(".other")
    other.write_bytes(content)
    other.replace(file)
    with wording.raises(FencedError, 1):
        lease.check()
    lease._thread.join(180)  # its heartbeats have ended
    assert not lease._thread.is_alive()
    assert file.read_bytes() == content


def test_without_a_lease_file_the_next_fence_is_above_all_fences_in_the_data(file: Path) -> None:
    lease = Lease(file, url=None, floor=lambda: 41)
    assert lease.fence == 42
    lease.release()


@pytest.mark.parametrize("jump_s", [10**8, -(10**8)])
def test_setting_the_clock_neither_ends_a_lease_nor_extends_it(file: Path, lease: Lease, jump_s: int) -> None:
    holder = wait_for_a_heartbeat(file)
    assert replace(holder, beat=holder.beat + jump_s).is_alive()
    assert not replace(holder, beat_s=holder.beat_s - 61).is_alive()
    assert not replace(holder, boot="another", beat=holder.beat + jump_s).is_alive()
    assert replace(holder, boot="another").is_alive()  # of another machine: only the wall clock can be compared


def test_a_full_disk_does_not_end_a_lease(small_disk: Callable[[int], Path]) -> None:
    disk = small_disk(1 << 16)
    lease = Lease(disk / "data" / "lease.json", url=None, silent_after_s=60)
    ballast = (disk / "ballast").open("wb", buffering=0)
    while free_bytes(disk):
        ballast.write(bytes(4096))
    wait_for_a_heartbeat(disk / "data" / "lease.json")
    (disk / "data" / "lease.json").unlink()
    for _ in range(3):  # there is no space to write it again
        lease.check()
    assert lease._thread.is_alive()
    with wording.raises(DiskFullError):
        Lease(disk / "other" / "lease.json", url=None)
    os.truncate(ballast.name, 0)
    lease.check()
    assert live_holder(disk / "data" / "lease.json") is not None
    lease.release()
    ballast.close()


HOLD = """
import sys, time
from pathlib import Path
from headrace.workspace.lease import Lease
Lease(Path(sys.argv[1]), url="http://x", silent_after_s=60)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a pid namespace (unshare -pf)")
def test_the_lease_of_a_process_in_another_container_is_not_taken(file: Path) -> None:
    command = ["unshare", "-pf", "--kill-child", sys.executable, "-c", HOLD, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            if process.stdout.readline() != b"held\n":
                pytest.skip("this machine allows no pid namespaces (unshare -pf)")
            holder = read_holder(file)
            assert holder is not None
            assert holder.pids != pid_namespace()  # its pid, such as 1, is another process here or none at all
            for pid in (holder.pid, 2**22 - 1):
                assert replace(holder, pid=pid).is_alive()
            assert not replace(holder, beat_s=holder.beat_s - 61).is_alive()
            with wording.raises(WorkspaceError):
                Lease(file, url=None)
        finally:
            process.kill()


def test_only_a_pid_of_this_machine_and_boot_is_looked_up(file: Path, lease: Lease) -> None:
    holder = replace(wait_for_a_heartbeat(file), pid=2**22 - 1)
    assert not holder.is_alive()
    assert replace(holder, host="another").is_alive()
    assert replace(holder, boot="another").is_alive()
    assert replace(holder, pids="another").is_alive()


@pytest.mark.parametrize("host", ["another", socket.gethostname()])  # hosts may have one name
def test_a_holder_on_another_host_whose_clock_differs_keeps_its_lease(file: Path, host: str) -> None:
    beats = [0.0]

    def beat() -> None:
        beats[0] += 1
        holder = Holder(1, "http://x", 7, beats[0], 5, host=host, boot="another")  # of 1970 by the clock here
        other = file.with_suffix(".other")
        other.write_bytes(orjson.dumps(holder.__dict__))
        other.replace(file)

    file.parent.mkdir()
    beat()
    stopping = threading.Event()

    def beat_on() -> None:
        while not stopping.wait(0.05):
            beat()

    thread = threading.Thread(target=beat_on)
    thread.start()
    try:
        with wording.raises(WorkspaceError, 1):
            Lease(file, url=None)
    finally:
        stopping.set()
        thread.join()
    following = Lease(file, url=None)  # no more heartbeats: it is taken after their time
    assert following.fence == 8
    following.release()


def test_a_lease_with_fields_of_a_newer_release_is_read(file: Path, lease: Lease) -> None:
    holder = read_holder(file)
    assert holder is not None
    file.write_bytes(orjson.dumps({**holder.__dict__, "rack": 7}))
    assert read_holder(file) == holder
