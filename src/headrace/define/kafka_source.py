"""Streams whose events are in Kafka: options as Flink, RisingWave, ksqlDB and Spark spell them, in one form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from headrace.define.connector_options import (
    LIBRDKAFKA,
    PREFIX,
    SERVERS,
    OptionError,
    check_property,
    read_boolean,
    read_integer,
    read_milliseconds,
    unknown_option,
)
from headrace.define.model import KAFKA, Options, Source
from headrace.errors import UsageError, nearest

Mode = Literal["earliest", "latest", "timestamp", "offsets"]

TOPIC, PATTERN = "topic", "topic-pattern"
MODE = "scan.startup.mode"
TIME = "scan.startup.timestamp-millis"
OFFSETS = "scan.startup.specific-offsets"
DISCOVERY = "scan.topic-partition-discovery.interval"
COMMIT = "commit.offsets"
DELIMITER = "csv.field-delimiter"
DISCOVERY_MS = 30_000  # between two looks for new partitions, and for topics of a pattern
LEAST_DISCOVERY_MS = 100

# Name: meaning, default. The documentation has them all.
OPTIONS: dict[str, tuple[str, str]] = {
    TOPIC: ("the topic; several are separated by ;", "one of the two is required"),
    PATTERN: ("a regular expression that the whole name of a topic matches; new topics are picked up", ""),
    MODE: (
        "where a new stream begins: `earliest-offset`, `latest-offset`, `timestamp` or `specific-offsets`",
        "`earliest-offset`",
    ),
    TIME: ("with `timestamp`: the first event is that of this time, in milliseconds since 1970", ""),
    OFFSETS: (
        "with `specific-offsets`: `partition:0,offset:42;partition:1,offset:300`; other partitions begin at 0",
        "",
    ),
    DISCOVERY: ("the interval at which Headrace looks for new partitions and topics", "`30 s`"),
    COMMIT: (
        "`true`: offsets that the lake has are also committed to the group `properties.group.id`, for monitoring tools",
        "`false`",
    ),
    DELIMITER: ("with the format CSV: the character between cells; also `TAB`, `SPACE`", "`,`"),
}
# Names of other systems: Flink, RisingWave, ksqlDB, Spark.
ALSO = {
    "kafka_topic": TOPIC,
    "subscribe": TOPIC,
    "kafka.topic": TOPIC,
    "topic.pattern": PATTERN,
    "subscribepattern": PATTERN,
    "startingoffsets": MODE,
    "scan.startup.timestamp.millis": TIME,
    "scan.startup.timestamp_millis": TIME,
    "startingtimestamp": TIME,
    "csv.delimiter": DELIMITER,
    "value_delimiter": DELIMITER,
    "bootstrap.servers": f"{PREFIX}{SERVERS}",
    "bootstrap_servers": f"{PREFIX}{SERVERS}",
    "kafka.bootstrap.servers": f"{PREFIX}{SERVERS}",
    "properties.bootstrap.server": f"{PREFIX}{SERVERS}",
    "kafka.brokers": f"{PREFIX}{SERVERS}",
    f"{PREFIX}metadata.broker.list": f"{PREFIX}{SERVERS}",
    f"{PREFIX}sasl.mechanisms": f"{PREFIX}sasl.mechanism",
}
_MODES: dict[str, Mode] = {
    "earliest-offset": "earliest",
    "earliest": "earliest",
    "latest-offset": "latest",
    "latest": "latest",
    "timestamp": "timestamp",
    "specific-offsets": "offsets",
}
_WRITTEN: dict[Mode, str] = {
    "earliest": "earliest-offset",
    "latest": "latest-offset",
    "timestamp": "timestamp",
    "offsets": "specific-offsets",
}
# Options of other systems that mean something else here, and what to do.
_ELSEWHERE = {
    "partitions": "Headrace makes no topics: create it with its partitions before, and remove this option",
    "replicas": "Headrace makes no topics: create it with its replicas before, and remove this option",
    "timestamp": "write WATERMARK FOR {value} AS {value} inside the parentheses; a BIGINT of milliseconds needs a "
    "computed field: at TIMESTAMP AS timestamp_millis({value}), WATERMARK FOR at AS at",
    "timestamp_format": "write a computed field: at TIMESTAMP AS to_timestamp(field, '{value}'), "
    "WATERMARK FOR at AS at",
    "retention_ms": "a topic's retention is set at the broker; Headrace keeps every event",
    "window_type": "a stream of windows is not read; remove it",
    "window_size": "a stream of windows is not read; remove it",
    "key": "write FROM KEY after the type of the field that holds the key",
    "key.fields": "write FROM KEY after the type of the field that holds the key",
    "key.fields-prefix": "write FROM KEY after the type of the field that holds the key",
    "value.fields-include": "remove it: a field FROM KEY is not looked for in the value",
    "group.id.prefix": "write 'properties.group.id' with 'commit.offsets' = 'true'",
    "scan.startup.group-offsets": "offsets are kept in the lake; write 'scan.startup.mode' = 'earliest-offset'",
    "endingoffsets": "a stream has no end; remove it",
    "maxoffsetspertrigger": "`append_mb` in headrace.toml limits a commit; remove it",
    "failondataloss": "lost offsets always stop the stream; `headrace skip` continues after them; remove it",
    "wrap_single_value": "remove it: a value is an object, or of the format TEXT one text",
    "value_avro_schema_full_name": "Avro is not read; produce JSON, text or CSV",
    **dict.fromkeys(
        ("json.ignore-parse-errors", "csv.ignore-parse-errors", "json.fail-on-missing-field"),
        "remove it: a value that cannot be read is a dead letter, and a field that is missing is NULL unless NOT NULL",
    ),
    "json.timestamp-format.standard": "remove it: a TIMESTAMP is read as ISO 8601, with T or a space",
    "scan.bounded.mode": "a stream has no end; remove it",
    "scan.parallelism": "remove it: ranges of partitions are read in parallel",
    "properties.group.offset": "offsets are kept in the lake; remove it",
    **dict.fromkeys(
        ("sink.partitioner", "sink.delivery-guarantee", "sink.transactional-id-prefix", "sink.parallelism"),
        "it is one of a sink: remove it here, and write CREATE SINK",
    ),
}
_PAIR = re.compile(r"\s*(?:partition\s*:\s*)?(\d+)\s*[,:]\s*(?:offset\s*:\s*)?(\d+)\s*")
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True)
class Start:
    """Where a new stream begins in its partitions; `offsets` are (partition, offset)."""

    mode: Mode = "earliest"
    timestamp_ms: int | None = None
    offsets: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class KafkaSource:
    """The options of a stream, typed, with the workspace's defaults. Secrets among `properties` are references."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    start: Start = Start()
    discovery_ms: int = DISCOVERY_MS
    commit_offsets: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)  # by the names of librdkafka

    @property
    def servers(self) -> str | None:
        """The bootstrap servers."""
        return self.properties.get(SERVERS)

    @property
    def group(self) -> str | None:
        """The consumer group that offsets are committed to, for monitoring tools."""
        return self.properties.get("group.id") if self.commit_offsets else None


def make_source(written: Mapping[str, str]) -> Source:
    """The source that these options describe, whoever's spelling they have; raises OptionError."""
    options: dict[str, str] = {}
    spelled: dict[str, str] = {}  # canonical name: as written
    for name, value in written.items():
        own = canonical_name(name)
        if own in spelled:
            raise OptionError(name, f"'{spelled[own]}' and '{name}' are the same option", fix="keep one")
        spelled[own] = name
        if not value.strip() and own != DELIMITER:
            raise OptionError(name, f"the option '{name}' is empty", fix="give a value, or remove it")
        if own.startswith(PREFIX):
            check_property(name, own.removeprefix(PREFIX), value)
            if own == f"{PREFIX}isolation.level":
                continue  # it is always so
        elif own not in OPTIONS:
            raise _unknown(name, value)
        options[own] = value if own == DELIMITER else value.strip()
    try:
        return Source(KAFKA, _canonical(options))
    except OptionError as error:
        error.option = spelled.get(error.option, error.option)
        raise


def read_source(source: Source, defaults: Mapping[str, str] | None = None) -> KafkaSource:
    """The options of a Kafka stream; `defaults` are settings of the client by the names of librdkafka."""
    options = dict(source.options)
    properties = {n.removeprefix(PREFIX): value for n, value in options.items() if n.startswith(PREFIX)}
    topics = tuple(options.get(TOPIC, "").split(";")) if TOPIC in options else ()
    return KafkaSource(
        topics,
        options.get(PATTERN),
        _start(options),
        read_milliseconds(options, DISCOVERY, DISCOVERY_MS, least_ms=LEAST_DISCOVERY_MS),
        read_boolean(options, COMMIT, default=False),
        {**(defaults or {}), **properties},
    )


def read_delimiter(source: Source | None) -> str:
    """The character between the cells of CSV values."""
    value = source.get(DELIMITER) if source else None
    return {"TAB": "\t", "SPACE": " "}.get(value, value) if value else ","


def canonical_name(name: str) -> str:
    """Our name of an option that may be spelled as in another system."""
    lower = name.lower()
    if lower in ALSO:
        return ALSO[lower]
    if lower.startswith("kafka.") and lower.removeprefix("kafka.") in LIBRDKAFKA:  # of Spark
        return ALSO.get(f"{PREFIX}{lower.removeprefix('kafka.')}", f"{PREFIX}{lower.removeprefix('kafka.')}")
    return lower


def _unknown(name: str, value: str) -> OptionError:
    if name in _ELSEWHERE:
        fix = _ELSEWHERE[name].replace("{value}", value.strip())
        return OptionError(name, f"a Kafka stream has no option '{name}'", fix=fix, remove=True)
    if name in LIBRDKAFKA:
        return OptionError(name, f"'{name}' is a setting of the Kafka client", rename=f"{PREFIX}{name}")
    near = nearest(name, [f"{PREFIX}{each}" for each in LIBRDKAFKA], 0.85)
    return unknown_option(name, [*OPTIONS, *([near] if near else []), "format", "idle_timeout"], "a Kafka stream")


def _canonical(options: dict[str, str]) -> Options:
    """The options with their values in one form, checked against each other."""
    if (TOPIC in options) == (PATTERN in options):
        if TOPIC in options:
            raise OptionError(PATTERN, "a stream has a topic or a pattern of topics, not both", fix="remove one")
        raise OptionError(
            TOPIC, "a Kafka stream needs a topic", expected="'topic' = 'visits', or 'topic-pattern' = 'visits-.*'"
        )
    if TOPIC in options:
        options[TOPIC] = ";".join(_topics(options[TOPIC]))
    else:
        _check_pattern(options[PATTERN])
    if MODE in options:
        options[MODE] = _WRITTEN[_mode(options[MODE])]
    elif TIME in options:
        options[MODE] = "timestamp"  # RisingWave has no word for it
    elif OFFSETS in options:
        options[MODE] = "specific-offsets"
    if OFFSETS in options:
        pairs = parse_offsets(OFFSETS, options[OFFSETS])
        options[OFFSETS] = ";".join(f"partition:{partition},offset:{offset}" for partition, offset in pairs)
    _check_start(options)
    if DELIMITER in options:
        options[DELIMITER] = _delimiter(options[DELIMITER])
    if read_boolean(options, COMMIT, default=False) and f"{PREFIX}group.id" not in options:
        raise OptionError(COMMIT, "offsets are committed to a consumer group", expected="'properties.group.id' = '…'")
    read_milliseconds(options, DISCOVERY, DISCOVERY_MS, least_ms=LEAST_DISCOVERY_MS)
    return tuple(sorted(options.items()))


def _topics(text: str) -> list[str]:
    topics = sorted({topic.strip() for topic in re.split(r"[;,]", text)})
    for topic in topics:
        if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
            raise OptionError(
                TOPIC, "this cannot name a topic", found=f"'{topic}'", expected="letters, digits, '.', '_' and '-'",
                fix="a pattern of names is 'topic-pattern' = '…'" if re.search(r"[*+?\[(|]", topic) else None,
            )  # fmt: skip
    return topics


def _delimiter(text: str) -> str:
    """The word for a tab or a space, as ksqlDB has it, since options are trimmed; else the character."""
    word = {"\t": "TAB", "\\t": "TAB", "tab": "TAB", "space": "SPACE"}.get(text.lower(), text)
    if word not in ("TAB", "SPACE") and (len(word) != 1 or not word.isascii() or word in '"\r\n'):
        raise OptionError(
            DELIMITER,
            "the delimiter of cells is one character",
            found=f"'{text}'",
            expected="such as ';', TAB or SPACE",
        )
    return word


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as error:
        raise OptionError(
            PATTERN, "the pattern of topics is not a regular expression", found=f"'{pattern}': {error}"
        ) from None


def _mode(text: str) -> Mode:
    lower = text.lower()
    fix: str | None
    if lower in _MODES:
        return _MODES[lower]
    if lower == "group-offsets":
        fix = "offsets are kept in the lake, not in a group; write 'earliest-offset' or 'latest-offset'"
    elif text.startswith("{"):
        fix = "offsets of partitions are 'scan.startup.specific-offsets' = 'partition:0,offset:42'"
    else:
        near = nearest(text, _MODES)
        fix = f"did you mean '{near}'?" if near else None
    expected = "earliest-offset, latest-offset, timestamp or specific-offsets"
    raise OptionError(MODE, f"the option '{MODE}' has an invalid value", found=f"'{text}'", expected=expected, fix=fix)


def parse_offsets(name: str, text: str) -> list[tuple[int, int]]:
    """Offsets by partition: Flink's partition:0,offset:42;partition:1,offset:300, or short 0:42,1:300."""
    pairs, at = [], 0
    while at < len(text):
        match = _PAIR.match(text, at)
        if match is None or (match.end() < len(text) and text[match.end()] not in ";,"):
            raise OptionError(
                name, "these offsets cannot be read", found=f"'{text}'",
                expected="partition:0,offset:42;partition:1,offset:300, or 0:42,1:300",
            )  # fmt: skip
        pairs.append((int(match[1]), int(match[2])))
        at = match.end() + 1
    if not pairs or len({partition for partition, _ in pairs}) < len(pairs):
        raise OptionError(name, "each partition has one offset", found=f"'{text}'", fix="name each partition once")
    return sorted(pairs)


def parse_place(text: str) -> Start:
    """Where a stream goes on: earliest, latest, a time such as 2026-11-17T12:00:00Z, or offsets such as 0:42,1:300."""
    mode = _MODES.get(text.strip().lower())
    if mode in ("earliest", "latest"):
        return Start(mode)
    with suppress(OptionError):
        return Start("offsets", None, tuple(parse_offsets("to", text)))
    with suppress(ValueError):
        at = datetime.fromisoformat(text.strip())
        return Start("timestamp", int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000))
    raise UsageError(
        "this is not a position in a topic", found=f"'{text}'",
        expected="earliest, latest, a time such as 2026-11-17T12:00:00Z, or offsets such as 0:42,1:300",
    )  # fmt: skip


def _check_start(options: Mapping[str, str]) -> None:
    mode = _mode(options.get(MODE, "earliest"))
    needed: dict[Mode, str] = {"timestamp": TIME, "offsets": OFFSETS}
    for of, name in needed.items():
        if mode == of and name not in options:
            raise OptionError(MODE, f"the mode '{_WRITTEN[mode]}' needs the option '{name}'")
        if mode != of and name in options:
            raise OptionError(
                name, f"'{name}' is used with the mode '{_WRITTEN[of]}' only", found=f"'{MODE}' = '{options[MODE]}'"
            )
    time_ms = read_integer(options, TIME)
    if time_ms is not None and time_ms > datetime(9999, 12, 31, tzinfo=UTC).timestamp() * 1000:
        raise OptionError(TIME, "this time is after the year 9999", found=f"'{time_ms}'", expected="milliseconds")
    if mode == "offsets" and (PATTERN in options or ";" in options.get(TOPIC, "")):
        raise OptionError(OFFSETS, "offsets are those of one topic", fix="make a stream of each topic")


def _start(options: Mapping[str, str]) -> Start:
    mode = _mode(options.get(MODE, "earliest"))
    offsets = tuple(parse_offsets(OFFSETS, options[OFFSETS])) if mode == "offsets" else ()
    return Start(mode, read_integer(options, TIME) if mode == "timestamp" else None, offsets)
