"""Files sent to a real journal, interrupted anywhere, grown meanwhile, sent twice at once: each event is kept once."""

from __future__ import annotations

import gzip
import io
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.define.catalog import parse
from headrace.define.model import Stream
from headrace.errors import SEND_AGAIN, ChangedFileError, HeadraceError, StaleMarkError, TooLargeError, UnavailableError
from headrace.ingest.formats.format_detection import FileLayout
from headrace.ingest.input_files import SourceFile, StreamShape
from headrace.ingest.intake import Ingest
from headrace.ingest.receiver import IngestReply, SameContent, SentStatus
from headrace.ingest.sending import Sending, SendReply, send_all
from headrace.transport.journal.journal import Journal
from headrace.transport.sent_files import FilePiece
from tests import wording
from tests.effort import examples
from tests.unit.transport.journals import lines_of

SIZE = 200  # bytes of a piece
STREAM = "CREATE STREAM s (a INT, b STRING)"
TEXT = "CREATE STREAM s (value STRING) FORMAT TEXT"


class Receiver:
    """The ingest and the journal of a stream, over a connection that can be cut before or after a piece."""

    def __init__(self, folder: Path, declared: str = STREAM) -> None:
        self.folder = folder
        self.stream: Stream = parse(declared).streams["s"]
        self.fence = 0
        self.cut_at: int | None = None  # the piece without a reply
        self.arrives = False  # it is stored nevertheless
        self.fix: str | None = None  # of its error
        self.most = 1 << 20
        self.open()

    def open(self) -> None:
        self.fence += 1
        self.journal = Journal(self.folder, fence=self.fence)
        self.door = Ingest(self.stream, self.journal)

    def restart(self) -> None:
        self.journal.close()
        self.open()

    def ingest(
        self, stream: str, body: bytes, *, layout: FileLayout, key: str | None, keep_bad: bool, file: FilePiece | None
    ) -> Future[IngestReply]:
        if len(body) > self.most:
            raised: Future[IngestReply] = Future()
            raised.set_exception(TooLargeError("too large"))
            return raised
        lost = self.cut_at == 0
        self.cut_at = None if self.cut_at is None else self.cut_at - 1
        if not lost or self.arrives:
            reply = self.door.take(body, layout=layout, key=key, keep_bad=keep_bad, file=file)
        if not lost:
            return reply
        failed: Future[IngestReply] = Future()
        failed.set_exception(UnavailableError("gone", fix=self.fix))
        return failed

    def sent(self, stream: str, name: str, first: str) -> SentStatus:
        return self.door.sent(name, first)

    def sent_on_disk(self, stream: str, name: str) -> None: ...

    def give_up(self) -> None: ...

    def send(self, *files: Path, again: bool = False, size: int = SIZE) -> SendReply:
        types = {field.name: str(field.type) for field in self.stream.fields}
        declared = StreamShape("s", self.stream.format, types)
        sending = Sending(self, declared, again=again)
        return send_all(sending, (SourceFile(file, declared, size=size) for file in files))

    def lines(self) -> list[bytes]:
        return [line for line in lines_of(self.folder, self.journal.end).splitlines() if line.strip()]

    def events(self) -> list[Any]:
        return [orjson.loads(line) for line in self.lines()]


@pytest.fixture
def receive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Receiver]]:
    receivers: list[Receiver] = []

    def make(declared: str = STREAM) -> Receiver:
        receivers.append(Receiver(tmp_path_factory.mktemp("journal"), declared))
        return receivers[-1]

    yield make
    for receiver in receivers:
        receiver.journal.close()


def event(number: int) -> dict[str, Any]:
    return {"a": number, "b": f"text {number} " + "x" * (number % 40)}


def ndjson(count: int) -> bytes:
    return b"".join(orjson.dumps(event(n)) + b"\n" for n in range(count))


def csv(count: int) -> bytes:
    return b"a,b\n" + b"".join(f"{n},{event(n)['b']}\n".encode() for n in range(count))


def json(count: int) -> bytes:
    return orjson.dumps([event(n) for n in range(count)], option=orjson.OPT_INDENT_2)


def parquet(count: int) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([event(n) for n in range(count)]), out)
    return out.getvalue()


def packed(count: int) -> bytes:
    return gzip.compress(ndjson(count))


FORMS = {"ndjson": ndjson, "csv": csv, "json": json, "parquet": parquet, "ndjson.gz": packed}


@pytest.mark.parametrize("form", FORMS)
@given(
    steps=st.lists(
        st.tuples(st.integers(1, 60), st.integers(0, 8), st.booleans(), st.sampled_from([90, 200, 10_000])),
        min_size=1,
        max_size=5,
    )
)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
def test_each_event_is_kept_once_whatever_interrupts_sending(
    receive: Callable[..., Receiver],
    tmp_path: Path,
    form: str,
    steps: list[tuple[int, int, bool, int]],
) -> None:
    receiver, file, count = receive(), tmp_path / f"events.{form}", 0
    for grows, cut_at, arrives, size in steps:
        count += grows
        file.write_bytes(FORMS[form](count))
        receiver.cut_at, receiver.arrives = cut_at, arrives
        try:
            assert sum_of(receiver.send(file, size=size)) == count
        except UnavailableError:
            receiver.restart()
    receiver.cut_at = None
    assert sum_of(receiver.send(file)) == count
    assert receiver.events() == [event(n) for n in range(count)]
    again = receiver.send(file)
    assert (again.accepted, again.already_sent) == (0, count)


def sum_of(reply: SendReply) -> int:
    return reply.accepted + reply.already_sent


def test_the_count_after_a_lost_piece_is_the_count_that_is_kept(
    receive: Callable[..., Receiver], tmp_path: Path
) -> None:
    for arrives in (False, True):
        receiver, file = receive(), tmp_path / "events.ndjson"
        file.write_bytes(ndjson(100))
        receiver.cut_at, receiver.arrives = 3, arrives
        with pytest.raises(UnavailableError) as raised:
            receiver.send(file)
        stored = len(receiver.lines())
        assert 0 < stored < 100
        assert f"{stored} events are kept; the same command continues where it stopped" in str(raised.value)


def test_a_piece_that_is_too_large_is_halved_and_continued(receive: Callable[..., Receiver], tmp_path: Path) -> None:
    receiver, file = receive(), tmp_path / "events.ndjson"
    file.write_bytes(ndjson(100))
    receiver.most, receiver.cut_at = 100, 5
    with pytest.raises(UnavailableError):
        receiver.send(file)
    receiver.most = 1 << 20
    receiver.send(file)
    assert receiver.events() == [event(n) for n in range(100)]


@pytest.mark.parametrize(("suffix", "lines"), [(b"ird\n", [b"one", b"two", b"th", b"third"]), (b"\n4\n", None)])
def test_a_last_line_without_an_end(
    receive: Callable[..., Receiver], tmp_path: Path, suffix: bytes, lines: list[bytes] | None
) -> None:
    receiver, file = receive(TEXT), tmp_path / "a.log"
    file.write_bytes(b"one\ntwo\nth")
    assert receiver.send(file).accepted == 3
    assert receiver.send(file).accepted == 0
    with file.open("ab") as out:
        out.write(suffix)
    reply = receiver.send(file)
    assert receiver.lines() == (lines or [b"one", b"two", b"th", b"4"])
    assert ("its last line was incomplete" in "".join(reply.notes)) == bool(lines)
    assert receiver.send(file).accepted == 0


@pytest.mark.parametrize("tail", [b"  ", b"\n\n", b"\n" * 5000])
def test_blank_lines_at_the_end_are_no_events(receive: Callable[..., Receiver], tmp_path: Path, tail: bytes) -> None:
    receiver, file = receive(TEXT), tmp_path / "a.log"
    file.write_bytes(b"one\n" + tail)
    assert receiver.send(file).accepted == 1
    with file.open("ab") as out:
        out.write(b"\ntwo\n")
    receiver.send(file)
    assert receiver.lines() == [b"one", b"two"]


def test_again_sends_all_of_it_and_can_be_continued(receive: Callable[..., Receiver], tmp_path: Path) -> None:
    receiver, file = receive(), tmp_path / "events.ndjson"
    file.write_bytes(ndjson(50))
    receiver.send(file)
    assert receiver.send(file, again=True).accepted == 50
    receiver.cut_at = 2
    with wording.raises(UnavailableError, "--again"):
        receiver.send(file, again=True)
    receiver.cut_at = None
    receiver.send(file)
    assert receiver.events() == [event(n) for n in range(50)] * 3


def test_a_lost_first_piece_of_again_is_not_taken_for_the_one_before(
    receive: Callable[..., Receiver], tmp_path: Path
) -> None:
    receiver, file = receive(), tmp_path / "events.ndjson"
    file.write_bytes(ndjson(1))
    receiver.send(file)
    receiver.cut_at, receiver.fix = 0, SEND_AGAIN
    with pytest.raises(UnavailableError) as none_stored:
        receiver.send(file, again=True)
    assert none_stored.value.fix == SEND_AGAIN
    file.write_bytes(ndjson(50))
    receiver.cut_at = 2
    with pytest.raises(UnavailableError) as some_stored:
        receiver.send(file, again=True)
    stored = len(receiver.events()) - 1
    advice = "the same command without --again continues where it stopped"
    wording.check(some_stored.value.fix, stored, advice)


def test_other_content_under_the_same_name(receive: Callable[..., Receiver], tmp_path: Path) -> None:
    receiver, file = receive(TEXT), tmp_path / "app.log"
    file.write_bytes(b"monday\nrain\n")
    receiver.send(file)
    file.write_bytes(b"tuesday\n")
    rotated = receiver.send(file)
    assert (rotated.accepted, rotated.already_sent) == (1, 0)
    wording.check(rotated.notes[0], 2)
    file.write_bytes(b"monday\nrain\nsun\n")  # as another machine has it under the same path
    assert receiver.send(file).accepted == 1
    file.write_bytes(b"tuesday\nwind\n")
    assert receiver.send(file).accepted == 1
    assert receiver.lines() == [b"monday", b"rain", b"tuesday", b"sun", b"wind"]


def test_a_file_that_was_edited_is_refused_and_others_are_sent(
    receive: Callable[..., Receiver], tmp_path: Path
) -> None:
    receiver, edited, other = receive(TEXT), tmp_path / "a.log", tmp_path / "b.log"
    edited.write_bytes(b"one\ntwo\nthree\n")
    receiver.send(edited)
    edited.write_bytes(b"one\nTWO\nthree\n")
    other.write_bytes(b"other\n")
    with wording.raises(ChangedFileError, 3, "--again"):
        receiver.send(edited, other)
    assert receiver.lines() == [b"one", b"two", b"three", b"other"]
    assert receiver.send(edited, again=True).accepted == 3
    assert receiver.send(edited).accepted == 0


def test_the_same_content_under_another_name_counts_again_with_a_note(
    receive: Callable[..., Receiver], tmp_path: Path
) -> None:
    receiver, file, copy = receive(), tmp_path / "a.ndjson", tmp_path / "b.ndjson"
    file.write_bytes(ndjson(30))
    copy.write_bytes(ndjson(40))
    receiver.send(file)
    reply = receiver.send(copy)
    assert reply.accepted == 40
    wording.check(reply.notes[0], copy, file, 30)


def test_one_file_by_several_paths(
    receive: Callable[..., Receiver], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver, file, link = receive(), tmp_path / "a.ndjson", tmp_path / "link"
    file.write_bytes(ndjson(3))
    link.symlink_to(file)
    monkeypatch.chdir(tmp_path)
    assert [receiver.send(path).accepted for path in (Path("a.ndjson"), file, link)] == [3, 0, 0]


def test_csv_is_continued_though_the_fields_of_the_stream_changed(
    receive: Callable[..., Receiver], tmp_path: Path
) -> None:
    receiver, file = receive("CREATE STREAM s (a INT)"), tmp_path / "a.csv"
    file.write_bytes(csv(50).replace(b"a,b", b"a,c"))
    receiver.cut_at = 2
    with pytest.raises(UnavailableError):
        receiver.send(file)
    receiver.cut_at = None
    receiver.stream = parse("CREATE STREAM s (a STRING, c STRING)").streams["s"]
    receiver.restart()
    receiver.send(file)
    assert [int(event["a"]) for event in receiver.events()] == list(range(50))
    assert receiver.send(file).accepted == 0


def test_two_senders_of_one_file_keep_each_event_once(receive: Callable[..., Receiver], tmp_path: Path) -> None:
    receiver, file = receive(), tmp_path / "events.ndjson"
    file.write_bytes(ndjson(2000))
    replies: list[SendReply] = []
    failures: list[HeadraceError] = []

    def send(size: int) -> None:
        try:
            replies.append(receiver.send(file, size=size))
        except HeadraceError as error:
            failures.append(error)

    threads = [threading.Thread(target=send, args=(size,)) for size in (2000, 3333, 2000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert [sum_of(reply) for reply in replies] == [2000] * 3
    assert sum(reply.accepted for reply in replies) == 2000
    assert receiver.events() == [event(n) for n in range(2000)]


def test_two_that_send_it_again_at_once_do_not_mix(receive: Callable[..., Receiver], tmp_path: Path) -> None:
    receiver, file = receive(), tmp_path / "events.ndjson"
    file.write_bytes(ndjson(100))
    receiver.send(file)
    stale = receiver.sent("s", str(file), "")
    receiver.cut_at = 2
    with pytest.raises(UnavailableError):
        receiver.send(file, again=True)
    receiver.sent = lambda *_: stale  # type: ignore[method-assign]
    with wording.raises(StaleMarkError):
        receiver.send(file, again=True)


def test_how_far_a_file_was_sent_is_read_back_from_json(receive: Callable[..., Receiver], tmp_path: Path) -> None:
    receiver, file = receive(), tmp_path / "events.ndjson"
    file.write_bytes(ndjson(100))
    receiver.send(file)
    content = receiver.sent("s", str(file), "").contents[0]
    status = receiver.sent("s", "other.ndjson", content.first)
    assert status == SentStatus(0, (), (SameContent.of(str(file), content),))
    assert SentStatus.from_dict(orjson.loads(orjson.dumps(status))) == status
    assert list(status.as_dict()["same"][0]) == ["name", "mark", "first", "events", "token", "arrived"]
    assert list(content.as_dict()) == ["mark", "first", "events", "token", "arrived"]
