"""A lake with dead letters: the product's journal, range writer and table, without Spark."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from headrace.define.catalog import parse
from headrace.define.definition_rules import strictest
from headrace.define.model import TEXT, Stream
from headrace.ingest.formats.format_detection import FileLayout, Format
from headrace.ingest.intake import Ingest
from headrace.ingest.receiver import IngestReply
from headrace.lake.append_task import Work, range_writer
from headrace.lake.dead_letter_pages import DeadLetters
from headrace.lake.delta_table import LakeTable
from headrace.transport.journal.journal import Journal
from headrace.transport.position import Range


def stream_of(sql: str) -> Stream:
    (stream,) = parse(sql).streams.values()
    return stream


class DeadLake:
    """Accepts lines; the test decides when they are committed."""

    def __init__(
        self, folder: Path, stream: Stream, *, fence: int = 0, lake: Path | None = None, journal: Path | None = None
    ) -> None:
        self.stream = stream
        self.format = Format.TEXT if stream.format == TEXT else Format.NDJSON
        self.table = LakeTable(lake or folder / "lake", self.stream, fence=fence)
        self.journal = Journal(journal or folder / "journal", fence=fence)
        self.ingest = Ingest(self.stream, self.journal)
        self.pins: dict[str, int] = {}  # of the commits to come

    @property
    def dead(self) -> DeadLetters:
        return DeadLetters(self.stream.name, self.table)

    def add(self, *lines: bytes) -> None:
        """One request, one commit."""
        self.post(*lines)
        self.commit()

    def post(self, *lines: bytes, keep_bad: bool = True) -> IngestReply:
        """One request, which stays in the journal."""
        return self.ingest.take(b"\n".join(lines), layout=FileLayout(self.format), key=None, keep_bad=keep_bad).result()

    def redefine(self, stream: Stream) -> None:
        """Continue with a changed definition, as a pipeline does."""
        self.table.redefine(stream, self.ingest.redefine(strictest(self.stream, stream)))
        self.ingest.redefine(stream)
        self.stream = stream

    def commit(self) -> None:
        """Make one commit of all that the journal holds."""
        at, end = self.table.state, self.journal.end
        work = Work(
            self.stream,
            self.journal.reader,
            str(self.table.folder),
            at.next_commit,
            time.time_ns() // 1000,
            at.newest_us,
            self.table.since,
            pins=self.pins,
        )
        (result,) = range_writer(work)([Range(0, at.position.offset(), end.offset())])
        newest = max((us for us in (result.newest_us, at.newest_us) if us is not None), default=None)
        self.table.commit(at, end, newest, result.files)

    def rows(self, *, dead: bool) -> list[dict[str, Any]]:
        """All rows of the table's live or dead files, by position."""
        files = self.table.files(0, self.table.state.next_commit, dead=dead)
        if not files:
            return []
        rows = pa.concat_tables(
            [ds.dataset(str(self.table.folder / file.path)).to_table() for file in files], promote_options="permissive"
        )
        return sorted(rows.to_pylist(), key=lambda row: row["_position"])

    def close(self) -> None:
        self.journal.close()
