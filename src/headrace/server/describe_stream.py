"""The state of streams, out of their definitions."""

from __future__ import annotations

from dataclasses import fields

from headrace.define.model import Source, Stream
from headrace.define.relation_text import sources_of
from headrace.secrets import shown
from headrace.server.status import FieldStatus, SourceStatus, StreamDefinition, StreamStatus, UniqueStatus


def describe_definition(stream: Stream) -> StreamDefinition:
    """What the definition of a stream says."""
    return StreamDefinition(
        name=stream.name,
        format=stream.format,
        fields=tuple(
            FieldStatus(
                each.name,
                str(each.type),
                each.nullable,
                each.computed.sql if each.computed else None,
                each.path,
                each.record,
            )
            for each in stream.fields
        ),
        event_time=stream.event_time,
        patience_ms=stream.patience_ms,
        idle_timeout_ms=stream.idle_timeout_ms,
        unique=UniqueStatus(stream.unique.columns, stream.unique.within_ms) if stream.unique else None,
        source=describe_source(stream.source) if stream.source else None,
        derived_from=sources_of(stream.relation) if stream.relation else (),
    )


def describe_source(source: Source) -> SourceStatus:
    """Where events come from, without secrets."""
    return SourceStatus(source.connector, {name: shown(name, value) for name, value in source.options})


def describe_derived(stream: Stream) -> StreamStatus:
    """A derived stream: it has no log, and so no numbers."""
    return describe_damaged(stream, None)


def describe_damaged(stream: Stream, error: str | None) -> StreamStatus:
    """A stream of which only the definition and the damage are known."""
    known = vars(describe_definition(stream))
    unknown = {each.name: None for each in fields(StreamStatus) if each.name not in known}
    return StreamStatus(**{**known, **unknown, "error": error})
