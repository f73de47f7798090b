"""The state of each base stream of a view in an answer: commits, horizon, times and freshness."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from headrace.format import iso_us
from headrace.serve.answer import StreamState
from headrace.store.version import Version

Age = tuple[int | None, str | None]  # of the oldest accepted event that an answer does not include; or why unknown


class Fresh(NamedTuple):
    """The freshness of a version: that of the stream in which it is furthest behind, and that of each stream.

    A stream that is not listed is as fresh as the version.
    """

    ms: int | None
    reason: str | None = None
    streams: Mapping[str, Age] = MappingProxyType({})


def up_to_date(version: Version) -> Fresh:
    """The freshness of a version over streams that do not grow."""
    return Fresh(0)


def stream_states(version: Version, fresh: Fresh) -> dict[str, StreamState]:
    """The state of each base stream of a version."""
    return {
        base.stream: StreamState(
            base.applied_to,
            base.horizon,
            iso_us(base.newest_us),
            iso_us(base.settled_us),
            *fresh.streams.get(base.stream, (fresh.ms, fresh.reason)),
        )
        for base in version.bases
    }
