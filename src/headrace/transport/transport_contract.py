"""The contract of a transport: raw events, durable before they are acknowledged, at positions that are used once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from headrace.format import Shown
from headrace.transport.position import Position, Range

if TYPE_CHECKING:  # commands that only look at positions do not load them
    from concurrent.futures import Future

    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from headrace.define.kafka_source import Start
    from headrace.errors import HeadraceError
    from headrace.parse.frames import Frames
    from headrace.transport.sent_files import FilePiece, SentFiles

LONGEST_KEY = 255  # characters of an idempotency key


@dataclass(frozen=True)
class Receipt:
    """The acknowledgement of a request. A reader that has read everything before `end` has read this request."""

    end: Position
    accepted: int
    refused: list[dict[str, object]]
    digest: str = ""


@dataclass(frozen=True)
class Skipped(Shown):
    """Offsets [first, to) of a partition that were left out; of a topic that was recreated, `first` is 0."""

    topic: str
    partition: int
    first: int
    to: int

    def __str__(self) -> str:
        return f"offsets [{self.first}, {self.to}) of partition {self.partition} of topic '{self.topic}'"


class Metadata(Protocol):
    """The facts that a transport knows of events besides their bytes, as columns that are made on demand."""

    def key(self) -> pa.Array:
        """The keys, as binary; NULL where there is none."""

    def header(self, name: str) -> pa.Array:
        """The last value of a header, as binary; NULL where there is none."""

    def headers(self) -> pa.Array:
        """All headers, as lists of (key: string, value: binary); NULL where there are none."""

    def timestamp(self) -> pa.Array:
        """The timestamps of the transport, in UTC; NULL where there is none."""

    def topic(self) -> pa.Array:
        """The topics, as strings."""

    def partition(self) -> pa.Array:
        """The partitions of the topic, as int32."""

    def offset(self) -> pa.Array:
        """The offsets in the partition of the topic, as int64."""


@dataclass(frozen=True)
class TransportEvents:
    """Some events of one range: `positions[i]` and `arrived_us[i]` are those of `frames[i]`.

    A position is `event_base(partition)` plus the offset of the event: it is unique within the transport,
    and the same whenever the event is read. Offsets of one partition ascend in the order of its events; they may
    have gaps.
    """

    frames: Frames
    positions: npt.NDArray[np.int64]
    arrived_us: npt.NDArray[np.int64]
    reasons: pa.Array | None = None  # why the transport has no value for an event, which is then a dead letter
    metadata: Metadata | None = None  # None: the transport has only the events


class Reader(Protocol):
    """Reads a transport in any process. A small value that can be pickled: it describes where the transport is.

    Called by the append: `end` and `ranges` in the loop that plans micro-batches (`lake/append.py`), many times a
    second; `read` in Spark's workers (`lake/append_task.py`).
    """

    def end(self) -> Position:
        """The durable end: all before it was or will be acknowledged, unless its writer was replaced meanwhile.

        It may lie before a position that the lake has, if the transport was lost; then there is nothing to read.
        """

    def bytes_between(self, start: Position, end: Position) -> int:
        """The number of bytes from one position to another: exact or estimated, and quick to compute."""

    def ranges(
        self, start: Position, end: Position, *, target_bytes: int, most_bytes: int | None = None
    ) -> list[Range]:
        """Ranges of whole records that begin at `start`: what a micro-batch takes, one task for each.

        In each partition they follow one another without a gap. Without `most_bytes` they end at `end`; with it they
        end where about so many bytes are reached, but hold at least one record if there is one, and further
        calls from there reach the end of every partition. A range is of about `target_bytes`, or one record if that is
        larger. Raises CorruptionError if something in between is missing.
        """

    def read(self, part: Range, stream_format: str) -> Iterator[TransportEvents]:
        """The events of a range, some megabytes at a time: always the same ones, as often as it is read.

        Raises CorruptionError if they are not what was written.
        """


class Transport(Protocol):
    """One stream's events on their way to its lake, in the one process that holds the workspace's lease.

    It is opened with the position that the lake ends at, and continues at the later of that and its own end: no
    position is ever used twice, even if the transport lost what it held. It is also given a check that raises when
    another process has taken over. It calls that after a request is durable and before it is acknowledged, so that
    the process that takes over reads all that was acknowledged.

    Several threads call it.
    """

    name: str  # `NAME:PARTITION` identifies the offset of a partition in the lake's log, so it is never changed

    # Called by `ingest/intake.py`, for each request

    @property
    def end(self) -> Position:
        """The end of what is durable. Also called by the server, for status and freshness."""

    @property
    def sent(self) -> SentFiles:
        """The sent part of each file: as durable as the requests that hold their pieces."""

    def now_us(self) -> int:
        """The clock that arrivals are read from, in microseconds since the epoch."""

    def submit(
        self,
        payload: bytes | memoryview,
        accepted: int,
        refused: list[dict[str, object]],
        *,
        key: str | None = None,
        digest: str = "",
        file: FilePiece | None = None,
    ) -> Future[Receipt]:
        """Queue a request of `accepted` events, each on a line; the future is done when it is durable.

        All of it is stored or nothing. With a key, `recall` finds it from then on, even if it has no events; with a
        piece of a file, `sent` does. All pieces of one file go to one partition. Raises UnavailableError once closed.
        """

    def recall(self, key: str) -> Receipt | None:
        """The receipt of an earlier request with this idempotency key, if it arrived within a day."""

    # Called by `server/pipeline.py`

    @property
    def reader(self) -> Reader:
        """The reader of this transport for the append."""

    @property
    def start(self) -> Position:
        """The first position that is still stored: earlier events are in the lake only."""

    @property
    def trouble(self) -> HeadraceError | None:
        """The reason why the last write failed; None once it would succeed."""

    def age_ms(self, position: Position) -> int | None:
        """The age of the oldest event that the position does not cover: the freshness of a view there.

        0 if it covers all of them; None if that is not known.
        """

    def lags(self, position: Position) -> Mapping[tuple[str, int], int] | None:
        """Offsets of each (topic, partition) that a position does not cover, counted; None: unknown, or no topics."""

    def skip(self, to: Start, lake_end: Position, *, dry_run: bool = False) -> list[Skipped]:
        """Continue at other offsets than `lake_end`, the lake's position: events between are never read.

        Returns what is left out. Raises UsageError where that cannot be.
        """

    def mend(self) -> None:
        """Check whether a transport in trouble can write again; called about every second."""

    def close(self) -> None:
        """Make the queued requests durable, then stop."""

    # Called by `lake/upkeep.py`, periodically

    def reclaim(self, lake_end: Position) -> int:
        """Delete what is no longer needed; returns how many bytes.

        Needed are events that `lake_end` does not cover, and requests whose key arrived within a day. The lake has
        `lake_end` on disk: earlier records are never read again, except by `recall`.
        """
