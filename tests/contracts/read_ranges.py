"""Reads ranges of any transport; imported also by fresh processes."""

from __future__ import annotations

from headrace.define.model import JSON
from headrace.transport.position import Range
from headrace.transport.transport_contract import Reader

Read = dict[int, tuple[bytes, int]]  # by position: an event and its arrival


def read(reader: Reader, ranges: list[Range]) -> Read:
    by_position: Read = {}
    for part in ranges:
        for events in reader.read(part, JSON):
            rows = zip(events.positions.tolist(), events.frames, events.arrived_us.tolist(), strict=True)
            for position, event, arrived_us in rows:
                assert position not in by_position, "a position is used twice"
                by_position[position] = event, arrived_us
    return by_position
