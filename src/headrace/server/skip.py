"""Leaves out offsets of a stream in Kafka, deliberately, and says so in its log; and how far behind its lake is."""

from __future__ import annotations

from headrace.define.kafka_source import Start
from headrace.lake.delta_table import LakeTable
from headrace.server.status import LagStatus, SkipStatus
from headrace.transport.position import Position
from headrace.transport.transport_contract import Transport

SKIP_ID = "headrace:skip:"  # and topic, partition and first offset; its value is the offset at which reading goes on


def skip_offsets(stream: str, table: LakeTable, transport: Transport, to: Start, *, dry_run: bool) -> SkipStatus:
    """Go on at other offsets: a commit without events names what is left out. With `dry_run`, only say it."""
    with table.turn:  # not while a micro-batch reads
        at = table.state
        skipped = transport.skip(to, at.position, dry_run=dry_run)
        if dry_run or not skipped:
            return SkipStatus(stream, tuple(skipped), None)
        notes = {f"{SKIP_ID}{each.topic}:{each.partition}:{each.first}": each.to for each in skipped}
        table.commit(at, at.position, at.newest_us, [], notes=notes)
        return SkipStatus(stream, tuple(skipped), at.next_commit)


def describe_lag(transport: Transport, position: Position) -> LagStatus | None:
    """How many events of Kafka a position does not cover; None if that is not known, or the stream is not in Kafka."""
    lags = transport.lags(position)
    if lags is None:
        return None
    return LagStatus(sum(lags.values()), {f"{topic}-{partition}": lag for (topic, partition), lag in lags.items()})
