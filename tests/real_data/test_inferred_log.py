"""The definition that is inferred from a real access log reads every line of it."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from headrace.parse.event_parser import Parser
from headrace.parse.frames import frame_lines
from headrace.tools.infer import draft
from headrace.tools.infer.file_sample import read_sample
from tests.real_data.conftest import STATUSES


def test_an_access_log_is_split_into_fields(data: Path) -> None:
    file = data / "access_logs" / "elastic_apache_combined.log"
    definition = draft("access", [read_sample(file)])
    assert (definition.fitting, definition.view) == (10_000, "access_by_status")
    parsed = Parser(definition.stream).parse(frame_lines(file.read_bytes()), time.time_ns() // 1000)
    columns = parsed.columns.select(["host", "status", "bytes", "at"]).to_pydict()
    assert Counter(columns["status"]) == STATUSES
    assert len(set(columns["host"])) == 1753
    assert columns["bytes"].count(None) == 669
    assert (
        f"{min(columns['at']):%Y-%m-%d %H:%M} {max(columns['at']):%Y-%m-%d %H:%M}"
        == "2015-05-17 10:05 2015-05-20 21:05"
    )
