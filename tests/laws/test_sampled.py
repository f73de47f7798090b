"""Counts and sums of samples: right on average, and the stated 95 % bound holds for about 95 of 100 samples."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from headrace.aggregate import Aggregate
from headrace.aggregate.numeric import Avg, Count, CountIf, Sum
from headrace.aggregate.sampled import SampledCount, SampledSum, Scaling, scale
from headrace.define.fingerprint import from_json, to_json
from headrace.define.model import Column, View
from headrace.define.relation import Branch, Relation, SampleRows
from headrace.define.sampling import duckdb_condition
from headrace.language.terms import Expression
from headrace.types import BIGINT, BOOLEAN, DOUBLE, INT, decimal
from tests import wording

SEEDS = 250
GROUPS = {"large": 20_000, "middle": 2_000, "small": 200, "tiny": 30}
PRICE, DURATION = decimal(12, 2), BIGINT


@pytest.fixture(scope="module")
def events() -> Iterator[Any]:
    """Groups of different sizes, with durations of a long tail and prices that may be negative."""
    connection = duckdb.connect(config={"threads": 1})
    parts = [f"SELECT '{name}' AS name FROM range({size})" for name, size in GROUPS.items()]
    connection.execute(
        f"CREATE TABLE events AS SELECT row_number() OVER () AS _position, name, "
        f"CAST(exp(2 + 1.2 * sqrt(-2 * ln((hash(rowid + 1) % 9973 + 1) / 9974.0)) "
        f"* cos((hash(rowid * 7) % 997) / 158)) AS BIGINT) AS duration, "
        f"CAST((hash(rowid * 3) % 100000) / 100.0 - 200 AS DECIMAL(12,2)) AS price "
        f"FROM (SELECT row_number() OVER () AS rowid, name FROM ({' UNION ALL '.join(parts)}))"
    )
    yield connection
    connection.close()


def values_of(events: Any, aggregate: Aggregate, condition: str = "true") -> dict[str, tuple[Any, ...]]:
    columns = ", ".join(aggregate.duckdb_sql("0", "_position"))
    rows = events.sql(f"SELECT name, {columns} FROM events WHERE {condition} GROUP BY name").fetchall()
    return {row[0]: row[1:] for row in rows}


@pytest.mark.parametrize(
    "aggregate",
    [
        Count(),
        CountIf((Expression.stored("duration > 5", BOOLEAN),)),
        Sum((Expression.field("price", PRICE),)),
        Sum((Expression.field("duration", DURATION),)),
        Sum((Expression.stored("CAST(duration AS DOUBLE)", DOUBLE),)),
    ],
    ids=lambda aggregate: aggregate.sql,
)
@pytest.mark.parametrize("percent", [10.0, 33.0])
def test_the_stated_bound_holds_for_about_95_of_100_samples(events: Any, aggregate: Aggregate, percent: float) -> None:
    sampled = scale(aggregate, Scaling(percent, "a sample"))
    true = {name: float(aggregate.present(partial)) for name, partial in values_of(events, aggregate).items()}
    held: dict[str, list[bool]] = {name: [] for name in GROUPS}
    totals: dict[str, float] = dict.fromkeys(GROUPS, 0.0)
    for seed in range(SEEDS):
        partials = values_of(events, sampled, duckdb_condition(SampleRows(percent, seed), "clicks", ()))
        for name in GROUPS:
            if name not in partials:
                continue  # no event of the group was chosen: the answer has no row of it
            value, bound = sampled.present(partials[name]), sampled.bound(partials[name])
            if value is None or bound is None:  # none of its events has a value
                continue
            held[name].append(abs(float(value) - true[name]) <= bound)
            totals[name] += float(value)
    share = {name: sum(each) / len(each) for name, each in held.items()}
    assert 0.91 <= share["large"] <= 0.99
    assert 0.91 <= share["middle"] <= 0.995
    # Sums of few values with a long tail miss their largest ones more often than a normal distribution says.
    assert share["small"] >= (0.8 if "duration" in aggregate.sql else 0.91)
    assert totals["large"] / len(held["large"]) == pytest.approx(true["large"], rel=0.01)
    assert share["tiny"] >= 0.7


def test_decimals_stay_decimals_and_integers_integers() -> None:
    third = Scaling(33.0, "a sample of 33 %")
    price = scale(Sum((Expression.field("price", PRICE),)), third)
    assert (price.present((Decimal("10.00"), 3, 50.0)), price.type) == (Decimal("30.30"), decimal(38, 2))
    count = scale(Sum((Expression.field("n", INT),)), third)
    assert (count.present((Decimal(10), 3, 50.0)), count.narrow_type) == (30, BIGINT)
    assert scale(Count(), third).present((10,)) == 30
    assert price.present(price.zero) is None
    wide = scale(Sum((Expression.field("x", decimal(38, 0)),)), Scaling(1.0, "a sample of 1 %"))
    assert wide.present((Decimal(5), 1, Decimal(10**17), 1.0)) is None  # it does not fit: NULL, as in Spark


def test_what_cannot_be_scaled_stays_what_it_is() -> None:
    mean = Avg((Expression.field("price", PRICE),))
    assert scale(mean, Scaling(10.0, "a sample of 10 %")) is mean


def test_no_bound_is_stated_where_events_were_chosen_together() -> None:
    by_key = Scaling(10.0, "a sample of 10 % of the values of user_id", bounded=False)
    count = scale(Count(), by_key)
    assert (count.present((7,)), count.bound((7,))) == (70, None)
    wording.check(count.approximate, 10, "user_id")


@pytest.mark.parametrize("of", [INT, BIGINT, DOUBLE, PRICE, decimal(38, 4)])
def test_partials_of_any_split_merge_to_one(of: Any) -> None:
    sum_ = scale(Sum((Expression.field("x", of),)), Scaling(10.0, "a sample"))
    numbers = [3, -4, 5, None, 12]
    values = [None if n is None else float(n) if of == DOUBLE else Decimal(n) for n in numbers]
    lifted = [sum_.lift(value) for value in values]
    merged = [sum_.zero, sum_.zero]
    for at, partial in enumerate(lifted):
        merged[at % 2] = sum_.merge(merged[at % 2], partial)
    total = sum_.merge(*merged)
    assert (sum_.present(total), total[-1]) == (160, 194.0)
    assert sum_.agrees(total, sum_.merge(*reversed(merged)))
    assert not sum_.agrees(total, merged[0])


def test_a_view_of_a_sample_scales_also_when_it_is_read_back() -> None:
    relation = Relation((Branch("clicks", (("x", BIGINT),), (SampleRows(10.0),)),), (("x", BIGINT),), None)
    columns = (Column("n", Count()), Column("total", Sum((Expression.field("x", BIGINT),))))
    view = View("v", ("clicks",), (), columns, relation=relation)
    assert [type(column.aggregate) for column in view.columns] == [SampledCount, SampledSum]
    assert from_json(to_json(view)) == view
