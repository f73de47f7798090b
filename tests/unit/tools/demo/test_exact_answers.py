"""The exact answers, on events small enough to work out by hand."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from headrace.define import catalog
from headrace.tools.demo.exact_answers import RULES, Distinct, Near
from headrace.tools.demo.live_edit import add_column
from headrace.tools.demo.shop_server import shop_definitions
from headrace.tools.demo.traffic import ShopOrder, Visit

MINUTE = 60_000_000
RULE = {rule.view: rule for rule in RULES}


def visit(at_us, visitor="a", page="/", status=200, size=10, load_ms=1.0, referrer=None):
    return Visit(visitor, page, status, size, load_ms, referrer, at_us)


def order(at_us, amount="1.00", quantity=1, visitor="a", category="books", country="DE", gift=None):
    return ShopOrder(
        "o", visitor, category, None if amount is None else Decimal(amount), quantity, country, gift, at_us
    )


def test_there_is_a_rule_for_every_view_with_its_keys_columns_and_window():
    views = catalog.parse(add_column(shop_definitions())).views
    assert set(views) == set(RULE)
    for name, view in views.items():
        rule = RULE[name]
        assert (rule.stream,) == view.streams
        assert list(rule.keys) == [key.name for key in view.keys]
        assert list(rule.columns) == [column.name for column in view.columns]
        window = None if view.window is None else (view.window.size_ms * 1000, view.window.slide_ms * 1000)
        assert window == (None if rule.size_us is None else (rule.size_us, rule.slide_us or rule.size_us))


def test_traffic_counts_by_page_and_minute():
    rows = RULE["traffic"].rows(
        [visit(0), visit(MINUTE - 1, status=500, size=None), visit(MINUTE, load_ms=None), visit(5, page=None)]
    )
    assert rows[(0, "/")] == {"hits": 2, "errors": 1, "bytes": 10, "load_ms": Near(1.0, 1e-9), "slowest": 1.0}
    assert rows[(MINUTE, "/")] == {"hits": 1, "errors": 0, "bytes": 10, "load_ms": None, "slowest": None}
    assert rows[(0, None)]["hits"] == 1
    assert len(rows) == 3


def test_revenue_is_decimal_and_its_mean_is_rounded_half_up():
    rows = RULE["revenue"].rows([order(0, "1.00", 3), order(1, "1.00"), order(2, "0.01"), order(3, None)])
    assert rows[(0, "books")] == {
        "orders": 4,
        "priced": 3,
        "revenue": Decimal("4.01"),
        "mean_amount": Decimal("0.670000"),
        "lowest": Decimal("0.01"),
        "highest": Decimal("1.00"),
    }
    assert RULE["revenue"].rows([order(0, None)])[(0, "books")]["revenue"] is None


def test_a_sliding_window_holds_an_event_five_times():
    rows = RULE["pulse"].rows([visit(7 * MINUTE + 1), visit(7 * MINUTE + 2, visitor="b")])
    assert sorted(start // MINUTE for start, _ in rows) == [3, 4, 5, 6, 7]
    assert all(row == {"hits": 2, "visitors": Distinct(2), "slowest": 1.0} for row in rows.values())


def test_audience_leaves_out_what_was_not_served():
    rows = RULE["audience"].rows([visit(0, page="/checkout"), visit(0, status=404), visit(0, status=None)])
    assert rows == {(0,): {"hits": 1, "visitors": Distinct(1), "at_checkout": Distinct(1)}}


def test_sources_are_lower_case_with_their_outcome():
    rows = RULE["sources"].rows([visit(0, referrer="MÉTÉO"), visit(0, status=503), visit(0, status=None, size=None)])
    assert set(rows) == {(0, "météo", "served"), (0, "direct", "failed"), (0, "direct", "unknown")}
    assert rows[(0, "direct", "unknown")] == {"hits": 1, "sized": 0, "bytes": None}


def test_countries_have_no_window():
    rows = RULE["countries"].rows([order(0, gift=True), order(9 * MINUTE, quantity=2), order(0, "-1.00")])
    assert rows == {
        (None, "DE"): {
            "orders": 2,
            "gifts": 1,
            "items": 3,
            "mean_items": 1.5,
            "revenue": Decimal("3.00"),
            "buyers": Distinct(1),
            "first_order": datetime(1970, 1, 1, tzinfo=UTC),
            "last_order": datetime(1970, 1, 1, 0, 9, tzinfo=UTC),
        }
    }


@pytest.mark.parametrize(("newest", "settled"), [(2 * MINUTE - 1, False), (2 * MINUTE, True)])
def test_a_window_settles_when_the_patience_is_over(newest, settled):
    assert RULE["traffic"].is_settled(0, newest) is settled
