"""A stream of format TEXT: a line is an event, unchanged."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.define.catalog import parse
from headrace.parse.event_parser import Parser
from headrace.parse.frames import as_lines, frame, frame_text

ARRIVED_US = 1_800_000_000_000_000


def lines_of(buffer: bytes) -> list[bytes]:
    framed = frame_text(buffer)
    return [framed[i] for i in range(len(framed))]


def test_only_the_line_end_is_removed() -> None:
    assert lines_of(b"  a  \r\n\n   \n\tb\rc\t\r\n\r\nlast ") == [b"  a  ", b"\tb\rc\t", b"last "]
    assert lines_of(b"") == lines_of(b"\n\r\n \n") == []


@given(st.lists(st.binary(max_size=6), max_size=8))
def test_lines_written_again_are_the_same_lines(parts: list[bytes]) -> None:
    framed = frame_text(b"\n".join(parts))
    again = frame("text", as_lines(framed, "text"))
    assert [again[i] for i in range(len(again))] == [framed[i] for i in range(len(framed))]
    assert all(line.strip() and b"\n" not in line and not line.endswith(b"\r") for line in lines_of(b"\n".join(parts)))


def test_access_logs_are_read_by_computed_fields() -> None:
    (stream,) = parse(
        r"""CREATE STREAM access (
          value STRING NOT NULL,
          host STRING AS split_part(value, ' ', 1),
          status INT AS CAST(regexp_extract(value, r'" (\d{3}) ') AS INT),
          bytes BIGINT AS CAST(regexp_extract(value, r'" \d{3} (\d+)') AS BIGINT)
        ) FORMAT TEXT;"""
    ).streams.values()
    parsed = Parser(stream).parse(
        frame_text(b'10.0.0.1 - - [x] "GET / HTTP/1.1" 200 512\nnothing\n\xff\xfe\n10.0.0.2 "\xc3\xa9" 404 -'),
        ARRIVED_US,
    )
    assert parsed.columns.select(["host", "status", "bytes"]).to_pylist() == [
        {"host": "10.0.0.1", "status": 200, "bytes": 512},
        {"host": "nothing", "status": None, "bytes": None},
        {"host": None, "status": None, "bytes": None},
        {"host": "10.0.0.2", "status": 404, "bytes": None},
    ]
    assert parsed.columns["value"].to_pylist()[3] == '10.0.0.2 "é" 404 -'
    assert parsed.reasons is not None
    assert parsed.reasons.to_pylist() == [None, None, "not UTF-8 at byte 0", None]


@given(st.lists(st.binary(min_size=1, max_size=5).filter(lambda b: b.strip() and b"\n" not in b), max_size=9))
def test_the_verdict_on_a_line_is_its_own(lines: list[bytes]) -> None:
    (stream,) = parse("CREATE STREAM lines (value STRING) FORMAT TEXT").streams.values()
    parsed = Parser(stream).parse(frame_text(b"\n".join(lines)), ARRIVED_US)
    reasons = parsed.reasons.to_pylist() if parsed.reasons is not None else [None] * len(lines)
    for line, value, reason in zip(lines, parsed.columns["value"].to_pylist(), reasons, strict=True):
        try:
            expected = line.rstrip(b"\r").decode()
        except UnicodeDecodeError:
            expected = None
        assert value == expected
        assert (reason is None) == (expected is not None)
