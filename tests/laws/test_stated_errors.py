"""Sketches hold the error that they state, on five distributions, as one sketch and merged from many."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.aggregate import REGISTRY, Aggregate, Partial
from headrace.aggregate.kernels import murmur, second_spark_hash, spark_hash, spark_hashes
from headrace.aggregate.unique_counts import ABSENT, FORMAT, KEPT, LIMIT, SETS
from headrace.language.terms import Expression
from headrace.types import BIGINT, DOUBLE, STRING

COUNT, PARTS = 60_000, 37
CHANCE = np.random.default_rng(15)
DISTRIBUTIONS = {
    "uniform": CHANCE.integers(0, 1_000_000, COUNT),
    "zipf": np.minimum(CHANCE.zipf(1.2, COUNT), 10**9),
    "constant": np.full(COUNT, 7),
    "few values": CHANCE.integers(0, 5, COUNT),
    "heavy ties": np.where(CHANCE.random(COUNT) < 0.6, 42, CHANCE.integers(0, 100_000, COUNT)),
}
EVERY = pytest.mark.parametrize("values", DISTRIBUTIONS.values(), ids=DISTRIBUTIONS)
SPLITS = pytest.mark.parametrize("parts", [1, PARTS])
SHARES = (0.01, 0.25, 0.5, 0.9, 0.99)


def sketch(aggregate: Aggregate, values: Any, parts: int) -> Partial:
    """A partial of the values, cut into so many parts that are merged."""
    of = {"DOUBLE": pa.float64(), "STRING": pa.string()}.get(aggregate.lifts[0].of.name, pa.int64())
    lists = []
    for part in np.array_split(values, parts):
        if aggregate.prepares is not None:
            lists.append(spark_hashes(pa.array(part, pa.int64()), BIGINT).to_pylist())
        else:
            lists.append(pa.array(part).cast(of).to_pylist())
    partials = aggregate.lifts[0].run(pa.array(lists, pa.list_(of))).to_pylist()
    rest = [ABSENT] * (len(aggregate.columns) - 1)  # what only the batch layer fills
    return reduce(aggregate.merge, ((partial, *rest) for partial in partials))


def sets_of(values: Any, parts: int) -> list[bytes]:
    """The sets of the values, cut into so many parts, as the batch layer has them."""
    sets = []
    for part in np.array_split(values, parts):
        hashes = [of for value in part.tolist() for of in (spark_hash(value, BIGINT), second_spark_hash(value, BIGINT))]
        halves = np.unique(murmur(np.array(hashes, dtype=np.int64))[0] >> np.uint64(1))
        sets.append(FORMAT.to_bytes(8, "little") + len(halves).to_bytes(8, "little") + halves.tobytes())
    return sets


@EVERY
@SPLITS
@pytest.mark.parametrize("accuracy", [20, 100, 1000])
def test_percentiles_are_within_one_over_accuracy_by_rank(values: Any, parts: int, accuracy: int) -> None:
    aggregate = REGISTRY["approx_percentile"]((Expression.field("x", DOUBLE),), None, (SHARES, accuracy))
    ordered = np.sort(values)
    for share, value in zip(SHARES, aggregate.present(sketch(aggregate, values, parts)), strict=True):
        below, up_to = (np.searchsorted(ordered, value, side) / COUNT for side in ("left", "right"))
        assert below - 1 / accuracy <= share <= up_to + 1 / accuracy


@EVERY
@SPLITS
@pytest.mark.parametrize("tracked", [50, 1000])
def test_counts_of_frequent_values_are_within_the_stated_share(values: Any, parts: int, tracked: int) -> None:
    aggregate = REGISTRY["approx_top_k"]((Expression.field("x", STRING),), None, (10, tracked))
    counts = Counter(map(str, values.tolist()))
    top = aggregate.present(sketch(aggregate, values, parts))
    error = 0 if len(counts) <= 1.5 * tracked else 2.7 / tracked * COUNT
    for item in top:
        assert counts[item["item"]] <= item["count"] <= counts[item["item"]] + error
    assert [-item["count"] for item in top] == sorted(-item["count"] for item in top)
    tenth = sorted(counts.values(), reverse=True)[:10][-1]
    certain = {text for text, count in counts.items() if count > error + tenth}
    assert certain <= {item["item"] for item in top}


@EVERY
@SPLITS
@pytest.mark.parametrize(("name", "exact", "error"), [("approx_count_distinct", 200, 0.033), ("unique", 4096, 0.032)])
def test_distinct_counts_are_within_their_error(values: Any, parts: int, name: str, exact: int, error: float) -> None:
    aggregate = REGISTRY[name]((Expression.field("x", BIGINT),))
    count, partial = len(set(values.tolist())), sketch(aggregate, values, parts)
    assert abs(aggregate.present(partial) - count) <= (0 if count <= exact else error * count)
    assert aggregate.agrees(partial, sketch(aggregate, values[::-1], 2))


def test_unique_counts_exactly_to_its_limit_and_tells_where_it_does_not() -> None:
    aggregate = REGISTRY["unique"]((Expression.field("x", BIGINT),))
    for count in (1, 2, 4095, 4096):
        partial = sketch(aggregate, np.repeat(np.arange(count), 3), 3)
        assert (aggregate.present(partial), aggregate.is_exact(partial)) == (count, True)
    for count in (4097, 4200):
        assert not aggregate.is_exact(sketch(aggregate, np.arange(count), 3))


@EVERY
@SPLITS
def test_unique_is_exact_where_all_parts_come_from_the_batch_layer(values: Any, parts: int) -> None:
    aggregate = REGISTRY["unique"]((Expression.field("x", BIGINT),))
    by_speed, count = sketch(aggregate, values, parts), len(set(values.tolist()))
    by_batch = (by_speed[0], reduce(SETS.pair, sets_of(values, parts)))
    assert (aggregate.present(by_batch), aggregate.is_exact(by_batch)) == (count, True)
    assert by_batch[1] == SETS.merge(sets_of(values[::-1], 3))
    assert aggregate.agrees(by_batch, by_speed)
    mixed = aggregate.merge(by_batch, by_speed)
    assert aggregate.present(mixed) == aggregate.present(by_speed)
    assert aggregate.is_exact(mixed) == (count <= KEPT)
    if count > 1:
        assert not aggregate.agrees((by_batch[0], sets_of(values[:1], 1)[0]), by_speed)


def test_a_set_beyond_its_limit_is_absent_and_stays_so() -> None:
    half = 2 * LIMIT // 2 + 1  # hashes
    sets = [
        FORMAT.to_bytes(8, "little")
        + half.to_bytes(8, "little")
        + np.arange(start, start + half, dtype="<u8").tobytes()
        for start in (1, 1 + half)
    ]
    assert len(SETS.merge([sets[0], sets[0]])) == 16 + 8 * half
    assert SETS.merge(sets) == SETS.merge([ABSENT, sets[0]]) == SETS.pair(sets[0], ABSENT) == ABSENT
    lists = pa.array([[sets[0]], [sets[0], ABSENT], [ABSENT], sets], pa.list_(pa.binary()))
    assert SETS.lists is not None
    assert SETS.lists(lists).to_pylist() == [sets[0], ABSENT, ABSENT, ABSENT]
    assert SETS.lists(lists.slice(1, 2)).to_pylist() == [ABSENT, ABSENT]
