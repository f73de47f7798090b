"""CSV as lines: every cell means what its field's type says, and rows keep their order."""

from __future__ import annotations

import csv
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import IngestError
from headrace.ingest.formats import csv_lines as formats_csv
from headrace.ingest.formats.byte_source import ByteSource
from headrace.ingest.formats.csv_lines import csv_lines
from tests import wording

TYPES = {
    "name": "STRING",
    "n": "INT",
    "x": "DECIMAL(10,2)",
    "ok": "BOOLEAN",
    "at": "TIMESTAMP",
    "tags": "ARRAY<STRING>",
}


def lines(text: str | bytes, **options: object) -> list[bytes]:
    body = text.encode() if isinstance(text, str) else text
    return b"".join(csv_lines(ByteSource(body), TYPES, **options)).splitlines()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("column", "cell", "event"),
    [
        ("name", "ann", {"name": "ann"}),
        ("name", "", {}),
        ("name", '""', {"name": ""}),
        ("name", '"say ""hi"", \\ and\n go"', {"name": 'say "hi", \\ and\n go'}),
        ("name", "5", {"name": "5"}),
        ("n", "5", {"n": 5}),
        ("n", " 5 ", {"n": 5}),
        ("n", '"5"', {"n": 5}),
        ("n", '""', {}),
        ("n", "007", {"n": "007"}),
        ("n", "many", {"n": "many"}),
        ("n", "NaN", {"n": "NaN"}),
        ("x", "-1.50", {"x": -1.5}),
        ("x", "1e3", {"x": 1000.0}),
        ("ok", "TRUE", {"ok": True}),
        ("ok", "false", {"ok": False}),
        ("ok", "yes", {"ok": "yes"}),
        ("at", "2024-05-17 10:05:03", {"at": "2024-05-17 10:05:03"}),
        ("at", '""', {}),
        ("tags", '"[""a"",\n ""b""]"', {"tags": ["a", "b"]}),
        ("tags", '"1,""n"":7"', {"tags": '1,"n":7'}),
        ("new", "x", {"new": "x"}),
    ],
)
def test_a_cell_means_what_its_field_says(column: str, cell: str, event: dict[str, object]) -> None:
    other = "n" if column == "name" else "name"
    assert [json.loads(line) for line in lines(f"{column},{other}\n{cell},\n")] == [event]


def test_rows_of_another_width_keep_their_place() -> None:
    text = 'name,n\nshort\na,1\n\nb,2\n1,2,3\n"x\ny",4,5\nc,3\nlast'
    assert [json.loads(line) for line in lines(text)] == [
        ["short"],
        {"name": "a", "n": 1},
        {"name": "b", "n": 2},
        ["1", "2", "3"],
        ["x\ny", "4", "5"],
        {"name": "c", "n": 3},
        ["last"],
    ]


def test_a_row_with_a_very_long_cell_is_kept_as_it_is() -> None:
    long = "x" * 200_000
    assert [json.loads(line) for line in lines(f"name,n\n{long},1\n{long}\na,2\n")] == [
        {"name": long, "n": 1},
        [long],
        {"name": "a", "n": 2},
    ]


def test_a_file_of_bad_rows_is_fast_too() -> None:
    assert lines("name,n\n" + "short\n" * 50_000) == [b'["short"]'] * 50_000


def test_a_file_with_another_delimiter_is_refused() -> None:
    with wording.raises(IngestError, 2, 1):
        lines("name,n\n" + "short;1\n" * 100, most_bad_rows=10)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_guessed_or_given(delimiter: str) -> None:
    text = f'\ufeff"name, or so"{delimiter}n\r\na{delimiter}1\r\n'
    assert [json.loads(line) for line in lines(text)] == [{"name, or so": "a", "n": 1}]
    assert [json.loads(line) for line in lines("name:n;x\n", delimiter=";", names=["name", "n"])] == [
        {"name": "name:n", "n": "x"}
    ]


def test_bytes_that_are_not_utf8_reach_the_parser_unchanged() -> None:
    assert lines(b"name,n\n\xe9t\xe9,1\n\xff\nok,2\n") == [
        b'{"name":"\xe9t\xe9","n":1}',
        b'["\xff"]',
        b'{"name":"ok","n":2}',
    ]


@pytest.mark.parametrize("text", ["", "name,n", "name,n\n", "\ufeff"])
def test_no_rows_are_no_events(text: str) -> None:
    assert lines(text) == []


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a,b\n1,2\n", ("a", "b")),
        ("name,name\n", ("name",)),
        ("name,\n", ()),
        ("name\n".encode("utf-16"), ("UTF", "16", "8")),
    ],
)
def test_what_cannot_be_read_says_why(text: str | bytes, values: tuple[str, ...]) -> None:
    with wording.raises(IngestError, *values):
        lines(text)


def test_a_quote_that_does_not_close_is_named() -> None:
    with wording.raises(IngestError):
        lines('name,n\n"a,1\n' + "b,2\n" * 1000, block_bytes=1000)


cells = st.text(st.sampled_from('ab,;"\n\r\\\t é'), max_size=6)


@given(st.lists(st.tuples(cells, cells), max_size=30), st.sampled_from([40, 1 << 20]))
def test_what_a_writer_writes_is_read_back(rows: list[tuple[str, str]], block: int) -> None:
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerow(["name", "other"])
    writer.writerows(rows)
    before = formats_csv.BLOCK_BYTES
    formats_csv.BLOCK_BYTES = block
    try:
        read = [json.loads(line) for line in lines(out.getvalue())]
    finally:
        formats_csv.BLOCK_BYTES = before
    assert read == [{"name": name, "other": other} for name, other in rows]
