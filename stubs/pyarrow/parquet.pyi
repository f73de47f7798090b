"""Reading and writing Parquet files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from . import RecordBatch, Schema, Table
from .compute import Expression

class Statistics:
    has_min_max: bool
    min_raw: Any
    max_raw: Any

class ColumnChunkMetaData:
    path_in_schema: str
    statistics: Statistics | None

class RowGroupMetaData:
    num_rows: int
    num_columns: int
    total_byte_size: int
    def column(self, i: int) -> ColumnChunkMetaData: ...

class FileMetaData:
    num_row_groups: int
    num_rows: int
    metadata: dict[bytes, bytes] | None
    def row_group(self, i: int) -> RowGroupMetaData: ...

class ParquetFile:
    metadata: FileMetaData
    schema_arrow: Schema
    num_row_groups: int
    def __init__(
        self,
        source: object,
        *,
        page_checksum_verification: bool = ...,
        pre_buffer: bool = ...,
        read_dictionary: Sequence[str] | None = ...,
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...
    def close(self, force: bool = ...) -> None: ...
    def iter_batches(
        self,
        batch_size: int = ...,
        row_groups: Sequence[int] | None = ...,
        columns: Sequence[str] | None = ...,
        use_threads: bool = ...,
    ) -> Iterator[RecordBatch]: ...
    def read(self, columns: Sequence[str] | None = ..., use_threads: bool = ...) -> Table: ...
    def read_row_group(self, i: int, columns: Sequence[str] | None = ..., use_threads: bool = ...) -> Table: ...

class ParquetWriter:
    def __init__(
        self,
        where: object,
        schema: Schema,
        *,
        compression: str | Mapping[str, str] = ...,
        compression_level: int | Mapping[str, int] | None = ...,
        use_dictionary: bool | Sequence[str] = ...,
        write_statistics: bool | Sequence[str] = ...,
        write_page_checksum: bool = ...,
        column_encoding: str | Mapping[str, str] | None = ...,
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...
    def close(self) -> None: ...
    def write(self, table_or_batch: Table | RecordBatch, row_group_size: int | None = ...) -> None: ...
    def write_table(self, table: Table, row_group_size: int | None = ...) -> None: ...

def read_metadata(where: object) -> FileMetaData: ...
def read_schema(where: object) -> Schema: ...
def read_table(
    source: object,
    *,
    columns: Sequence[str] | None = ...,
    schema: Schema | None = ...,
    partitioning: str | None = ...,
    filters: Expression | Iterable[tuple[str, str, object]] | None = ...,
    use_threads: bool = ...,
    memory_map: bool = ...,
    page_checksum_verification: bool = ...,
    coerce_int96_timestamp_unit: str | None = ...,
) -> Table: ...
def write_table(table: Table, where: Path | str, **options: Any) -> None: ...
