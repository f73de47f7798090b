"""Requests produced to a real broker: each whole and once, whoever is killed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from headrace.define.kafka_source import KafkaSource
from headrace.define.model import JSON
from headrace.errors import ConflictError, FencedError, StaleMarkError, TooLargeError, UnavailableError
from headrace.faults import VARIABLE
from headrace.transport.kafka.kafka_transport import KafkaTransport
from headrace.transport.position import START
from headrace.transport.sent_files import FilePiece
from tests.waiting import wait_until

from .running import ANSWER_S, Kafka

KILLED = -9
Open = Callable[..., KafkaTransport]

WRITE = """
import sys
from pathlib import Path
from headrace.define.kafka_source import KafkaSource
from headrace.transport.kafka import kafka_transport as opening
from headrace.transport.kafka.kafka_transport import KafkaTransport
from headrace.transport.sent_files import FilePiece
opening.FIRST_LOOK_S = 120.0
folder, servers, topic, output = sys.argv[1:]
source = KafkaSource((topic,), properties={"bootstrap.servers": servers})
transport = KafkaTransport(Path(folder), "s", source, "json", fence=1)
for number in range(10):
    lines = b"".join(b'{"id":%d}\\n' % (number * 10 + i) for i in range(9))
    piece = FilePiece("file", f"m{number}", after=f"m{number - 1}" if number else "", start=not number)
    transport.submit(lines, 9, [], key=f"k{number}", digest="d", file=piece).result()
    print(number, file=open(output, "a"), flush=True)
"""


@pytest.fixture
def topic(kafka: Kafka) -> str:
    return kafka.create_topic(partitions=2)


@pytest.fixture
def open_stream(kafka: Kafka, topic: str, tmp_path: Path) -> Iterator[Open]:
    opened: list[KafkaTransport] = []

    def open_one(fence: int = 2, still_mine: Callable[[], None] = lambda: None) -> KafkaTransport:
        source = KafkaSource((topic,), properties={"bootstrap.servers": kafka.bootstrap_servers})
        opened.append(KafkaTransport(tmp_path / "k", "s", source, JSON, fence=fence, still_mine=still_mine))
        return opened[-1]

    yield open_one
    for transport in opened:
        transport.close()


def ids(kafka: Kafka, topic: str) -> list[int]:
    return sorted(orjson.loads(message.value() or b"")["id"] for message in kafka.messages(topic))


def post(transport: KafkaTransport, *numbers: int, key: str | None = None, file: FilePiece | None = None) -> None:
    payload = b"".join(b'{"id":%d}\n' % number for number in numbers)
    transport.submit(payload, len(numbers), [], key=key, digest="d", file=file).result(ANSWER_S)


@pytest.mark.parametrize("point", ["kafka.before_produce", "kafka.after_produce", "journal.before_fsync"])
def test_a_writer_killed(
    kafka: Kafka, topic: str, open_stream: Open, tmp_path: Path, run_python: Callable[..., None], point: str
) -> None:
    """What was acknowledged is there; what was not is there whole or not at all, and known by its key and its file."""
    output = tmp_path / "output"
    arguments = [str(tmp_path / "k"), kafka.bootstrap_servers, topic, str(output)]
    run_python(WRITE, *arguments, code=KILLED, **{VARIABLE: f"{point}:4"})
    acknowledged = len(output.read_text().split())
    assert acknowledged == 3
    transport = open_stream()
    stored = transport.sent.contents("file")[0]  # waits until it is known what the dead process had committed
    there = 3 if point == "kafka.before_produce" else 4
    assert (stored.mark, stored.events) == (f"m{there - 1}", there * 9)
    assert [transport.recall(f"k{number}") is not None for number in range(5)] == [n < there for n in range(5)]
    for number in range(5):
        lines = b"".join(b'{"id":%d}\n' % (number * 10 + i) for i in range(9))
        # As a sender without the stored mark does: the same keys again.
        transport.submit(lines, 9, [], key=f"k{number}", digest="d").result(ANSWER_S)
    assert ids(kafka, topic) == [number * 10 + i for number in range(5) for i in range(9)]


def test_events_carry_the_id_of_their_request(kafka: Kafka, topic: str, open_stream: Open) -> None:
    transport = open_stream()
    post(transport, 1, 2, key="k")
    post(transport, 3)
    with pytest.raises(ConflictError, match="'k' was used before"):
        transport.submit(b'{"id":9}\n', 1, [], key="k", digest="other").result(ANSWER_S)
    headers = {orjson.loads(m.value() or b"")["id"]: dict(m.headers() or []) for m in kafka.messages(topic)}
    assert [headers[n].get("headrace-id") for n in (1, 2, 3)] == [b"k:0", b"k:1", None]


def test_an_event_that_is_too_large_is_refused_alone(kafka: Kafka, topic: str, open_stream: Open) -> None:
    transport = open_stream()
    with pytest.raises(TooLargeError, match="larger than a message"):
        transport.submit(b'{"id":"%s"}\n' % (b"x" * 1_100_000), 1, [])
    post(transport, 1)
    assert ids(kafka, topic) == [1]


def test_pieces_without_events_move_the_mark_of_a_file(open_stream: Open) -> None:
    transport = open_stream()
    for number in range(4):
        piece = FilePiece("f", f"m{number}", after=f"m{number - 1}" if number else "", start=not number)
        post(transport, *([number] if number % 2 else []), file=piece)
    transport.close()
    again = open_stream(3)
    (content,) = again.sent.contents("f")
    assert (content.mark, content.events) == ("m3", 2)
    with pytest.raises(StaleMarkError):
        again.sent.check(FilePiece("f", "m9", after="m1"))


def test_a_process_that_was_replaced_adds_nothing(kafka: Kafka, topic: str, open_stream: Open) -> None:
    replaced = False

    def still_mine() -> None:
        if replaced:
            raise FencedError("taken over")

    old = open_stream(1, still_mine)
    post(old, 1)
    new = open_stream(2)
    post(new, 2)
    replaced = True
    with pytest.raises(FencedError):
        post(old, 3)
    post(new, 4)
    assert ids(kafka, topic) == [1, 2, 4]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_broker_that_is_away_is_waited_for(kafka: Kafka, topic: str, open_stream: Open, how: str) -> None:
    transport = open_stream()
    post(transport, 1, key="a")
    getattr(kafka, how)()
    try:
        wait_until(lambda: transport.trouble is not None)
        assert "cannot be reached" in str(transport.trouble)
        assert transport.reader.end() == START  # no task is started that would wait
        with pytest.raises(UnavailableError, match="nothing of this request was stored") as refused:
            transport.submit(b'{"id":2}\n', 1, [])
        assert refused.value.retry_after_s
    finally:
        kafka.start()
    wait_until(lambda: transport.trouble is None)
    post(transport, 2, key="b")
    post(transport, 1, key="a")
    assert ids(kafka, topic) == [1, 2]
    assert transport.reader.end() == transport.end
