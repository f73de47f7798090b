"""Parquet as NDJSON lines, by batches of rows: a file is never in memory as a whole. Each format has its module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.errors import IngestError
from headrace.parse.json_text import json_lines, json_text, line_bytes

ROWS = 8192  # read at once
PIECE_BYTES = 4 << 20  # of text that is written at once, or one row


def parquet_lines(file: Any, rows: int = ROWS, piece_bytes: int = PIECE_BYTES) -> Iterator[bytes]:
    """Lines in pieces, from a seekable file."""
    try:
        reader = pq.ParquetFile(file, pre_buffer=False)
        # Repeated strings stay dictionaries until they are written: a small file may hold very long text.
        strings = [name for name in reader.schema_arrow.names if _is_text(reader.schema_arrow.field(name).type)]
        reader = pq.ParquetFile(file, pre_buffer=False, read_dictionary=strings)
        names = reader.schema_arrow.names
        _check_names(names)
        for batch in reader.iter_batches(batch_size=rows, use_threads=False):
            for part in _in_pieces(batch, piece_bytes):
                texts = [json_text(name, column) for name, column in zip(names, part.columns, strict=True)]
                yield line_bytes(json_lines(names, texts, len(part))).to_pybytes()
    except (pa.ArrowException, OSError) as error:
        raise IngestError(
            "the Parquet file cannot be read",
            found=str(error).partition("\n")[0],
            fix="is it complete? the footer at its end is needed",
        ) from error


def _in_pieces(batch: pa.RecordBatch, piece_bytes: int) -> Iterator[pa.RecordBatch]:
    """The rows, in parts whose strings fit a piece."""
    sizes = np.zeros(len(batch), dtype=np.int64)
    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            lengths = pc.binary_length(column.dictionary).take(column.indices)
            sizes += np.asarray(pc.fill_null(lengths, 0), dtype=np.int64)
    ends = np.cumsum(sizes)
    start = 0
    while start < len(batch):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + piece_bytes, side="right")))
        yield batch.slice(start, stop - start)
        start = stop


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_binary(type_))


def _check_names(names: list[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise IngestError("the Parquet file cannot be read", found=f"the column '{twice[0]}' twice")
