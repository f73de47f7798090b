"""Expressions over aggregates, and rows to compute them over: with sums of many digits."""

# ruff: noqa: E501 - one case per line

from __future__ import annotations

import random
from decimal import Decimal

import pyarrow as pa

from headrace.aggregate.merges import EXACT
from headrace.types import arrow_type, decimal

from .hostile import hostile_rows

WIDE = {"total": decimal(38, 6), "ratio": decimal(20, 18), "cents": decimal(22, 2)}
MORE = [
    "round(x)", "round(x, 2)", "round(x, -1)", "round(n, -2)", "round(big, -3)", "round(price, 1)", "round(price)", "round(price, -1)",
    "round(total, 2)", "round(ratio, 5)", "sign(x)", "sign(n)", "sign(price)", "pmod(n, 4)", "pmod(n, -4)", "pmod(x, 3)", "pmod(price, 7)",
    "mod(price, n)", "sqrt(x)", "sqrt(n)", "cbrt(x)", "pow(x, 2)", "pow(x, 0.5)", "pow(n, 3)", "exp(n)", "ln(x)", "ln(n)", "log(2, x)",
    "log(n, x)", "log2(n)", "log10(x)", "sin(x)", "cos(x)", "tan(n)", "asin(x)", "acos(x)", "atan(x)", "atan2(x, n)", "radians(x)", "degrees(x)",
    "width_bucket(x, 0, 10, 5)", "width_bucket(n, 10, 0, 5)", "ceil(total)", "floor(total)", "ceil(ratio)", "abs(x)", "abs(cents)",
    "concat_ws('-', text, CAST(n AS STRING))", "instr(text, 'l')", "lpad(text, 8, 'ab')", "rpad(text, 3)", "lpad(text, 5, '')", "reverse(text)",
    "translate(text, 'lo', 'x')", "ascii(text)", "nanvl(x, 1.5D)", "unix_timestamp(time)", "weekday(time)", "weekday(day)",
    "date_add(day, n)", "date_sub(day, 40)", "date_add(time, 1)", "datediff(time, day)", "add_months(day, 1)", "add_months(day, -13)", "last_day(time)",
    "sha1(text)", "sha2(text, 256)", "crc32(text)", "array_contains(words, 'a')", "array_max(words)", "array_min(words)", "TRY_CAST(x AS INT)",
    "TRY_CAST(big AS INT)", "TRY_CAST(price AS INT)", "CAST(x AS STRING)", "CAST(big AS DECIMAL(10,2))", "CAST(x AS DECIMAL(20,3))", "CAST(total AS DOUBLE)",
    "CAST(ratio AS STRING)", "CAST(total AS STRING)", "CAST(total AS BIGINT)", "price / 3", "price / n", "price / price", "total / big", "total / cents",
    "100.0 * n / big", "cents / n", "ratio / cents", "total * ratio", "cents * cents", "total + cents", "total - ratio", "cents % ratio", "total DIV cents",
    "price DIV n", "price DIV 0", "x / price", "n / price", "total = cents", "total > x", "cents IN (1, 2.5, NULL)", "n NOT IN (1, NULL)", "x NOT BETWEEN n AND 3",
    "greatest(n, x, price)", "least(total, cents)", "coalesce(cents, 0)", "coalesce(NULL, n, 2.5)", "nullif(x, 1.5)", "nullif(n, price)", "if(x > 1, n, price)",
    "nvl2(n, price, 0)", "CASE WHEN x > 1 THEN n WHEN yes THEN price ELSE 0.5 END", "-price", "-(n)", "x = 0 OR n / 0 > 1", "NOT (n > 1 AND x < 2)", "yes = FALSE",
    "price <=> NULL", "x <=> x", "n IS NOT NULL AND NOT yes", "date_trunc('quarter', day)", "hour(day)", "second(time)", "to_date(time) = day", "time = day",
    "concat(text, CAST(price AS STRING))", "CAST(day AS STRING) || text", "lower(text) LIKE '%o%'", "initcap(text)", "element_at(words, -2)", "words[1]",
]  # fmt: skip


def rows() -> pa.Table:
    table, chance = hostile_rows(), random.Random(7)
    for name, of in WIDE.items():
        lengths = (0, 1, of.scale, min(of.scale + 3, of.precision), of.precision // 2, of.precision)
        limits = [10 ** chance.choice(lengths) for _ in range(len(table))]
        values = [EXACT.scaleb(Decimal(chance.randrange(1 - limit, limit)), -of.scale) for limit in limits]
        values = [None if chance.random() < 0.1 else value for value in values]
        table = table.append_column(name, pa.array(values, arrow_type(of)))
    return table


def drawn(chance: random.Random, depth: int) -> str:
    """A random expression over numbers, without a promise that it is valid."""
    if depth == 0 or chance.random() < 0.1:
        return chance.choice(
            ["n", "big", "x", "price", "total", "ratio", "cents", "0", "7", "2.5", "100.0", "1e3", "-3", "12L", "NULL"]
        )
    part = [drawn(chance, depth - 1) for _ in range(3)]
    return chance.choice([
        *(f"({part[0]} {op} {part[1]})" for op in ("+", "-", "*", "/", "/", "%", "DIV")),
        f"round({part[0]}, {chance.choice((0, 1, 2, -1))})", f"coalesce({part[0]}, {part[1]})", f"abs({part[0]})",
        f"CASE WHEN {part[0]} {chance.choice(('<', '=', '>=', '<>'))} {part[1]} THEN {part[2]} ELSE {part[0]} END",
        f"greatest({part[0]}, {part[1]})", f"nullif({part[0]}, {part[1]})", f"floor({part[0]})",
        f"CAST({part[0]} AS {chance.choice(('INT', 'BIGINT', 'DOUBLE', 'DECIMAL(20,4)', 'DECIMAL(38,10)'))})",
    ])  # fmt: skip
