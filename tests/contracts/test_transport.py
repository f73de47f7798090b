"""The journal, and a folder of files with two partitions, do what every transport must do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.transport.journal.journal import Journal
from headrace.transport.position import Position
from headrace.transport.transport_contract import Transport

from .folder_transport import FolderTransport
from .transport import *  # noqa: F403 - the tests
from .transport import Place


class JournalPlace(Place):
    def make(self, fence: int, lake_end: Position, still_mine: Callable[[], None]) -> Transport:
        return Journal(
            self.folder,
            fence=fence,
            lake_end=lake_end,
            still_mine=still_mine,
            clock_us=lambda: self.now_us,
            monotonic_s=lambda: self.now_us / 1e6,
            segment_bytes=1,  # a file for each request, so that each can be reclaimed
        )


class FolderPlace(Place):
    def make(self, fence: int, lake_end: Position, still_mine: Callable[[], None]) -> Transport:
        return FolderTransport(
            self.folder, fence=fence, lake_end=lake_end, still_mine=still_mine, clock_us=lambda: self.now_us
        )


@pytest.fixture(params=[JournalPlace, FolderPlace], ids=["journal", "folder"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    place = request.param(tmp_path / "transport")
    yield place
    for transport in place.opened:
        transport.close()
