"""The writer of a sink, by its connector. The libraries of a connector are imported when it is used."""

from __future__ import annotations

from dataclasses import replace

from headrace.define.model import Sink
from headrace.sink.base import DestinationError, Writer
from headrace.workspace.settings import Workspace

SERVERS = "properties.bootstrap.servers"


def open_writer(sink: Sink, workspace: Workspace) -> Writer:
    """A writer for the destination of a sink; relative paths are below the folder of the workspace."""
    match sink.connector:
        case "files":
            from headrace.sink.files import FilesWriter  # loads Parquet, which other sinks do not need

            return FilesWriter(sink, workspace.folder / (sink.get("path") or ""))
        case "http":
            from headrace.sink.http import HttpWriter  # only this connector needs it

            return HttpWriter(sink, workspace.settings.http_allow)
        case "kafka":
            from headrace.sink.kafka import KafkaWriter  # loads librdkafka

            return KafkaWriter(_with_defaults(sink, workspace), workspace.name)
        case "postgres":
            from headrace.sink.postgres import PostgresWriter  # loads psycopg

            return PostgresWriter(sink, workspace.name)
        case other:
            raise AssertionError(f"the connector {other} is known")


def _with_defaults(sink: Sink, workspace: Workspace) -> Sink:
    """The sink with the settings of Kafka clients that the workspace has for all of them."""
    shared = {f"properties.{name}": value for name, value in workspace.kafka_properties.items()}
    options = {**shared, **dict(sink.options)}
    if not options.get(SERVERS):
        raise DestinationError(
            f"sink '{sink.name}' does not say where Kafka is",
            fix=f"add {SERVERS} = 'host:9092' to WITH (…), or bootstrap.servers to [kafka] in headrace.toml",
        )
    return replace(sink, options=tuple(sorted(options.items())))
