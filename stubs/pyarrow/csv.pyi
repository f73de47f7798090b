"""Reading CSV."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from . import DataType, RecordBatch, RecordBatchReader, Schema, Table

class InvalidRow(NamedTuple):
    expected_columns: int
    actual_columns: int
    number: int  # None if threads are used, which they are not
    text: str

class ReadOptions:
    def __init__(
        self,
        *,
        use_threads: bool | None = ...,
        block_size: int | None = ...,
        skip_rows: int | None = ...,
        column_names: Sequence[str] | None = ...,
        autogenerate_column_names: bool | None = ...,
        encoding: str = ...,
    ) -> None: ...

class ParseOptions:
    def __init__(
        self,
        *,
        delimiter: str | None = ...,
        quote_char: str | Literal[False] | None = ...,
        double_quote: bool | None = ...,
        newlines_in_values: bool | None = ...,
        ignore_empty_lines: bool | None = ...,
        invalid_row_handler: Callable[[InvalidRow], Literal["skip", "error"]] | None = ...,
    ) -> None: ...

class ConvertOptions:
    def __init__(
        self,
        *,
        check_utf8: bool | None = ...,
        column_types: Mapping[str, DataType] | Schema | None = ...,
        null_values: Sequence[str] | None = ...,
        strings_can_be_null: bool | None = ...,
        quoted_strings_can_be_null: bool | None = ...,
    ) -> None: ...

class CSVStreamingReader(RecordBatchReader):
    def __iter__(self) -> Iterator[RecordBatch]: ...

def open_csv(
    input_file: object,
    read_options: ReadOptions | None = ...,
    parse_options: ParseOptions | None = ...,
    convert_options: ConvertOptions | None = ...,
) -> CSVStreamingReader: ...
def read_csv(
    input_file: object,
    read_options: ReadOptions | None = ...,
    parse_options: ParseOptions | None = ...,
    convert_options: ConvertOptions | None = ...,
) -> Table: ...
