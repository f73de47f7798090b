"""The connectors of sinks: their options, as definitions may give them and as the documentation lists them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from headrace.define.connector_options import OptionError
from headrace.define.model import Mode, Options, Sink
from headrace.errors import DefinitionError, nearest
from headrace.language.durations import parse_duration
from headrace.secrets import is_secret, shown

BOOLEANS = ("true", "false")


@dataclass(frozen=True)
class Option:
    """An option of a connector. Where a change `keeps` the sink's place, it goes on instead of starting over."""

    name: str
    summary: str  # for the documentation
    required: bool = False
    default: str | None = None
    choices: tuple[str, ...] = ()
    kind: str = "text"  # or boolean, duration, folder, number, url
    keeps: bool = True
    also: tuple[str, ...] = ()  # names that other systems have for it


@dataclass(frozen=True)
class Connector:
    """Where sinks send to. `prefixes` begin the names of options that are passed on as they are."""

    name: str
    summary: str
    options: tuple[Option, ...]
    modes: tuple[Mode, ...]
    delivery: str
    records: bool = False  # whether the destination itself records how far a sink has come: exactly once
    prefixes: tuple[tuple[str, str], ...] = ()  # with what they mean

    def option(self, name: str) -> Option | None:
        """The option of this name, or one that another system calls so."""
        every = (*self.options, *COMMON)
        return next((option for option in every if name == option.name or name in option.also), None)

    def passes_on(self, name: str) -> bool:
        """Return True if an option is passed on as it is."""
        return any(name.startswith(prefix) and name != prefix for prefix, _ in self.prefixes)


STARTUP = Option(
    "scan.startup.mode",
    "What of a stream is sent first: `earliest`, every event of the log, or `latest`, only those from now on.",
    default="earliest",
    choices=("earliest", "latest"),
    keeps=False,
)
BATCH_ROWS = Option("batch.rows", "How many rows are written at once, at most.", default="10000", kind="number")
COMMON = (STARTUP, BATCH_ROWS)

KAFKA = Connector(
    "kafka",
    "A topic of Apache Kafka; of a view the key of a message is the key of the row, and a deleted row is a tombstone.",
    (
        Option("topic", "The topic. It must exist, unless `create = true`.", True, keeps=False),
        Option(
            "properties.bootstrap.servers",
            "The brokers, as `host:9092,other:9092`, if `[kafka]` in `headrace.toml` does not say.",
            also=("properties.bootstrap.server", "bootstrap.servers", "brokers"),
        ),
        Option(
            "delivery.guarantee",
            "`at-least-once`, or `exactly-once`: each batch is a transaction of Kafka.",
            default="at-least-once",
            choices=("at-least-once", "exactly-once"),
            also=("sink.delivery-guarantee", "sink.delivery.guarantee"),
        ),
        Option("transaction.timeout", "How long a transaction may take.", default="60 seconds", kind="duration"),
        Option(
            "create",
            "Whether the topic is created if it does not exist; of a view compacted.",
            default="false",
            kind="boolean",
        ),
        Option("partitions", "Of a topic that is created; the broker's default if not given.", kind="number"),
        Option("replication.factor", "Of a topic that is created; the broker's default if not given.", kind="number"),
    ),
    ("update", "append"),
    "at least once; exactly once with `delivery.guarantee = 'exactly-once'`",
    prefixes=(("properties.", "any setting of librdkafka, such as `properties.sasl.password`"),),
)
POSTGRES = Connector(
    "postgres",
    "A table of PostgreSQL, made if it does not exist.",
    (
        Option("url", "`postgresql://user@host:5432/database`; better as `secret:NAME`.", True, also=("jdbc.url",)),
        Option("table", "The table, as `counts` or `schema.counts`.", True, keeps=False, also=("table.name",)),
        Option("password", "The password, if the URL has none; as `secret:NAME`."),
        Option("connect.timeout", "How long a connection may take.", default="10 seconds", kind="duration"),
    ),
    ("update", "append", "complete"),
    "exactly once: rows and progress are one transaction",
    True,
)
FILES = Connector(
    "files",
    "Files in a folder: one for each batch, under its name only when it is complete.",
    (
        Option("path", "The folder; a relative one is below the workspace, and has no `..`.", True, kind="folder",
               keeps=False),
        Option("format", "`parquet` or `json` (one object per line).", default="parquet", choices=("parquet", "json"),
               keeps=False),
        Option("partition.by", "`date`: files in folders `dt=2026-03-01` by event time or start of the window.",
               default="none", choices=("none", "date"), keeps=False, also=("partition_by",)),
        Option("compression", "Of Parquet `zstd`, the default, `gzip`, `snappy` or `none`; of JSON `gzip` or `none`.",
               choices=("zstd", "gzip", "snappy", "none")),
    ),
    ("update", "append", "complete"),
    "exactly once: a record beside the files says how far they go",
    True,
)  # fmt: skip
HTTP = Connector(
    "http",
    "POST requests with JSON to a URL.",
    (
        Option("url", "Where to send to, `http://` or `https://`.", True, kind="url"),
        Option("token", "Sent as `Authorization: Bearer …`; as `secret:NAME`."),
        Option("timeout", "How long one request may take.", default="30 seconds", kind="duration"),
        Option("batch.rows", "How many rows one request has, at most.", default="500", kind="number"),
        Option("tls.ca", "A file with the certificates to trust, instead of the system's."),
        Option("tls.verify", "Whether the server's certificate is checked.", default="true", kind="boolean"),
    ),
    ("update", "append", "complete"),
    "at least once; repeats have the same `Idempotency-Key`",
    prefixes=(("header.", "a header of each request, such as `header.x-team = 'data'`"),),
)
CONNECTORS: Mapping[str, Connector] = {each.name: each for each in (KAFKA, POSTGRES, FILES, HTTP)}
# What other systems call them.
_ALSO = {
    "postgresql": "postgres", "jdbc": "postgres", "pg": "postgres", "file": "files", "filesystem": "files",
    "fs": "files", "webhook": "http", "https": "http", "upsert-kafka": "kafka",
}  # fmt: skip


def find_connector(name: str, owner: str) -> Connector:
    """The connector of a name."""
    lower = name.lower()
    if lower in CONNECTORS or lower in _ALSO:
        return CONNECTORS[_ALSO.get(lower, lower)]
    near = nearest(lower, (*CONNECTORS, *_ALSO))
    raise OptionError(
        "connector",
        f"{owner}: the connector '{name}' is unknown",
        expected=", ".join(f"'{each}'" for each in CONNECTORS),
        fix=f"did you mean '{_ALSO.get(near, near)}'?" if near else None,
    )


def check_options(connector: Connector, options: Iterable[tuple[str, str]], owner: str) -> Options:
    """The options of a sink by their own names, each checked; secrets are checked when they are used."""
    checked: dict[str, str] = {}
    for name, value in options:
        option = connector.option(name)
        if option is None and not connector.passes_on(name):
            raise _unknown(connector, name, owner)
        canonical = option.name if option else name
        if canonical in checked:
            raise OptionError(name, f"{owner}: the option '{canonical}' is given twice", fix=f"remove '{name}'")
        try:
            checked[canonical] = check_value(option, value, owner) if option else value
        except DefinitionError as error:
            raise OptionError(name, error.message, found=error.found, expected=error.expected) from None
    for option in connector.options:
        if option.required and not checked.get(option.name, "").strip():
            raise DefinitionError(
                f"{owner}: the option '{option.name}' of the connector '{connector.name}' is missing",
                fix=f"add {option.name} = '…' to WITH (…): {option.summary}",
            )
    return tuple(sorted(checked.items()))


def records_progress(sink: Sink) -> bool:
    """Return True if the destination of a sink records how far it has come."""
    return CONNECTORS[sink.connector].records or sink.get("delivery.guarantee") == "exactly-once"


def value_of(options: Options, connector: Connector, name: str) -> str:
    """The value of an option, or its default."""
    option = connector.option(name)
    assert option is not None, f"{connector.name} has the option {name}"
    return dict(options).get(name, option.default or "")


def _unknown(connector: Connector, name: str, owner: str) -> OptionError:
    names = [option.name for option in (*connector.options, *COMMON)]
    near = nearest(name, [*names, "mode", "corrections"])
    return OptionError(
        name,
        f"{owner}: the connector '{connector.name}' has no option '{name}'",
        expected=", ".join([*names, *(f"{prefix}…" for prefix, _ in connector.prefixes), "mode", "corrections"]),
        fix=f"did you mean '{near}'?" if near else "remove it",
    )


def check_value(option: Option, value: str, owner: str) -> str:
    """The value of an option in its usual form; a secret is checked when it is used. A folder is none."""
    if is_secret(value) and option.kind != "folder":
        return value
    if option.choices:
        return _choice(option, value, owner)
    try:
        return _KINDS[option.kind](value)
    except (ValueError, DefinitionError):
        raise DefinitionError(
            f"{owner}: the value of the option '{option.name}' cannot be used",
            found=f"'{shown(option.name, value)}'",
            expected=_EXPECTED[option.kind],
        ) from None


def _choice(option: Option, value: str, owner: str) -> str:
    lower = value.lower().removesuffix("-offset") if option is STARTUP else value.lower()  # Flink: earliest-offset
    lower = "json" if option.name == "format" and lower in ("ndjson", "jsonl") else lower
    if lower not in option.choices:
        raise DefinitionError(
            f"{owner}: the option '{option.name}' has no value '{value}'",
            expected=" or ".join(f"'{choice}'" for choice in option.choices),
        )
    return lower


def _boolean(value: str) -> str:
    if value.lower() not in BOOLEANS:
        raise ValueError(value)
    return value.lower()


def _duration(value: str) -> str:
    if parse_duration(value) < 1:
        raise ValueError(value)
    return value


def _number(value: str) -> str:
    if not value.isdigit() or not int(value):
        raise ValueError(value)
    return value


def _url(value: str) -> str:
    if not is_http_url(value):
        raise ValueError(value)
    return value


def is_http_url(value: str) -> bool:
    """Return True if a text is an http or https URL that a request can be sent to."""
    try:
        parts = urlsplit(value)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number, or brackets are not closed
        return False
    return known and value.isascii() and value.isprintable() and " " not in value


def _folder(value: str) -> str:
    is_url = is_secret(value) or re.match(r"\s*[a-zA-Z][a-zA-Z0-9+.-]*:/", value)
    if is_url or (".." in Path(value).parts and not value.startswith("/")):
        raise ValueError(value)
    return value


_KINDS: Mapping[str, Callable[[str], str]] = {
    "text": str,
    "boolean": _boolean,
    "duration": _duration,
    "number": _number,
    "url": _url,
    "folder": _folder,
}
_EXPECTED = {
    "text": "a text",
    "boolean": "true or false",
    "duration": "a duration such as '30 seconds'",
    "number": "a whole number from 1 on",
    "url": "a URL such as https://example.com/hook, in ASCII, without spaces",
    "folder": "a folder of this machine, below the workspace without '..' or absolute; object storage comes later",
}
