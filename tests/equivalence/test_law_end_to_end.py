"""The law, end to end: batch only = speed only = merged at any horizon = the plain-Python reference.

A case is a view over a stream with a schedule of its own: when it is created (before the first event, or over history),
when its horizon moves on, how it is edited and rolled back, and how much of the batch layer's work is done before more
events come. Twenty cases share a stream: its events (late, NULL, repeated, hot, out of order), their split into
commits, and the moments at which files are compacted. Each case is compared with the reference after each of its moves,
by a question drawn at random, and at the end its three ways to an answer with each other, by each aggregate's `agrees`.

`make test` tries twelve cases of one stream, `make test-full` HEADRACE_LAW_STREAMS = 50 streams: 1,000 cases.
HEADRACE_LAW = 7/v3 tries one case alone.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from .timeline import Timeline

STREAMS = int(os.environ.get("HEADRACE_LAW_STREAMS", "0"))
VIEWS = [f"v{number}" for number in range(20 if STREAMS else 12)]
ALONE = os.environ.get("HEADRACE_LAW", "")


@pytest.mark.parametrize("seed", [int(ALONE.split("/")[0])] if ALONE else range(STREAMS or 1))
def test_any_schedule_gives_one_answer(spark: Any, tmp_path: Path, seed: int) -> None:
    timeline = Timeline(spark, tmp_path, seed, ALONE.split("/")[1:] or VIEWS)
    try:
        timeline.run()
        assert all(case.answers for case in timeline.cases)
    finally:
        timeline.close()
