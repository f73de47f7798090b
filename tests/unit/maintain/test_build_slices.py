"""Estimates of builds: from what builds took here, whatever else ran."""

from __future__ import annotations

import pytest

from headrace.maintain.build_slices import KEPT, BuildTimes
from headrace.plan.cost import Costs, ServerLoad, Size, load_now
from tests import wording


@pytest.mark.parametrize("slowdown", [1.0, 4.0])
@pytest.mark.parametrize("beginning_s", [2.0, 20.0])
@pytest.mark.parametrize("events", [1_000, 10_000_000])
def test_the_next_build_is_estimated_from_the_last(slowdown: float, beginning_s: float, events: int) -> None:
    """A machine takes `beginning_s` and 1 µs an event, `slowdown` times as long while others run."""
    clock_s = 0.0
    times = BuildTimes(now=lambda: clock_s, load=lambda: ServerLoad(slowdown))
    assert times.beginning_s is None
    for number in range(KEPT + 2):
        times.begin(("v", number), lambda: events)
        clock_s += slowdown * (beginning_s + events / 1e6)
        times.begin(("v", number), lambda: 0)  # a later slice
        times.serves(("v", number), 1e6)
    for slowdown_now in (1.0, 3.0):
        costs = Costs(lambda stream: Size(events, 1), 1e6, times.beginning_s, ServerLoad(slowdown_now, "others run"))
        cost = costs.of(["visits"])
        assert cost is not None
        assert cost.measured
        assert cost.seconds == pytest.approx(slowdown_now * (beginning_s + events / 1e6), rel=0.01)
        wording.check(cost)


def test_a_version_that_another_process_built_says_nothing() -> None:
    times = BuildTimes()
    times.serves(("v", 1), None)
    times.begin(("v", 2), lambda: 0)
    times.serves(("v", 2), None)
    assert times.beginning_s is None


def test_other_builds_are_named() -> None:
    assert "2 other builds running" in str(load_now(2).busy)
    assert load_now(2).slowdown >= 3
    assert load_now().slowdown >= 1
