"""Numbers and durations as text."""

from __future__ import annotations

from decimal import Decimal

import pytest

from headrace.format import DAY_MS, HOUR_MS, YEAR_MS, digits, plural, span


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "–"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (119_000, "119.0 s"),
        (90 * 60_000, "90 min"),
        (30 * HOUR_MS, "30.0 h"),
        (2 * DAY_MS, "2.0 days"),
        (400 * DAY_MS, "400.0 days"),
        (100_751.1 * HOUR_MS, "11.5 years"),
        (2_026 * YEAR_MS, "2,026.0 years"),
        (-5_000, "-5.0 s"),
    ],
)
def test_spans_are_in_units_that_fit(ms: float | None, text: str) -> None:
    assert span(ms) == text


def test_nouns_are_singular_or_plural() -> None:
    assert [plural(n, "event") for n in (0, 1, 2, 1234)] == ["0 events", "1 event", "2 events", "1,234 events"]


def test_digits_have_no_separators() -> None:
    assert [digits(n) for n in (2026, -12345, Decimal("1234.50"), 1234.5)] == ["2026", "-12345", "1234.50", "1234.5"]
