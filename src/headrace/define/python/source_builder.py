"""Parts of a stream in Python: their source, `hr.kafka(topic="visits")`, and the arguments
`unique` and `within`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.define.connector_options import PREFIX, SERVERS
from headrace.define.definition_rules import check_unique_column, make_unique
from headrace.define.kafka_source import COMMIT, MODE, OFFSETS, PATTERN, TIME, TOPIC, make_source
from headrace.define.model import Field, Source, UniqueEvents
from headrace.define.python.query_builder import caller
from headrace.errors import DefinitionError
from headrace.language.source_text import placed


def read_unique(
    unique: str | Sequence[str] | None, within_ms: int | None, fields: Sequence[Field], stream: str
) -> UniqueEvents | None:
    """UNIQUE, as SQL writes it, of the arguments of a stream."""
    if unique is None:
        if within_ms is not None:
            raise DefinitionError(f"stream '{stream}' has within but no unique", fix='add unique=("id",)')
        return None
    columns = [unique] if isinstance(unique, str) else list(unique)
    if not columns or not all(isinstance(column, str) for column in columns):
        raise DefinitionError(
            f"stream '{stream}': `unique` takes names of fields",
            found=repr(unique),
            expected='for example unique=("id",)',
        )
    if within_ms is None:
        raise DefinitionError(
            f"stream '{stream}': unique has no interval within which events are compared", fix='add within="1 day"'
        )
    names = [check_unique_column(column, fields, stream) for column in columns]
    return make_unique(names, within_ms, stream)


def kafka(
    topic: str | None = None,
    *,
    topic_pattern: str | None = None,
    bootstrap_servers: str | None = None,
    start: str | None = None,
    start_timestamp_ms: int | None = None,
    start_offsets: Mapping[int, int] | None = None,
    group_id: str | None = None,
    commit_offsets: bool | None = None,
    properties: Mapping[str, str | int | bool] | None = None,
    options: Mapping[str, str | int | bool] | None = None,
) -> Source:
    """Events in Kafka, for `hr.Stream(…, source=…)`; the arguments are those of WITH (connector = 'kafka', …).

    `start` is "earliest-offset" (default), "latest-offset", "timestamp" or "specific-offsets". `properties` are
    settings of librdkafka, the Kafka client, such as {"sasl.password": "secret:KAFKA_PASSWORD"}. `options` are further
    options by their names in SQL.
    """
    offsets = start_offsets or {}
    options_by_name = {
        TOPIC: topic,
        PATTERN: topic_pattern,
        f"{PREFIX}{SERVERS}": bootstrap_servers,
        MODE: start,
        TIME: start_timestamp_ms,
        OFFSETS: ";".join(f"partition:{p},offset:{o}" for p, o in offsets.items()) or None,
        f"{PREFIX}group.id": group_id,
        COMMIT: commit_offsets,
        **{f"{PREFIX}{name}": value for name, value in (properties or {}).items()},
        **(options or {}),
    }
    with placed(caller()):
        return make_source({name: _text(name, value) for name, value in options_by_name.items() if value is not None})


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int):
        return str(value)
    raise DefinitionError(f"the option '{name}' is a text, a number or a bool", found=type(value).__name__)
