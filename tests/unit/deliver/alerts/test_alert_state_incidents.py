"""The periods of one key."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.deliver.alerts.alert_state import Observation, Periods, observe


def window(at: int, matches: bool, length: int = 1) -> Observation:
    return Observation({"at": at}, matches, 1, 1, at, at + length)


def spans(periods: Periods) -> list[tuple[int, int]]:
    return [(period.since_us, period.until_us) for period in periods]


def test_windows_that_follow_one_another_are_one_period() -> None:
    periods = observe(observe((), window(3, True)), window(5, True))
    assert spans(periods) == [(3, 4), (5, 6)]
    (period,) = observe(periods, window(4, True))
    assert (period.since_us, period.until_us) == (3, 6)
    assert period.row == {"at": 5}  # of the last window


def test_a_window_that_no_longer_matches_divides_a_period() -> None:
    periods: Periods = ()
    for at in range(5):
        periods = observe(periods, window(at, True))
    assert spans(observe(periods, window(2, False))) == [(0, 2), (3, 5)]
    assert spans(observe(periods, window(0, False))) == [(1, 5)]


@given(st.lists(st.tuples(st.integers(0, 12), st.booleans(), st.integers(1, 3))))
def test_periods_are_the_runs_of_the_times_that_match(seen: list[tuple[int, bool, int]]) -> None:
    periods: Periods = ()
    matching: set[int] = set()
    for at, matches, length in seen:
        periods = observe(periods, window(at, matches, length))
        matching = matching | set(range(at, at + length)) if matches else matching - set(range(at, at + length))
        runs = [at for at in sorted(matching) if at - 1 not in matching]
        ends = [at + 1 for at in sorted(matching) if at + 1 not in matching]
        assert spans(periods) == list(zip(runs, ends, strict=True))
