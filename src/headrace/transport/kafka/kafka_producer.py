"""Requests produced to a topic: each completely or not at all, and once, also over crashes.

One thread writes the waiting requests in one Kafka transaction. Starting a producer ends the transaction of every
earlier one with its id, so that a process that was replaced cannot add to the topic.
"""

from __future__ import annotations

import queue
import threading
import time
import uuid
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from headrace.errors import SEND_AGAIN, ConflictError, HeadraceError, TooLargeError, UnavailableError
from headrace.faults import fault_point
from headrace.parse.frames import frame
from headrace.transport.kafka.kafka_clients import RETRY_AFTER_S, Cluster, LastError
from headrace.transport.kafka.kafka_reader import KafkaReader
from headrace.transport.kafka.partition_numbers import Partition
from headrace.transport.kafka.partition_watch import PartitionWatch
from headrace.transport.kafka.produced_requests import Noted, ProducedRequests
from headrace.transport.position import Position
from headrace.transport.transport_contract import Receipt

ID_HEADER = "headrace-id"  # of an event of a request with a key: the key, a colon, and the event's index
REQUEST_HEADER = "headrace-request"  # of the last event of such a request: what is noted of it
MOST_GROUP = 8 << 20  # bytes of one transaction
MESSAGE_BYTES = 1_000_000  # librdkafka's limit, unless the properties say otherwise
HEADERS_BYTES = 1_000  # that are left of it for headers
READY_S = 30.0  # to start a producer
ANSWER_S = 20.0  # a request whose transaction takes longer is answered: its outcome is not known yet
VISIBLE_S = 2.0  # from the commit of a transaction to where its events can be read
SETTLE_S = 5.0  # how often it is noted up to where all requests are
AFTER_LAST = 2  # from the last event of a transaction to where the partition ends: its mark has an offset too
_UNSURE = "it may have been stored, so send it again under the same Idempotency-Key"


@dataclass
class _Request:
    events: list[bytes]
    noted: Noted
    receipt: Future[Receipt] = field(default_factory=Future)
    number: int = -1  # of its partition
    last_offset: int = -1

    @property
    def name(self) -> str | None:
        """Requests of one name go to one partition."""
        return self.noted.file.name if self.noted.file else self.noted.key

    @property
    def size(self) -> int:
        return sum(map(len, self.events))


class Producing:
    """The thread that produces the requests of one stream."""

    def __init__(
        self,
        cluster: Cluster,
        stream_format: str,
        requests: ProducedRequests,
        watch: PartitionWatch,
        still_mine: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._format = stream_format
        self._requests = requests
        self._watch = watch
        self._still_mine = still_mine
        self._reader = KafkaReader(cluster, watch)
        self._errors = LastError()
        self._producer: Producer | None = None
        self._producer_id = requests.transactional_id or f"headrace-{cluster.stream}-{uuid.uuid4().hex}"
        self._begun_s = 0.0  # when the place to search from was noted last
        self._next_partition = 0
        self._outcome = SEND_AGAIN  # of the last group, if it failed
        self._closing = threading.Lock()
        self._closed = False
        self.trouble: HeadraceError | None = None
        self.recovered = threading.Event()  # all requests of earlier processes are noted
        self._queue: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"produce {cluster.stream}", daemon=True)
        self._thread.start()

    def submit(self, payload: bytes | memoryview, noted: Noted) -> Future[Receipt]:
        """Queue a request; its future is done when Kafka has committed it."""
        request = _Request(list(frame(self._format, payload)), noted)
        self._check_size(request)
        with self._closing:
            if self._closed:
                raise UnavailableError(
                    f"stream '{self._cluster.stream}' accepts no more events: it was dropped, or the server is "
                    "stopping",
                    fix=SEND_AGAIN,
                )
            self._queue.put(request)
        return request.receipt

    def close(self) -> None:
        with self._closing:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        self._thread.join()

    def _check_size(self, request: _Request) -> None:
        limit = int(dict(self._cluster.properties).get("message.max.bytes", MESSAGE_BYTES)) - HEADERS_BYTES
        longest = max(map(len, request.events), default=0)
        if longest > limit:
            raise TooLargeError(
                f"stream '{self._cluster.stream}': an event is larger than a message of Kafka may be",
                found=f"{longest:,} bytes",
                expected=f"at most {limit:,}",
                fix="nothing of this request was stored; the limit is 'properties.message.max.bytes'",
            )

    # The thread

    def _run(self) -> None:
        self._recover()
        while True:
            try:
                first = self._queue.get(timeout=SETTLE_S)
            except queue.Empty:
                self._settle()
                continue
            if first is None:
                break
            group, stop = self._gather(first)
            self._produce(group)
            if stop:
                break
        self._settle()
        self._producer = None

    def _gather(self, first: _Request) -> tuple[list[_Request], bool]:
        """The requests that wait, up to the size of a transaction; and whether they are the last."""
        group, size = [first], first.size
        while size < MOST_GROUP:
            try:
                request = self._queue.get_nowait()
            except queue.Empty:
                break
            if request is None:
                return group, True
            group.append(request)
            size += request.size
        return group, False

    def _recover(self) -> None:
        """End what an earlier process left unfinished, and note what it had committed, before the first request."""
        if self._requests.unsure_from is None:
            self.recovered.set()
        while not self.recovered.is_set() and not self._closed:
            try:
                self._ready()
                self.trouble = None
            except Exception as error:
                self.trouble = self._cluster.explain(error, self._errors)
                while not self._queue.empty():
                    request = self._queue.get()
                    if request is not None:
                        self._refuse([request], self.trouble, SEND_AGAIN)
                time.sleep(0.5)

    def _settle(self) -> None:
        """Note that no request is under way: a restart need not search the topic."""
        if self._producer is not None:
            with suppress(HeadraceError, OSError):
                self._requests.settle()

    def _produce(self, group: list[_Request]) -> None:
        self._outcome = SEND_AGAIN
        try:
            self._still_mine()
            self._ready()
            rest = [request for request in group if not self._is_answered(request)]
            if rest:
                self._commit(rest)
            self.trouble = None
        except Exception as error:
            self._refuse(group, error, self._outcome)

    def _refuse(self, group: Sequence[_Request], error: Exception, outcome: str) -> None:
        explained = self._cluster.explain(error, self._errors)
        self.trouble = explained
        if type(explained) is UnavailableError:
            explained = UnavailableError(explained.message, found=explained.found, fix=outcome)
            explained.retry_after_s = RETRY_AFTER_S
        for request in group:
            if not request.receipt.done():
                request.receipt.set_exception(explained)

    def _is_answered(self, request: _Request) -> bool:
        """Return whether the request was stored before, which may have become known after it was accepted."""
        key, file = request.noted.key, request.noted.file
        receipt = self._requests.recall(key) if key is not None else None
        try:
            if receipt is None and file is not None:
                self._requests.sent.check(file)
            if receipt is not None and receipt.digest != request.noted.digest:
                raise ConflictError(
                    f"stream '{self._cluster.stream}': Idempotency-Key '{key}' was used before with another body",
                    fix="use a new key for new events; nothing of this request was stored",
                )
        except ConflictError as error:
            request.receipt.set_exception(error)
            return True
        if receipt is not None:
            request.receipt.set_result(receipt)
        return receipt is not None

    # Transactions

    def _ready(self) -> Producer:
        """The producer. Once it has started, no earlier one can commit; then what the topic has is known."""
        if self._producer is not None:
            return self._producer
        self._partitions()
        producer = self._cluster.producer(self._producer_id, self._errors)
        producer.init_transactions(READY_S)
        self._still_mine()  # after it: this process may have been replaced, and must produce nothing then
        if self._requests.unsure_from is not None:
            self._find_unnoted(self._requests.unsure_from)
        self._producer = producer
        self.recovered.set()
        return producer

    def _find_unnoted(self, start: Position) -> None:
        """Note the requests in the topic that a crash left unnoted."""
        looks = self._watch.looks + 1  # the one under way may have begun before
        if not self._watch.look(lambda: self._watch.looks > looks and self._watch.trouble is None, ANSWER_S):
            raise self._watch.trouble or TimeoutError("no answer")
        unnoted: list[tuple[Noted, Position]] = []
        for part in self._reader.ranges(start, self._watch.ends, target_bytes=1 << 50):
            for events in self._reader.read(part, self._format):
                assert events.metadata is not None
                headers, offsets = events.metadata.header(REQUEST_HEADER), events.metadata.offset()
                for index in headers.is_valid().to_numpy(zero_copy_only=False).nonzero()[0].tolist():
                    with suppress(ValueError, KeyError, TypeError):  # a header that another program wrote
                        noted = Noted.from_json(headers[index].as_py())
                        if noted.key is None or self._requests.recall(noted.key) is None:
                            unnoted.append((noted, Position.at(offsets[index].as_py() + AFTER_LAST, part.partition)))
        self._requests.note(unnoted)

    def _partitions(self) -> dict[int, Partition]:
        """The partitions of the topic that is produced to, by number."""
        numbered = {number: each for number, each in enumerate(self._watch.partitions) if each.ended is None}
        if not numbered:
            raise self._watch.trouble or TimeoutError("its topics are not known yet")
        if len({each.topic for each in numbered.values()}) > 1:
            raise ConflictError(
                f"stream '{self._cluster.stream}' reads several topics, so events cannot be sent to it",
                fix="produce them to one of its topics with a Kafka client; nothing of this request was stored",
            )
        return numbered

    def _commit(self, group: list[_Request]) -> None:
        producer, partitions = self._ready(), self._partitions()
        if self._requests.unsure_from is None or time.monotonic() > self._begun_s + SETTLE_S:
            # All earlier requests are noted, and the ends that were seen last cover no later one.
            self._requests.begin(self._producer_id, self._watch.ends)
            self._begun_s = time.monotonic()
        with_events = [request for request in group if request.events]
        try:
            fault_point("kafka.before_produce")
            if with_events:
                self._transact(producer, partitions, with_events)
            fault_point("kafka.after_produce")
            self._acknowledge(group)
        except BaseException:
            if not _abort(producer):
                self._producer, self._outcome = None, _UNSURE  # the next producer finds out the result
            raise

    def _transact(self, producer: Producer, partitions: dict[int, Partition], group: list[_Request]) -> None:
        producer.begin_transaction()
        for request in group:
            self._send(producer, partitions, request)
        deadline = time.monotonic() + ANSWER_S
        while True:
            try:
                producer.commit_transaction(5.0)
                return
            except KafkaException as error:
                if not error.args[0].retriable():
                    raise
                self._still_mine()
                if time.monotonic() > deadline:
                    self._refuse(group, error, _UNSURE)  # the thread continues until the outcome is known
                    deadline = float("inf")

    def _send(self, producer: Producer, partitions: dict[int, Partition], request: _Request) -> None:
        request.number = self._choose(sorted(partitions), request.name)
        partition, noted = partitions[request.number], request.noted
        timestamp, last = noted.arrived_us // 1000, len(request.events) - 1

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                request.last_offset = message.offset() or 0

        for index, event in enumerate(request.events):
            headers: list[tuple[str, str | bytes | None]] = []
            if request.name is not None:
                headers = [(ID_HEADER, f"{noted.key or ''}:{index}".encode())]
                if index == last:
                    headers.append((REQUEST_HEADER, noted.to_json()))
            callback = delivered if index == last else None
            while True:
                try:
                    producer.produce(
                        partition.topic, event, partition=partition.partition, timestamp=timestamp,
                        headers=headers, on_delivery=callback,
                    )  # fmt: skip
                    break
                except BufferError:
                    producer.poll(0.05)

    def _choose(self, numbers: Sequence[int], name: str | None) -> int:
        if name is not None:
            return numbers[zlib.crc32(name.encode()) % len(numbers)]
        self._next_partition += 1
        return numbers[self._next_partition % len(numbers)]

    def _acknowledge(self, group: Sequence[_Request]) -> None:
        ends = [
            Position.at(request.last_offset + AFTER_LAST, request.number) if request.events else self._watch.ends
            for request in group
        ]
        # Its events can be read when the coordinator has marked the transaction in each partition, a moment later;
        # or when a transaction of another producer ends, for which nobody waits.
        self._watch.look(lambda: all(self._watch.ends.covers(end) for end in ends), VISIBLE_S)
        self._still_mine()
        self._requests.note([(request.noted, end) for request, end in zip(group, ends, strict=True)])
        for request, end in zip(group, ends, strict=True):
            noted = request.noted
            if not request.receipt.done():
                request.receipt.set_result(Receipt(end, noted.accepted, noted.refused, noted.digest))


def _abort(producer: Producer) -> bool:
    """Take back what was produced; whether it is certain that nothing of it is stored."""
    try:
        producer.abort_transaction(10.0)
    except KafkaException:
        return False
    return True
