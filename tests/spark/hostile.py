"""Values at the limits of their types, and expressions over them, to compare engines with Spark."""

# ruff: noqa: E501 - one case per line

from __future__ import annotations

import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.types import arrow_type

from .expressions import COMPUTED, SAMPLES

ROWS = 300
MORE: dict[str, list[Any]] = {
    "text": ["straße", "İstanbul", "ὈΔΥΣΣΕΎΣ", "ǅ", "🦆 duck", "e\u0301", "a\u200db", "\u00a0x\u00a0", "日本語", "x" * 300, "'", '"', "\\",
             "+7", "1e400", "0x1F", "1.5e3", "-0", ".5", "5.", "1,000", "NaN", "Infinity", "TRUE", "t", "\t12\n", "%l_o%", "2024", "2024-02",
             "0001-01-01", "9999-12-31", "12024-01-01", "23:59", "2147483648", "9223372036854775808", "0.05", "-0.05", "0.15"],
    "n": [-2147483648, 2147483646, 1000, -8],
    "big": [-(2**63), 2**63 - 1, 2**53 + 1, -(2**31) - 1, 2**31, 253402300799000, 253402300800000, -62135596800000],
    "x": [float("nan"), float("inf"), float("-inf"), -0.0, 5e-324, 1.7976931348623157e308, 0.1, 0.30000000000000004, 2.0**53 + 2, 9.2e18, 1e19,
          -2147483648.9, 2147483647.5, 0.5, 1.5, -1.5, 1.005],
    "price": ["-99999999.99", "0.01", "-0.01", "0.05", "0.50", "1.50"],
    "yes": [],
    "day": ["0001-01-01", "9999-12-31", "1582-10-10", "2000-02-29", "2024-12-30"],
    "time": ["0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "1582-10-10 12:00:00", "2024-12-30 01:02:03.000001"],
}  # fmt: skip
EXPRESSIONS = [
    *COMPUTED,
    "n + n", "n * n", "n - 2147483647", "big + 1", "big * 2", "big - n", "-big", "abs(n)", "abs(big)", "n DIV -1", "big DIV n", "big % n",
    "CAST(big AS INT)", "CAST(x AS INT)", "CAST(x AS BIGINT)", "CAST(price AS BIGINT)", "CAST(big AS DOUBLE)", "CAST(price AS DOUBLE)",
    "x + 0.1", "x * x", "x / 3", "x % 3", "x = x", "x > 1", "x <> 0.1", "x < price", "x IN (0.1, 1.5)", "x BETWEEN 0 AND 2",
    "price * price", "price + x", "price - 100000000", "price % 3", "price > 0.5", "price = 1.5", "greatest(x, 1)", "least(x, n)",
    "coalesce(x, n)", "coalesce(price, n)", "CASE WHEN x > 0 THEN n ELSE big END", "n > x", "big = x", "big > price", "ceil(x * 10)",
    "floor(x)", "floor(big)", "floor(x) + n", "coalesce(floor(x), price)", "ceil(big)",
    "length(upper(text))", "lower(text) = 'abc'", "text LIKE '%\\\\%'", "text < 'b'", "greatest(text, 'm')", "concat(text, n)",
    "substring(text, 1, 1)", "left(text, 1)", "right(text, 1)", "instr(text, 'a')", "reverse(text)", "md5(concat(text, text))",
    "CAST(day AS STRING)", "CAST(time AS STRING)", "CAST(price AS STRING)", "CAST(yes AS STRING)", "time + INTERVAL 1 DAY",
    "date_trunc('week', time)", "unix_seconds(time) % 60", "year(time) * 100 + month(time)", "hour(time) >= 22", "time < '2024-01-01'",
]  # fmt: skip


def hostile_rows() -> pa.Table:
    chance = random.Random(5)
    columns = {}
    for name, (of, values) in SAMPLES.items():
        every = [value for value in [*values, *MORE[name]] if value is not None] + [None]
        drawn = [every[at] if at < len(every) else chance.choice(every) for at in range(ROWS)]
        chance.shuffle(drawn)
        columns[name] = pa.array([_typed(value, of.name) for value in drawn], arrow_type(of))
    return pa.table(columns)


def _typed(value: Any, name: str) -> Any:
    if value is None:
        return None
    match name:
        case "DECIMAL":
            return Decimal(value)
        case "DATE":
            return date.fromisoformat(value)
        case "TIMESTAMP":
            return datetime.fromisoformat(value).replace(tzinfo=UTC)
    return value
