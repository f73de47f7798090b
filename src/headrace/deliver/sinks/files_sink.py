"""Writes a sink to files in a folder, exactly once.

The files of a batch are written under temporary names; then a record says which names they get and how far the sink has
come: this is the commit. Then they are renamed. A process that dies in between is finished by the next one.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.define.connectors import FILES, value_of
from headrace.define.model import Sink
from headrace.deliver.sinks.sink_rows import EventRows, arrow_table, json_lines
from headrace.deliver.sinks.sink_writer import DestinationError, SinkBatch
from headrace.disk import disk_full, from_system, is_disk_full, replace_file, sync
from headrace.errors import HeadraceError
from headrace.faults import fault_point
from headrace.name_encoding import encode_name

RECORDS = "_headrace"  # readers of folders, such as Spark, skip names with a leading underscore
TEMPORARY = ".tmp"
NO_DATE = "__HIVE_DEFAULT_PARTITION__"  # as Hive and Spark name the partition of NULL


@dataclass(frozen=True)
class FileRecord:
    """How far the sink has come, and the renames and removals that its last batch needs."""

    cursor: str
    number: int  # of the last batch
    files: tuple[str, ...] = ()  # final names, below the folder
    remove: tuple[str, ...] = ()  # files of the whole result before, in mode complete


class FilesWriter:
    """A folder that gets a file, or one for each date, with each batch."""

    unfinished = False

    def __init__(self, sink: Sink, folder: Path) -> None:
        self._sink = sink
        self._folder = folder
        self._name = encode_name(sink.name)
        self._record_file = folder / RECORDS / f"{self._name}.json"
        self._json = value_of(sink.options, FILES, "format") == "json"
        self._by_date = value_of(sink.options, FILES, "partition.by") == "date"
        self._compression = sink.get("compression") or ("none" if self._json else "zstd")
        self._record: FileRecord | None = None
        self._number: int | None = None

    def resume(self) -> str | None:
        """Finish what an earlier process began, remove what it did not commit; the cursor of the last batch."""
        with self._explained():
            self._record_file.parent.mkdir(parents=True, exist_ok=True)
            self._record = self._read_record()
            if self._record is not None:
                self._finish(self._record)
            for left in self._folder.rglob(f"{self._name}-*{TEMPORARY}"):
                if self._is_ours(left.name):
                    left.unlink(missing_ok=True)
            self._number = self._record.number if self._record else self._last_number()
        return self._record.cursor if self._record else None

    def write(self, batch: SinkBatch) -> None:
        """Write the files of a batch; they are there, and on disk, when this returns."""
        if self._number is None:
            self.resume()
        assert self._number is not None, "resume() sets it"
        before, number = self._record, self._number + 1
        with self._explained():
            files = tuple(self._write_file(name, rows, batch) for name, rows in self._parts(batch, number))
            complete = self._sink.mode == "complete"
            record = FileRecord(batch.cursor, number, files, before.files if complete and before else ())
            fault_point("sink.before_commit")
            replace_file(self._record_file, orjson.dumps(asdict(record)), f"{self._record_file} was not written")
            sync(self._record_file.parent)
            self._record, self._number = record, number
            fault_point("sink.after_commit")
            self._finish(record)

    def forget(self) -> None:
        """Remove the record; the files stay."""
        with self._explained():
            self._record_file.unlink(missing_ok=True)

    def close(self) -> None:
        """Nothing is open between two batches."""

    def _parts(self, batch: SinkBatch, number: int) -> Iterator[tuple[str, pa.Table | list[bytes]]]:
        """The name and the rows of each file; a result without rows is an empty file in mode complete."""
        name = f"{self._name}-{number:012d}{self._suffix}"
        rows: pa.Table | list[bytes]
        rows = json_lines(batch) if self._json else arrow_table(batch, with_op=self._sink.mode == "update")
        if not self._by_date:
            yield name, rows
            return
        dates = self._dates(batch)
        for date in sorted(set(dates)):
            places = [place for place, each in enumerate(dates) if each == date]
            part = [rows[place] for place in places] if isinstance(rows, list) else rows.take(pa.array(places))
            yield f"dt={date}/{name}", part

    def _dates(self, batch: SinkBatch) -> list[str]:
        """The date in UTC of each change, by event time or start of the window."""
        if batch.time_column is None:
            return [NO_DATE] * len(batch.changes)
        times: pa.Array | pa.ChunkedArray
        if isinstance(batch.changes, EventRows):
            times = batch.changes.events.column(batch.time_column)
        else:
            of = pa.timestamp("us", "UTC")
            times = pa.array([change.row.get(batch.time_column) for change in batch.changes], of)
        return [NO_DATE if date is None else date.isoformat() for date in times.cast(pa.date32()).to_pylist()]

    @property
    def _suffix(self) -> str:
        return f".json{'.gz' if self._compression == 'gzip' else ''}" if self._json else ".parquet"

    def _write_file(self, name: str, rows: pa.Table | list[bytes], batch: SinkBatch) -> str:
        path = self._folder / f"{name}{TEMPORARY}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(rows, list):
            text = b"".join(row + b"\n" for row in rows)
            path.write_bytes(gzip.compress(text, 5) if self._compression == "gzip" else text)
        else:
            metadata = {b"headrace.deliver.sinks": self._sink.name.encode(), b"headrace.cursor": batch.cursor.encode()}
            rows = rows.replace_schema_metadata(metadata)
            pq.write_table(rows, path, compression=self._compression)
        sync(path)
        return name

    def _finish(self, record: FileRecord) -> None:
        """Give the files of a batch their names; safe to repeat."""
        folders = set()
        for name in record.files:
            path = self._folder / name
            with suppress(FileNotFoundError):  # it has its name
                os.replace(f"{path}{TEMPORARY}", path)
                folders.add(path.parent)
        for name in record.remove:
            (self._folder / name).unlink(missing_ok=True)
        for folder in folders:
            sync(folder)

    def _read_record(self) -> FileRecord | None:
        try:
            value = orjson.loads(self._record_file.read_bytes())
            return FileRecord(value["cursor"], value["number"], tuple(value["files"]), tuple(value["remove"]))
        except FileNotFoundError:
            return None
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise DestinationError(
                f"sink '{self._sink.name}': its record '{self._record_file}' cannot be read",
                fix="restore it; if it is deleted, the sink sends everything again",
            ) from error

    def _last_number(self) -> int:
        """The highest number of files that an earlier sink of this name left: none is written over."""
        matches = (self._is_ours(path.name) for path in self._folder.rglob(f"{self._name}-*"))
        return max((int(match[1]) for match in matches if match), default=0)

    def _is_ours(self, name: str) -> re.Match[str] | None:
        return re.match(rf"{re.escape(self._name)}-(\d{{12}})\.", name)

    def _explained(self) -> _Explained:
        return _Explained(self._sink.name, self._folder)


class _Explained:
    """Errors of the system as sentences."""

    def __init__(self, sink: str, folder: Path) -> None:
        self._sink = sink
        self._folder = folder

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None or isinstance(error, HeadraceError) or not isinstance(error, Exception):
            return
        if is_disk_full(error):
            raise disk_full(f"sink '{self._sink}' cannot be written", self._folder) from error
        if isinstance(error, OSError):
            raise from_system(error) or DestinationError(
                f"sink '{self._sink}': '{self._folder}' cannot be written: {error.strerror or error}"
            ) from error
