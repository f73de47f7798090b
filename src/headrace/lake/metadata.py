"""The schema that a Delta log records, changed by a log entry of our own: deltalake has no call that widens a type.

Who reads the table by its log would else get the old types, and fail at the first value that needs the new one.
"""

from __future__ import annotations

import os
import time
import uuid
from contextlib import suppress
from pathlib import Path

import orjson
import pyarrow as pa
from deltalake import DeltaTable, Schema


def record_schema(table: DeltaTable, folder: Path, schema: pa.Schema) -> bool:
    """Make this the recorded schema; whether there was something to change.

    The entry appears whole under the number behind the one that the handle stands at, or not at all:
    raises FileExistsError if somebody else has written that entry.
    """
    wanted = Schema.from_arrow(schema).to_json()
    if table.schema().to_json() == wanted:
        return False
    now_ms, said = int(time.time() * 1000), table.metadata()
    metadata = {
        "id": str(said.id),
        "name": said.name,
        "description": said.description,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": wanted,
        "partitionColumns": said.partition_columns,
        "createdTime": said.created_time,
        "configuration": said.configuration,
    }
    entries = [{"commitInfo": {"timestamp": now_ms, "operation": "CHANGE COLUMNS"}}, {"metaData": metadata}]
    _add_entry(folder / "_delta_log", table.version() + 1, b"\n".join(map(orjson.dumps, entries)) + b"\n")
    table.update_incremental()
    return True


def _add_entry(log: Path, version: int, content: bytes) -> None:
    temporary = log / f"_commit_{uuid.uuid4().hex}.json.tmp"
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, log / f"{version:020d}.json")
        folder = os.open(log, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
