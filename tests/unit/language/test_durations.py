"""Spans of time, read and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import DefinitionError
from headrace.language.durations import LONGEST_MS, format_duration, parse_duration
from tests import wording


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1 minute", 60_000),
        ("90 minutes", 5_400_000),
        ("5m", 300_000),
        ("1h", 3_600_000),
        ("1 day", 86_400_000),
        ("2 weeks", 1_209_600_000),
        ("250ms", 250),
        ("0s", 0),
        ("1.5 hours", 5_400_000),
        ("1 hour 30 minutes", 5_400_000),
        ("1h30m", 5_400_000),
        ("INTERVAL 1 MINUTE", 60_000),
        ("INTERVAL '1' MINUTE", 60_000),
        ("interval '5 minutes'", 300_000),
        ("  10   SECONDS ", 10_000),
    ],
)
def test_common_spellings_are_read(text, ms):
    assert parse_duration(text) == ms


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", ()),
        ("soon", ()),
        ("-5m", ()),
        ("5", ()),
        ("5 fortnights", ("fortnights",)),
        ("1 month", ()),
        ("2 years", ()),
        ("0.5 ms", ()),
        ("200 years", ()),
        ("99999999 days", ("100",)),
    ],
)
def test_other_texts_are_refused_with_a_reason(text, values):
    with pytest.raises(DefinitionError) as e:
        parse_duration(text)
    wording.check(e.value, *values)


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0 seconds"), (1, "1 millisecond"), (60_000, "1 minute"), (5_400_000, "90 minutes"), (86_400_000, "1 day")],
)
def test_durations_are_written_in_the_largest_unit(ms, text):
    assert format_duration(ms) == text


@given(st.integers(0, LONGEST_MS))
def test_a_written_duration_reads_back(ms):
    assert parse_duration(format_duration(ms)) == ms
