"""Detection of formats and compression, and the lines of each format."""

from __future__ import annotations

import gzip
import io

import pyarrow as pa
import pytest

from headrace.errors import IngestError
from headrace.ingest.formats.byte_source import ByteSource, unpack
from headrace.ingest.formats.format_detection import FileLayout, Format, format_of, make_layout
from headrace.ingest.formats.stored_lines import read_lines
from tests import wording

LINES = b'{"a":1}\n{"a":2}\n'


@pytest.mark.parametrize(
    ("name", "head", "stream", "format"),
    [
        ("x.ndjson", b"broken", "json", Format.NDJSON),
        ("x.JSONL.gz", b"", "json", Format.NDJSON),
        ("x.json", b'[{"a":1}]', "json", Format.JSON),
        ("x.json", b'{"a":1}\n{"a":2}', "json", Format.NDJSON),
        ("x.json", b'{\n"a":1}', "json", Format.JSON),
        ("x.csv.zst", b"x;y", "json", Format.CSV),
        ("x.tsv", b"x\ty", "json", Format.CSV),
        ("x.csv", b"PAR1....", "json", Format.PARQUET),
        ("x", b"\xef\xbb\xbfz,a\n1,2\n", "json", Format.CSV),
        ("x.log", b'{"a":1}\n{"a":2}', "json", Format.NDJSON),
        ("x.log", b"broken\n", "json", Format.NDJSON),
        ("x.csv", b"z,a\n", "text", Format.TEXT),
        ("x.txt", b"PAR1", "text", Format.PARQUET),
    ],
)
def test_the_format_by_name_and_content(name: str, head: bytes, stream: str, format: Format) -> None:
    assert format_of(name, head, stream, {"a": "INT"}) is format


def test_a_delimiter_is_one_of_four() -> None:
    assert make_layout(Format.CSV, "tab", "a, b") == FileLayout(Format.CSV, "\t", ("a", "b"))
    with wording.raises(IngestError, "x"):
        make_layout(None, "x")


@pytest.mark.parametrize(
    "packed",
    [
        LINES,
        gzip.compress(LINES),
        gzip.compress(LINES[:3]) + gzip.compress(LINES[3:]),
        pa.compress(LINES, codec="zstd", asbytes=True),
        pa.compress(LINES[:3], codec="zstd", asbytes=True) + pa.compress(LINES[3:], codec="zstd", asbytes=True),
    ],
)
def test_compressed_data_is_decompressed(packed: bytes) -> None:
    assert unpack(ByteSource(packed)).readall() == LINES
    assert unpack(ByteSource(io.BytesIO(packed))).readall() == LINES


@pytest.mark.parametrize(
    "packed",
    [gzip.compress(LINES)[:-9], gzip.compress(LINES) + b"more", pa.compress(LINES, codec="zstd", asbytes=True)[:-3]],
)
def test_damaged_compressed_data_is_an_error(packed: bytes) -> None:
    with wording.raises(IngestError):
        unpack(ByteSource(packed)).readall()


@pytest.mark.parametrize(
    ("body", "format", "lines"),
    [
        (LINES, Format.NDJSON, LINES),
        (b"\xef\xbb\xbf" + LINES[:-1], Format.NDJSON, LINES),
        (b'[{"a":1},{"a":2}]', Format.JSON, LINES),
        (b'\n[{"a":1}\n,\r\n{"a":\n2}]\n', Format.JSON, b'{"a":1} \n  {"a": 2}\n'),
        (b'\xef\xbb\xbf {\n"a":1}\n', Format.JSON, b'{ "a":1}\n'),
        (b"", Format.JSON, b""),
        (b"a\n1\n2", Format.CSV, LINES),
        (b"one\r\ntwo", Format.TEXT, b"one\r\ntwo\n"),
    ],
)
@pytest.mark.parametrize("size", [3, 1 << 20])
def test_each_format_as_lines(body: bytes, format: Format, lines: bytes, size: int) -> None:
    assert b"".join(read_lines(ByteSource(io.BytesIO(body)), FileLayout(format), {"a": "INT"}, size)) == lines
