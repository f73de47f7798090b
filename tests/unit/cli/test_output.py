"""Values as commands show them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from headrace.cli.output import cell, version_of
from tests import wording


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime(1, 1, 2, tzinfo=UTC), "0001-01-02 00:00:00"),
        (datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), "9999-12-31 23:59:59.999999"),
        (datetime(2026, 3, 1, 12, tzinfo=timezone(timedelta(hours=2))), "2026-03-01 10:00:00"),
    ],
)
def test_times_are_shown_in_utc_with_a_year_of_four_digits(value: datetime, text: str) -> None:
    assert cell(value) == text


def test_the_version_of_a_table_is_the_last_commit_of_its_log() -> None:
    wording.check(version_of("traffic", 2, {"visits": 1_200}), "1,200")
    assert version_of("users", 1, {"users": 1_200}) == "version 1,200"
