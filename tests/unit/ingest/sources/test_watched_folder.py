"""A watched folder whose files grow, are rotated and renamed, by commands that are killed anywhere."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.define.catalog import parse
from headrace.errors import IngestError
from headrace.ingest.formats.format_detection import ANY, FileLayout
from headrace.ingest.input_files import StreamShape
from headrace.ingest.intake import Ingest
from headrace.ingest.receiver import IngestReply, SentStatus
from headrace.ingest.sending import Sending
from headrace.ingest.sources import watched_folder as watching
from headrace.ingest.sources.watched_folder import FolderWatch
from headrace.transport.journal.journal import Journal
from headrace.transport.sent_files import FilePiece
from tests import wording
from tests.effort import examples
from tests.unit.transport.journals import lines_of


class Stream:
    """The ingest and journal of a stream of lines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.journal = Journal(folder, fence=1)
        self.door = Ingest(parse("CREATE STREAM s (value STRING) FORMAT TEXT").streams["s"], self.journal)
        self.watches: list[FolderWatch] = []
        self.killed_before: int | None = None  # the piece before which the sender is killed

    def ingest(
        self, stream: str, body: bytes, *, layout: FileLayout, key: str | None, keep_bad: bool, file: FilePiece | None
    ) -> Future[IngestReply]:
        if self.killed_before is not None:
            self.killed_before -= 1
            if self.killed_before < 0:
                raise KeyboardInterrupt
        return self.door.take(body, layout=layout, key=key, keep_bad=keep_bad, file=file)

    def sent(self, stream: str, name: str, first: str) -> SentStatus:
        return self.door.sent(name, first)

    def sent_on_disk(self, stream: str, name: str) -> None: ...

    def give_up(self) -> None: ...

    def watch(self, folder: Path) -> FolderWatch:
        sending = Sending(self, StreamShape("s", "text", {"value": "STRING"}), patient=True, renames=True)
        self.watches.append(FolderWatch(sending, folder, "*.log*", ANY, threading.Event(), lambda text: None))
        return self.watches[-1]

    def close(self) -> None:
        for watch in self.watches:
            watch.close()
        self.journal.close()

    def lines(self) -> Counter[bytes]:
        return Counter(line for line in lines_of(self.folder, self.journal.end).splitlines() if line.strip())


@pytest.fixture
def stream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stream]:
    one = Stream(tmp_path_factory.mktemp("journal"))
    yield one
    one.close()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2)),
        st.tuples(st.just("part"), st.integers(0, 2)),
        st.tuples(st.just("rotate"), st.integers(0, 2)),
        st.tuples(st.just("rename"), st.integers(0, 2)),
        st.tuples(st.just("look"), st.just(0)),
        st.tuples(st.just("kill"), st.integers(0, 3)),
    ),
    max_size=30,
)


@settings(
    deadline=None,
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
def test_every_line_is_sent_once(steps: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory) -> None:
    stream, folder = Stream(tmp_path_factory.mktemp("journal")), tmp_path_factory.mktemp("in")
    watch = stream.watch(folder)
    written: Counter[bytes] = Counter()
    number = 0
    for step, which in steps:
        file = folder / f"{which}.log"
        match step:
            case "append" | "part":
                number += 1
                line = b"line %d" % number
                half = file.exists() and not file.read_bytes().endswith(b"\n")
                with file.open("ab") as out:
                    if half:
                        out.write(b"\n")
                    out.write(line + (b"\n" if step == "append" else b""))
                written[line] += 1
            case "rotate":
                for n in (2, 1):
                    if (folder / f"{which}.log.{n}").exists():
                        (folder / f"{which}.log.{n}").rename(folder / f"{which}.log.{n + 1}")
                if file.exists():
                    file.rename(folder / f"{which}.log.1")
            case "rename":
                if file.exists():
                    file.rename(folder / f"{which}-{number}-{len(written)}.log")
            case "look":
                watch.step()
            case "kill":
                stream.killed_before = which
                with suppress(KeyboardInterrupt):
                    watch.step()
                stream.killed_before = None
                watch = stream.watch(folder)
    for file in folder.iterdir():
        if not file.read_bytes().endswith(b"\n"):
            with file.open("ab") as out:
                out.write(b"\n")
    for _ in range(3):
        watch.step()
    stream.close()
    kept = {line for file in folder.iterdir() for line in file.read_bytes().splitlines()}
    lines = stream.lines()
    assert {line: count for line, count in lines.items() if count > 1} == {}
    assert kept <= set(lines) <= set(written)


def test_a_new_file_with_the_same_content_counts_and_a_copy_too(stream: Stream, tmp_path: Path) -> None:
    watch = stream.watch(tmp_path)
    first = tmp_path / "a.log"
    first.write_bytes(b"same\n")
    os.utime(first, (1, 1))  # so that it is closed at once, as a file that has been there for long
    watch.step()
    (tmp_path / "b.log").write_bytes(b"same\n")  # a copy: the other one is still there
    watch.step()
    assert stream.lines() == {b"same": 2}
    first.unlink()
    watch.step()
    again = tmp_path / "c.log"
    again.write_bytes(b"same\n")
    os.utime(again)
    watch.step()
    assert stream.lines() == {b"same": 3}
    again.rename(tmp_path / "d.log")
    stream.watch(tmp_path).step()
    assert stream.lines() == {b"same": 3}


def test_files_are_closed_when_there_are_many(stream: Stream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MOST_OPEN", 3)
    for n in range(10):
        (tmp_path / f"{n}.log").write_bytes(b"%d\n" % n)
    watch = stream.watch(tmp_path)
    for _ in range(3):
        watch.step()
    assert len(watch._open) <= 4
    with (tmp_path / "0.log").open("ab") as file:
        file.write(b"more\n")
    watch.step()
    assert stream.lines()[b"more"] == 1
    assert watch.reply.accepted == 11


def test_a_folder_that_goes_and_comes_back(stream: Stream, tmp_path: Path) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    watch = stream.watch(inside)
    (inside / "a.log").write_bytes(b"one\n")
    watch.step()
    inside.rename(tmp_path / "away")
    watch.step()
    (tmp_path / "away").rename(inside)
    with (inside / "a.log").open("ab") as file:
        file.write(b"two\n")
    watch.step()
    assert stream.lines() == {b"one": 1, b"two": 1}
    with wording.raises(IngestError):
        stream.watch(inside / "a.log")


@pytest.mark.parametrize("renamed", ["a", "b", "c"])
def test_of_files_with_the_same_content_the_one_that_is_gone_was_renamed(
    stream: Stream, tmp_path: Path, renamed: str
) -> None:
    for name in "abc":
        (tmp_path / f"{name}.log").write_bytes(b"same\n")
    stream.watch(tmp_path).step()
    assert stream.lines() == {b"same": 3}
    (tmp_path / f"{renamed}.log").rename(tmp_path / "d.log")
    with (tmp_path / "d.log").open("ab") as file:
        file.write(b"more\n")
    stream.watch(tmp_path).step()
    assert stream.lines() == {b"same": 3, b"more": 1}
