"""Fields that were added to a stream later: an earlier event is not refused for its value of such a field."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.define.model import Stream
from headrace.lake.schema import REASON
from headrace.parse.frames import Frames
from headrace.parse.objects import put_back
from headrace.parse.parser import Parsed, Parser
from headrace.transport.position import START, Position, event_base

Since = tuple[tuple[str, Position], ...]  # fields, each with the position at which it was added


@lru_cache(maxsize=32)
def parser_of(stream: Stream, lenient: frozenset[str] = frozenset()) -> Parser:
    """The parser of a stream. Cached: a worker parses many ranges."""
    return Parser(stream, lenient)


def parse_since(
    stream: Stream,
    since: Since,
    frames: Frames,
    positions: npt.NDArray[np.int64],
    arrived_us: npt.NDArray[np.int64],
    records: pa.Table | None = None,
) -> Parsed:
    """Typed columns and verdicts. Refused events are parsed again without the fields that were added after them."""
    parsed = parser_of(stream).parse(frames, arrived_us, records)
    if parsed.reasons is None or not since:
        return parsed
    rows = parsed.columns.append_column(REASON, parsed.reasons)
    refused = np.asarray(parsed.reasons.is_valid().to_numpy(zero_copy_only=False), dtype=bool)
    start = START
    for until in sorted({position for _, position in since}, key=lambda position: sum(position.offsets)):
        these = refused & ~_before(start, positions) & _before(until, positions)
        start = until
        if these.any():
            lenient = frozenset(name for name, position in since if position.covers(until))
            again_records = records.filter(pa.array(these)) if records is not None else None
            again = parser_of(stream, lenient).parse(frames.take(these), arrived_us[these], again_records)
            reasons = pa.nulls(len(again.columns), pa.string()) if again.reasons is None else again.reasons
            rows = put_back(rows, these, again.columns.append_column(REASON, reasons))
    return Parsed(rows.drop_columns([REASON]), rows.column(REASON).combine_chunks())


def _before(position: Position, events: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Which events, by their own positions, a position covers."""
    covered = np.zeros(len(events), dtype=bool)
    for partition, offset in enumerate(position.offsets):
        covered |= (events >= event_base(partition)) & (events < event_base(partition) + offset)
    return covered
