"""Events in each format that a body or a file may have."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from tests.surfaces.conftest import visit

TEXT_STREAM = "CREATE STREAM lines (value STRING) FORMAT TEXT;"


def as_csv(*events: dict[str, Any]) -> bytes:
    header = list(events[0])
    return "\n".join([";".join(header), *(";".join(str(e[name] or "") for name in header) for e in events)]).encode()


def as_parquet(*events: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(events)), file)
    return file.getvalue()


GOOD, BAD = visit(), {**visit(1), "status": None, "at": "soon"}
FORMS: dict[str, tuple[str, Callable[..., bytes]]] = {
    "json": ("application/json", lambda *events: orjson.dumps(events)),
    "ndjson": ("application/x-ndjson", lambda *events: b"\n".join(map(orjson.dumps, events))),
    "csv": ("text/csv; charset=utf-8", as_csv),
    "parquet": ("application/vnd.apache.parquet", as_parquet),
}
