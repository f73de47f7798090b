"""Logs and other lines of text: a stream of FORMAT TEXT whose computed fields extract parts of the lines."""

from __future__ import annotations

import gzip
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace.ingest.formats.format_detection import Format
from headrace.parse.event_parser import Parser
from headrace.parse.frames import frame_lines
from headrace.tools.infer import Draft, draft
from headrace.tools.infer.file_sample import read_sample
from tests import wording

COMMON = '10.0.0.{i} - {user} [17/May/2015:10:{i:02}:03 +0200] "{method} /page/{page}?q={i} HTTP/1.1" {status} {size}'
AGENT = ' "http://example.com/" "Mozilla/5.0 (X11; Linux \\"x\\")"'


def line(i: int, form: str = COMMON + AGENT) -> str:
    parts = {"user": "ann" if i % 4 == 0 else "-", "method": ("GET", "POST")[i % 2], "page": i % 3}
    return form.format(i=i, status=(200, 404)[i % 5 == 0], size="-" if i % 10 == 0 else i * 100, **parts)


def infer(folder: Path, lines: list[str], name: str = "access.log") -> Draft:
    file = folder / name
    text = "".join(one + "\n" for one in lines).encode()
    file.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return draft("log", [read_sample(file)])


def parse(definition: Draft, *lines: str) -> list[dict[str, Any]]:
    """These lines as the stream parses them."""
    result = Parser(definition.stream).parse(
        frame_lines("".join(one + "\n" for one in lines).encode()), time.time_ns() // 1000
    )
    assert result.reasons is None or not any(result.reasons.to_pylist())
    return result.columns.to_pylist()


@pytest.mark.parametrize("name", ["access.log", "access_log", "access.log.1", "access.txt", "access.log.gz"])
def test_an_access_log_in_the_combined_format(tmp_path: Path, name: str) -> None:
    definition = infer(tmp_path, [line(i) for i in range(40)], name)
    assert (definition.stream.format, definition.stream.event_time) == ("text", "at")
    assert (definition.fitting, definition.sampled) == (40, 40)
    assert "FORMAT TEXT" in definition.sql
    wording.check(definition.notes[0])
    (row,) = parse(definition, line(20))
    expected = {
        "value": line(20),
        "host": "10.0.0.20",
        "remote_user": "ann",
        "method": "GET",
        "path": "/page/2",
        "status": 404,
        "bytes": None,
        "referrer": "http://example.com/",
        "agent": "Mozilla/5.0 (X11; Linux \\",
        "at": datetime(2015, 5, 17, 8, 20, 3, tzinfo=UTC),
    }
    assert {name: row[name] for name in expected} == expected
    assert [field.name for field in definition.stream.fields] == list(expected)


def test_an_access_log_in_the_common_format_and_fields_without_values(tmp_path: Path) -> None:
    lines = [line(i, COMMON.replace("{user}", "-")) for i in range(40)]
    definition = infer(tmp_path, lines)
    assert [field.name for field in definition.stream.fields] == [
        "value",
        "host",
        "method",
        "path",
        "status",
        "bytes",
        "at",
    ]
    assert parse(definition, lines[7])[0]["bytes"] == 700
    assert definition.view == "log_by_path"


def test_a_syslog_has_parts_and_the_time_of_arrival(tmp_path: Path) -> None:
    lines = ["Nov  7 09:15:02 web1 sshd[22]: error: bad login", "Nov 17 09:15:02 web2 cron: INFO done"]
    definition = infer(tmp_path, lines, "messages.log")
    assert definition.stream.event_time is None
    rows = parse(definition, "\n".join(lines))
    assert [(row["host"], row["program"], row["level"]) for row in rows] == [
        ("web1", "sshd", "error"),
        ("web2", "cron", "INFO"),
    ]
    assert "'yyyy MMM [ ]d HH:mm:ss')" in " ".join(definition.notes)


@pytest.mark.parametrize("month", ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"])
def test_every_month_of_an_access_log_is_read(tmp_path: Path, month: str) -> None:
    definition = infer(tmp_path, [line(i) for i in range(20)])
    (row,) = parse(definition, line(1).replace("May", month))
    assert row["at"].strftime("%b %d %H:%M") == f"{month} 17 08:01"


def test_a_log_whose_lines_begin_with_a_time(tmp_path: Path) -> None:
    levels = ("INFO", "ERROR", "WARN")
    lines = [f"2024-05-17 10:{i:02}:03,123 {levels[i % 3]} [main] shop: order {i}, done" for i in range(40)]
    definition = infer(tmp_path, lines, "app.log")
    assert [field.name for field in definition.stream.fields] == ["value", "level", "at"]
    assert (definition.stream.event_time, definition.fitting, definition.view) == ("at", 40, "log_by_level")
    (row,) = parse(definition, lines[4])
    assert (row["level"], row["at"]) == ("ERROR", datetime(2024, 5, 17, 10, 4, 3, tzinfo=UTC))
    assert parse(definition, "2024-05-17T10:04:03.5+02:00 x")[0]["at"] == datetime(
        2024, 5, 17, 8, 4, 3, 500_000, tzinfo=UTC
    )


def test_other_lines_are_a_stream_by_arrival_with_notes(tmp_path: Path) -> None:
    definition = infer(tmp_path, ["some words, as text", "and some more"], "notes.txt")
    assert (definition.stream.format, definition.stream.event_time, definition.fitting) == ("text", None, 2)
    assert [field.name for field in definition.stream.fields] == ["value"]
    assert any("host STRING AS split_part(value, ' ', 1)" in note for note in definition.notes)
    wording.check_line(definition.notes)


def test_rows_of_csv_are_not_lines_of_text(tmp_path: Path) -> None:
    for name, text in [
        ("data.txt", "at,n,m\n2024-05-17 10:00:00,1,2\n2024-05-17 10:01:00,2,3\n"),
        ("data", "a|b\n1|x\n2|y\n"),
        ("data.log", "a;b\n1;x\n2;y\n"),
    ]:
        (tmp_path / name).write_text(text)
        assert read_sample(tmp_path / name).layout.format is Format.CSV
    (tmp_path / "rows.txt").write_text("2024-05-17 10:00:00;1;2\n2024-05-17 10:01:00;2;3\n")
    sample = read_sample(tmp_path / "rows.txt", ("at", "n", "m"))
    assert (sample.layout.format, list(sample.rows[0])) == (Format.CSV, ["at", "n", "m"])
