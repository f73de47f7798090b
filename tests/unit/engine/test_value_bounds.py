"""Long values: declared keys are limited, keys of views are shortened, and what is shown is cut."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
import structlog

from headrace import logs
from headrace.define.catalog import parse
from headrace.engine.duckdb_views import duckdb_view
from headrace.engine.value_bounds import LONGEST_KEY
from headrace.html import key_value, value
from headrace.parse.event_parser import Parser
from headrace.parse.frames import frame_messages

STREAMS = {
    "table": "CREATE TABLE t (id STRING PRIMARY KEY, other STRING)",
    "events that count once": "CREATE STREAM t (id STRING NOT NULL, other STRING, UNIQUE (id) WITHIN INTERVAL 1 DAY)",
}


@pytest.mark.parametrize("of", STREAMS)
def test_declared_keys_are_limited(of: str) -> None:
    catalog = parse(STREAMS[of])
    stream = catalog.base_streams["t"]
    events = [
        {"id": "é" * count, "other": "x" * (LONGEST_KEY + 1)} for count in (1, LONGEST_KEY // 2, LONGEST_KEY // 2 + 1)
    ]
    frames = frame_messages([json.dumps(event, ensure_ascii=False).encode() for event in events], trim=True)
    reasons = Parser(stream).parse(frames, 1_700_000_000_000_000).reasons
    assert reasons is not None
    assert reasons.to_pylist() == [None, None, "key 'id' is longer than 65,536 bytes"]


def test_long_keys_of_a_view_are_shortened_and_stay_different() -> None:
    catalog = parse(
        "CREATE STREAM s (k STRING, n INT); "
        "CREATE MATERIALIZED VIEW v AS SELECT concat(k, '!') AS key, n, count(*) AS c FROM s GROUP BY concat(k, '!'), n"
    )
    text, number = (key.expression.sql for key in duckdb_view(catalog.streams["s"], catalog.views["v"]).keys)
    long = ["é" * LONGEST_KEY + end for end in "ab"]
    rows = duckdb.execute(f"SELECT {text}, {number} FROM (SELECT unnest(?) AS k, 1 AS n)", [["a", None, *long]])
    keys: list[Any] = [key for key, _ in rows.fetchall()]
    digests = [hashlib.md5(f"{key}!".encode()).hexdigest() for key in long]
    assert keys == ["a!", None, *(f"{'é' * 200}... (131074 bytes, MD5 {digest})" for digest in digests)]


def test_the_page_cuts_long_values() -> None:
    for shown in (value("x" * 5_000), key_value("x" * 5_000), value(["x" * 5_000])):
        assert "x" * 1_001 not in str(shown)
        assert " characters)" in str(shown)


def test_logs_cut_long_values(tmp_path: Path) -> None:
    logs.configure("info", tmp_path / "headrace.log", io.StringIO())
    structlog.get_logger("headrace.test").info("long", error="x" * 100_000)
    (line,) = (tmp_path / "headrace.log").read_text().splitlines()
    assert json.loads(line)["error"].endswith("x… (100,000 characters)")
    assert len(line) < 5_000
