"""The size of a stream's lake on disk."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.lake.files import TARGET_BYTES
from headrace.lake.table import LakeTable


@dataclass(frozen=True)
class LakeFigures:
    """The size of a stream's lake on disk. Files are small while compaction may still combine them."""

    files: int
    bytes: int
    small: int


def lake_figures(table: LakeTable | None) -> LakeFigures:
    """The figures of a lake; zeros if there is none yet."""
    files = table.all_files() if table else []
    small = sum(file.size < TARGET_BYTES // 2 for file in files)
    return LakeFigures(len(files), sum(file.size for file in files), small)
