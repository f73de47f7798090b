"""What a sink's destination promises: batches of changes, each durable when it is written; and its writer, by the
connector.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Protocol

from headrace.define.model import Sink
from headrace.errors import HeadraceError
from headrace.lazy import later
from headrace.types import Type
from headrace.workspace.settings import Workspace

if TYPE_CHECKING:
    from headrace.aggregate import Value


# What each JSON object has beside the columns of its row; names with a leading underscore are ours.
OP, VERSION, COMMIT, POSITION = "_op", "_version", "_commit", "_position"


@dataclass(frozen=True)
class SinkChange:
    """A row to write, or the key of one that is gone.

    Within a version the newest change of a key is the one with the largest commit; a repeat has the same. After an edit
    or a rollback, changes of another version follow. An event of a stream is always an upsert, and told apart by its
    position.
    """

    op: Literal["upsert", "delete"]
    row: Mapping[str, Value]  # of a delete: at least the key columns
    version: int  # of the view; 0 for an event
    commit: int
    position: int | None = None  # of an event, in its stream's log


@dataclass(frozen=True)
class SinkBatch:
    """Changes that are written together, and the cursor of the sink after them."""

    sink: str
    columns: tuple[tuple[str, Type], ...]  # of a row, in their order
    keys: tuple[str, ...]  # the columns that tell rows apart; none for events of a stream
    changes: Sequence[SinkChange]
    cursor: str
    snapshot: bool = False  # part of a present state
    restarted: bool = False  # the first part of one: rows that the destination has from before are not in it
    more: bool = False  # the next batch follows at once
    time_column: str | None = None  # the column by which files are partitioned


class SinkWriter(Protocol):
    """One destination of one sink, open. Its methods are called by one thread, and raise when they fail.

    What can heal by itself is any exception; DestinationError with `retry_after_s` says when to try again.
    After an error the writer is closed, and a new one is made for the next attempt.
    """

    unfinished: bool  # it keeps parts of a present state, and must be given the last one even if it has no changes

    def resume(self) -> str | None:
        """The cursor of the last batch that the destination itself recorded; None if it records none."""

    def write(self, batch: SinkBatch) -> None:
        """Write a batch; it is durable at the destination when this returns.

        A destination that records cursors does so in the same transaction.
        """

    def forget(self) -> None:
        """Remove what the destination records of the sink's progress, not what was sent: the sink was dropped."""

    def close(self) -> None:
        """Release connections. Never raises."""


class DestinationError(HeadraceError):
    """A destination refused a batch or cannot be reached; it is tried again later."""

    code = "destination"
    http_status = 503


SERVERS = "properties.bootstrap.servers"


# A connector is loaded when a sink uses it, and with it Parquet, librdkafka or psycopg.
_files = later("headrace.deliver.sinks.files_sink")
_http = later("headrace.deliver.sinks.http_sink")
_kafka = later("headrace.deliver.sinks.kafka_sink")
_postgres = later("headrace.deliver.sinks.postgres_sink")


def open_writer(sink: Sink, workspace: Workspace) -> SinkWriter:
    """A writer for the destination of a sink; relative paths are below the folder of the workspace."""
    match sink.connector:
        case "files":
            writer: SinkWriter = _files.FilesWriter(sink, workspace.folder / (sink.get("path") or ""))
        case "http":
            writer = _http.HttpWriter(sink, workspace.settings.http_allow)
        case "kafka":
            writer = _kafka.KafkaWriter(_with_defaults(sink, workspace), workspace.name)
        case "postgres":
            writer = _postgres.PostgresWriter(sink, workspace.name)
        case other:
            raise AssertionError(f"the connector {other} is known")
    return writer


def _with_defaults(sink: Sink, workspace: Workspace) -> Sink:
    """The sink with the settings of Kafka clients that the workspace has for all of them."""
    shared = {f"properties.{name}": value for name, value in workspace.kafka_properties.items()}
    options = {**shared, **dict(sink.options)}
    if not options.get(SERVERS):
        raise DestinationError(
            f"sink '{sink.name}' has no address of Kafka",
            fix=f"add {SERVERS} = 'host:9092' to WITH (…), or bootstrap.servers to [kafka] in headrace.toml",
        )
    return replace(sink, options=tuple(sorted(options.items())))
