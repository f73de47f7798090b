"""Tables of a lake with empty files: these tests are about the log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.define.catalog import parse
from headrace.lake.delta_table import LakeState, LakeTable
from headrace.lake.parquet_file import NewFile
from headrace.lake.table_files import LakeFile
from headrace.transport.position import Position

(STREAM,) = parse("CREATE STREAM s (id BIGINT)").streams.values()


def new_file(name: str, commit: int, *, dead: bool = False, rows: int = 5, last: int | None = None) -> NewFile:
    bounds = f'"minValues":{{"_commit":{commit}}},"maxValues":{{"_commit":{commit if last is None else last}}}'
    stats = f'{{"numRecords":{rows},{bounds},"nullCount":{{}}}}'
    return NewFile(f"_dead={str(dead).lower()}/{name}.parquet", 100, rows, dead, stats)


class Table(LakeTable):
    """Creates the files of each commit, empty. Its transport has one partition."""

    def commit(  # type: ignore[override]
        self,
        at: LakeState,
        offset: int,
        newest_us: int | None,
        files: Sequence[NewFile],
        removes: Sequence[LakeFile] = (),
    ) -> LakeState:
        self._touch(files)
        return super().commit(at, Position.at(offset), newest_us, files, removes)

    def rewrite(self, old: Sequence[LakeFile], new: Sequence[NewFile]) -> None:
        self._touch(new)
        super().rewrite(old, new)

    def _touch(self, files: Sequence[NewFile]) -> None:
        for file in files:
            (self.folder / file.path).touch()


def table_of(folder: Path, commits: int) -> Table:
    table = Table(folder, STREAM, fence=1)
    for number in range(commits):
        table.commit(table.state, (number + 1) * 10, None, [new_file(f"f{number}", number)])
    return table
