"""What statistics and sketches must say of a group, computed from its values; equal to what is near enough."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

TOLERANCE = 1e-9
LARGEST = 1e150
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Rows = list[tuple[Any, ...]]


class Near:
    """Equal to numbers that differ from it by a tolerance at most, and NaN to NaN."""

    def __init__(self, value: float, tolerance: float) -> None:
        self.value, self.tolerance = value, tolerance

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, float):
            return False
        return abs(other - self.value) <= self.tolerance or (math.isnan(other) and math.isnan(self.value))

    def __repr__(self) -> str:
        return f"{self.value!r} ± {self.tolerance}"

    __hash__ = None  # type: ignore[assignment]


def _pairs(rows: Rows) -> list[tuple[float, ...]]:
    return [tuple(map(float, row)) for row in rows if None not in row]


def _moments(pairs: list[tuple[float, ...]]) -> dict[str, Fraction]:
    """Means, and sums of products of the deviations from them, without rounding."""
    columns = [[Fraction(value) for value in column] for column in zip(*pairs, strict=True)]
    means = [sum(column) / len(column) for column in columns]
    deviations = [[value - mean for value in column] for column, mean in zip(columns, means, strict=True)]
    x, y = deviations[0], deviations[-1]
    sums = {"xx": (x, x), "yy": (y, y), "xy": (x, y)}
    moments = {name: sum((p * q for p, q in zip(*both, strict=True)), Fraction(0)) for name, both in sums.items()}
    return moments | {"mean_x": Fraction(means[0]), "mean_y": Fraction(means[-1])}


def _statistic(rows: Rows, result: str, sample: bool) -> Any:
    pairs = _pairs(rows)
    if len(pairs) <= sample:
        return None
    if any(not abs(value) <= LARGEST for pair in pairs for value in pair):
        return Near(math.nan, 0.0)
    of, n = _moments(pairs), len(pairs)
    rms = {x: math.sqrt(of[x + x] / n + of[f"mean_{x}"] ** 2) for x in "xy"}
    spread = {x: math.sqrt(of[x + x] / n) for x in "xy"}
    if result == "corr":
        if not of["xx"] or not of["yy"]:
            return None
        value = float(of["xy"] / n) / (spread["x"] * spread["y"])
        return Near(value, 4 * TOLERANCE * (rms["x"] / spread["x"] + rms["y"] / spread["y"]))
    if result == "covar":
        tolerance = 2 * TOLERANCE * (spread["x"] * rms["y"] + spread["y"] * rms["x"] + TOLERANCE * rms["x"] * rms["y"])
        return Near(float(of["xy"] / (n - sample)), 2 * tolerance)
    variance = float(of["xx"] / (n - sample))
    if result == "stddev":
        return Near(math.sqrt(variance), 2 * TOLERANCE * rms["x"])
    return Near(variance, 4 * TOLERANCE * rms["x"] * (spread["x"] + TOLERANCE * rms["x"]))


def _percentile(rows: Rows, percentage: Any, accuracy: int = 100) -> Any:
    """Of groups that are smaller than any sketch, by the nearest rank; values are kept as DOUBLE."""
    values = sorted(row[0] for row in rows if row[0] is not None)
    if not values:
        return None

    def at(share: float) -> Any:
        return _as_double(values[max(0, math.ceil(share * len(values) - 1e-9) - 1)])

    return [at(share) for share in percentage] if isinstance(percentage, tuple) else at(percentage)


def _as_double(value: Any) -> Any:
    match value:
        case Decimal():
            return Decimal(float(value)).quantize(Decimal("0.01"), ROUND_HALF_UP)
        case int():
            return min(round(float(value)), 2**63 - 1)
    return value


def _top(rows: Rows, k: int, tracked: int = 1000) -> Any:
    counts = Counter(_same_nan(row[0]) for row in rows if row[0] is not None)
    items = sorted(counts.items(), key=lambda pair: (-pair[1], _rank(pair[0])))[:k]
    return [{"item": item, "count": count} for item, count in items] or None


NAN = math.nan


def _same_nan(value: Any) -> Any:
    return NAN if value != value else value


def _rank(value: Any) -> Any:
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    if isinstance(value, datetime):
        return (value - EPOCH) / timedelta(microseconds=1)
    return value.toordinal() if isinstance(value, date) else value


# From the arguments of a group's events, and the parameters.
NEAR: dict[str, Callable[..., Any]] = {
    "stddev": lambda rows: _statistic(rows, "stddev", True),
    "stddev_samp": lambda rows: _statistic(rows, "stddev", True),
    "stddev_pop": lambda rows: _statistic(rows, "stddev", False),
    "variance": lambda rows: _statistic(rows, "variance", True),
    "var_samp": lambda rows: _statistic(rows, "variance", True),
    "var_pop": lambda rows: _statistic(rows, "variance", False),
    "covar_samp": lambda rows: _statistic(rows, "covar", True),
    "covar_pop": lambda rows: _statistic(rows, "covar", False),
    "corr": lambda rows: _statistic(rows, "corr", True),
    "approx_percentile": _percentile,
    "approx_top_k": _top,
    "unique": lambda rows: len({row[0] for row in rows if row[0] is not None}),
}
