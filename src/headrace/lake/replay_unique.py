"""Replayed events of a stream with UNIQUE: those that repeat an event are dead letters again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import orjson
import pyarrow.compute as pc

from headrace.define.model import Stream
from headrace.lake.batches import MOST_BYTES, batches
from headrace.lake.file import LakeFileWriter, NewFile
from headrace.lake.range import newest_of
from headrace.lake.reread import BEFORE, Aside
from headrace.lake.schema import COMMIT, REASON
from headrace.lake.storage import LocalStorage
from headrace.lake.unique import Judge
from headrace.timing import later


@dataclass(frozen=True)
class Readable:
    """What came of one file of dead letters."""

    path: str
    rows: int
    readable: int
    new_reasons: int  # of those that stay dead letters
    newest_us: int | None  # of the readable ones
    aside: str | None  # Parquet with the readable ones
    rest: tuple[NewFile, ...]  # files with the others, put aside too

    @classmethod
    def of(cls, row: Any) -> Self:
        """What a worker returned."""
        rest = (NewFile(**orjson.loads(row.rest)),) if row.rest else ()
        return cls(row.path, row.rows, row.readable, row.new_reasons, row.newest_us, row.aside, rest)

    @property
    def changes(self) -> bool:
        """Whether the file is replaced."""
        return bool(self.readable or self.new_reasons)


def judge_letters(
    judge: Judge, stream: Stream, results: Sequence[Readable], folder: Path, batch_bytes: int = MOST_BYTES
) -> list[Readable]:
    """The same results, where only events that count are readable. What is written is put aside in the folder."""
    return [_judge_file(judge, stream, result, folder, batch_bytes) for result in results]


def _judge_file(judge: Judge, stream: Stream, result: Readable, folder: Path, batch_bytes: int) -> Readable:
    if result.aside is None:
        return result
    aside, again = Aside(str(folder)), None
    readable, new_reasons, newest = 0, result.new_reasons, None
    for rows in batches(Path(result.aside), most_bytes=batch_bytes):
        good, repeats = judge.split(rows)
        good = good.drop_columns([BEFORE])
        aside.write(good)
        readable, newest = readable + len(good), later(newest, newest_of(stream, good))
        if repeats is not None:
            new_reasons += pc.sum(pc.not_equal(repeats.column(REASON), repeats.column(BEFORE))).as_py() or 0
            again = again or LakeFileWriter(LocalStorage(folder), rows.column(COMMIT)[0].as_py(), dead=True)
            again.write(repeats.drop_columns([BEFORE]))
    file = again.close() if again else None
    rest = (*result.rest, file) if file else result.rest
    judged = replace(result, readable=readable, new_reasons=new_reasons, newest_us=newest)
    return replace(judged, aside=aside.close(), rest=rest)
