"""The comparison finds every kind of wrong row."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from headrace.tools.demo.exact_answers import RULES, Distinct, Near
from headrace.tools.demo.final_check import compare

RULE = {rule.view: rule for rule in RULES}
MINUTE = 60_000_000
ROW = {
    "page": "/",
    "window_start": "1970-01-01T00:00:00Z",
    "window_end": "1970-01-01T00:01:00Z",
    "hits": 2,
    "errors": 1,
    "bytes": 10,
    "load_ms": 1.0,
    "settled": True,
}
EXPECTED = {(0, "/"): {"hits": 2, "errors": 1, "bytes": 10, "load_ms": Near(1.0, 1e-9)}}


def compared(*rows, newest_us=10 * MINUTE):
    return compare(RULE["traffic"], EXPECTED, rows, newest_us)


def test_an_equal_row_has_no_difference():
    result = compared(ROW)
    assert result.ok
    assert (result.rows, result.cells) == (1, 4)


@pytest.mark.parametrize(
    ("rows", "difference"),
    [
        ([], "view 'traffic' page='/' at 1970-01-01T00:00:00Z is missing"),
        ([ROW, ROW], "view 'traffic' page='/' at 1970-01-01T00:00:00Z was served twice"),
        ([ROW, {**ROW, "page": None}], "view 'traffic' page=None at 1970-01-01T00:00:00Z was served but has no events"),
        ([{**ROW, "hits": 3}], "view 'traffic' page='/' at 1970-01-01T00:00:00Z, hits: served 3, exact 2"),
        ([{**ROW, "hits": 2.0}], "view 'traffic' page='/' at 1970-01-01T00:00:00Z, hits: served 2.0, exact 2"),
        ([{**ROW, "load_ms": 1.1}], "view 'traffic' page='/' at 1970-01-01T00:00:00Z, load_ms: served 1.1, exact 1.0"),
        (
            [{**ROW, "load_ms": None}],
            "view 'traffic' page='/' at 1970-01-01T00:00:00Z, load_ms: served None, exact 1.0",
        ),
        ([{**ROW, "settled": False}], "view 'traffic' page='/' at 1970-01-01T00:00:00Z: settled is False"),
        (
            [{**ROW, "window_end": "1970-01-01T00:02:00Z"}],
            "view 'traffic' page='/' at 1970-01-01T00:00:00Z: window_end is '1970-01-01T00:02:00Z'",
        ),
    ],
)
def test_each_difference_is_a_sentence(rows, difference):
    result = compared(*rows)
    assert not result.ok
    assert result.first == [difference]


def test_a_column_that_is_not_served_is_a_difference():
    row = {name: value for name, value in ROW.items() if name != "bytes"}
    assert compared(row).first == ["view 'traffic' page='/' at 1970-01-01T00:00:00Z has no column 'bytes'"]


def test_decimals_are_text_and_times_are_utc():
    rule = RULE["countries"]
    moment = datetime(2025, 11, 28, 9, 0, 1, 5000, tzinfo=UTC)
    expected = {(None, "DE"): {"revenue": Decimal("3.10"), "first_order": moment}}
    row = {"country": "DE", "window_start": None, "revenue": "3.10", "first_order": "2025-11-28T09:00:01.005Z"}
    assert compare(rule, expected, [row], 0).ok
    assert not compare(rule, expected, [{**row, "revenue": 3.1}], 0).ok
    assert not compare(rule, expected, [{**row, "first_order": "2025-11-28T09:00:01.005"}], 0).ok


@pytest.mark.parametrize(
    ("exact", "served", "ok", "within"),
    [
        (100, 100, 1, 1),
        (100, 101, 0, 1),
        (1_000, 1_030, 1, 1),
        (1_000, 1_050, 1, 0),
        (1_000, 1_070, 0, 0),
        (5, None, 0, 0),
    ],
)
def test_estimates_may_differ_by_their_stated_error(exact, served, ok, within):
    rule = RULE["audience"]
    row = {**ROW, "window_end": "1970-01-01T00:10:00Z", "settled": False, "visitors": served}
    result = compare(rule, {(0,): {"visitors": Distinct(exact)}}, [row], 0)
    assert (result.ok, result.within_stated, result.estimates) == (bool(ok), within, 1)
