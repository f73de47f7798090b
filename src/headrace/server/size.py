"""How much of a stream's log a build reads: its events, without the dead letters."""

from __future__ import annotations

from pathlib import Path

from headrace.lake.table import LakeTable
from headrace.plan.cost import Size


def lake_size(table: LakeTable) -> Size:
    """What a lake holds now."""
    return Size(table.rows(), sum(file.size for file in table.files(0, table.state.next_commit)))


def unread_size(folder: Path) -> Size | None:
    """Of a stream that does not run: nothing, unless an earlier one of its name has left a log. That is not opened."""
    return None if folder.exists() else Size(0, 0)
