"""Changes of where the events of a stream come from: which are free, and which would make another log of it."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.define.kafka_source import DELIMITER, PATTERN, TOPIC, read_source
from headrace.define.model import Source
from headrace.secrets import shown, shown_change

_STARTS = "scan.startup."


def describe_source(source: Source) -> Iterator[str]:
    """Where events come from, a line each, without secrets."""
    yield f"source: {source.connector}"
    yield from (f"source option: {name} = {shown(name, value)}" for name, value in source.options)


def refused_source_changes(before: Source | None, after: Source | None) -> list[str]:
    """What would make the offsets of the log those of other events."""
    if before is None or after is None:
        return [] if before == after else [f"source: {_name(before)} → {_name(after)}"]
    if before.connector != after.connector:
        return [f"source: {_name(before)} → {_name(after)}"]
    old, new = read_source(before), read_source(after)
    changes = []
    if not set(old.topics) <= set(new.topics) or (not old.topics and new.topics):
        changes.append(_change(TOPIC, before, after))
    if old.pattern != new.pattern:
        changes.append(_change(PATTERN, before, after))
    if before.get(DELIMITER) != after.get(DELIMITER):
        changes.append(_change(DELIMITER, before, after))
    return changes


def free_source_changes(before: Source | None, after: Source | None) -> list[str]:
    """How a source is reached or followed otherwise: servers, security, further topics."""
    if before is None or after is None or before.connector != after.connector:
        return []
    refused = refused_source_changes(before, after)
    names = sorted({*dict(before.options), *dict(after.options)})
    changes = [_change(name, before, after) for name in names if before.get(name) != after.get(name)]
    return [
        f"{change} (only where a new stream begins)" if change.startswith(f"source option: {_STARTS}") else change
        for change in changes
        if change not in refused
    ]


def _change(name: str, before: Source, after: Source) -> str:
    return f"source option: {shown_change(name, before.get(name), after.get(name))}"


def _name(source: Source | None) -> str:
    return source.connector if source else "HTTP and files"
