"""The latency of a view: the age of the oldest event of each step, when the step is done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.define.catalog import parse
from headrace.server.latency import Latencies
from headrace.store.version import Base, Version
from headrace.transport.position import Position

STREAM = "CREATE STREAM s (id BIGINT, at TIMESTAMP);"
VIEW = parse(STREAM + "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM s GROUP BY id;").views["v"]
AGES_MS = {0: 300, 50: 40, 80: 7}  # of the oldest event from this offset on


def at(offset: int | None, state: str = "serving") -> Version:
    base = Base("s", position=None if offset is None else Position.at(offset))
    return Version(VIEW, 1, "", state, (base,))  # type: ignore[arg-type]


def test_the_oldest_event_of_each_step_counts_once() -> None:
    latencies = Latencies("s", lambda position: AGES_MS[position.offset()])
    for version in (at(0), at(0), at(50), at(50), at(80)):
        latencies.note([version])
    below, total_s = latencies.times()["v"].read()
    assert dict(below)[float("inf")] == 2
    assert total_s == pytest.approx(0.34)


def test_steps_from_unknown_positions_and_of_other_versions_do_not_count() -> None:
    latencies = Latencies("s", lambda position: AGES_MS[position.offset()])
    for versions in ([at(None)], [at(50)], [at(50), replace(at(80, "building"), number=2)], [at(None)], [at(80)]):
        latencies.note(versions)
    assert latencies.times()["v"].read()[1] == 0
    latencies.note([])
    assert not latencies.times()
