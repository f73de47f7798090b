"""Expressions and values that are compared between Spark and DuckDB."""

# ruff: noqa: E501 - one case per line

from __future__ import annotations

from headrace.language.check import Scope, check
from headrace.language.expressions import parse_tree
from headrace.language.source_text import SourceText
from headrace.language.terms import Expression
from headrace.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, array, decimal, map_of, struct

SAMPLES = {
    "text": (STRING, ["Hello World", "", " pad ", "a,b,c", "x=12;y=7", "ÀÉ", "12", " 42 ", "-3.9", "1e3", "abc", "true", "No",
                      "2024-02-29", "2024-2-9", "2024-02-29 12:34:56.789", "2024-02-29T12:34:56Z",
                      "2024-02-29T12:34:56+05:30", "2024-02-30", "29/02/2024 08:09", "99999999999", "1_000", None]),
    "n": (INT, [0, 1, -1, 7, -7, 2147483647, None]),
    "big": (BIGINT, [0, 1700000000123, -1, 1700000000, 1_700_000_000_123_456, None]),
    "x": (DOUBLE, [0.0, 1.5, -2.5, 2.5, 1e6, -0.4, None]),
    "price": (decimal(10, 2), ["0.00", "12.34", "-0.55", "99999999.99", None]),
    "yes": (BOOLEAN, [True, False, None]),
    "day": (DATE, ["1970-01-01", "2024-02-29", "2023-12-31", "1969-07-20", None]),
    "time": (TIMESTAMP, ["1970-01-01 00:00:00", "2024-02-29 23:59:59.999999", "1969-12-31 23:59:59.5", None]),
}  # fmt: skip
DERIVED = {
    "words": (array(STRING), "split(text, ' ')"),
    "pair": (struct(("a", INT), ("b", struct(("c", STRING)))), "if(yes, named_struct('a', n, 'b', struct(text)), NULL)"),
    "pairs": (map_of(INT), "if(yes, map('k', n, 'ÀÉ', 1), NULL)"),
}  # fmt: skip
COMPUTED = [
    "words[0]", "words[1]", "words[-1]", "words[n]", "pair.a", "pair.b.c", "pairs['k']", "pairs[text]", "size(words)",
    "size(pairs)", "element_at(words, 1)", "element_at(words, -1)", "element_at(words, 9)", "element_at(pairs, 'k')",
    "map_keys(pairs)[0]", "map_values(pairs)[0]", "map_contains_key(pairs, text)", "split(text, ',')[1]", "pair IS NULL",
    "size(split(text, 'l+'))", "split(text, r'[;=]')[3]",
    "to_utc_timestamp(time, 'Europe/Berlin')", "from_utc_timestamp(time, 'America/New_York')",
    "coalesce(text, 'none')", "nullif(n, 7)", "nvl2(n, 1, 2)", "if(n > 0, 'up', 'down')", "greatest(n, 0)", "least(n, big)",
    "isnan(x)", "lower(text)", "upper(text)", "trim(text)", "ltrim(text)", "rtrim(text)", "length(text)",
    "trim(text, 'Hd ')", "ltrim(text, ' ax')", "rtrim(text, '7É6')", "trim(BOTH 'A-Z' FROM text)",
    "substring(text, 2)", "substring(text, 0, 3)", "substring(text, -3, 2)", "substring(text, -30, 28)",
    "substring(text, n, 2)", "substring(text, 2, n)", "left(text, 2)", "left(text, n)", "right(text, 2)", "right(text, n)",
    "concat(text, '-', text)", "text || 'x'", "replace(text, 'l', 'L')", "replace(text, 'l')", "replace(text, '', 'z')",
    "split_part(text, ',', 2)", "split_part(text, ',', -1)", "split_part(text, '', 1)",
    "regexp_like(text, '^[a-z]+$')", "regexp_replace(text, '(l+)', '<$1>')", r"regexp_extract(text, r'(\d+)')", r"regexp_extract(text, r'(\w)=(\d+)', 2)", "startswith(text, 'H')",
    "endswith(text, 'd')", "contains(text, 'lo')", "abs(n)", "abs(x)", "abs(price)", "ceil(x)", "floor(x)", "ceil(price)",
    "floor(price)", "mod(n, 4)", "mod(x, 2)", "timestamp_seconds(n)", "timestamp_millis(big)",
    "timestamp_micros(big)", "unix_seconds(time)", "unix_millis(time)", "unix_micros(time)", "to_date(text)",
    "to_date(time)", "to_date(text, 'yyyy-MM-dd')", "to_date(text, 'dd/MM/yyyy HH:mm')", "to_timestamp(text)", "to_timestamp(day)",
    "to_timestamp(text, 'dd/MM/yyyy HH:mm')", "to_timestamp(text, 'yyyy-MM-dd HH:mm:ss.SSS')",
    *(f"date_trunc('{unit}', time)" for unit in ("year", "quarter", "month", "week", "day", "hour", "minute", "second")),
    "date_trunc('millisecond', time)", "date_trunc('month', day)",
    *(f"{part}(time)" for part in ("year", "quarter", "month", "weekofyear", "day", "dayofyear", "dayofweek", "hour",
                                   "minute", "second")),
    *(f"{part}(day)" for part in ("year", "month", "weekofyear", "day", "dayofyear", "dayofweek")), "md5(text)",
    "n - 3 + 2", "n * 2.5", "n / 2", "n / 0", "x / 0", "n % 3", "n % 0", "n DIV 2", "big DIV 1000", "big - n", "x * 2",
    "price + 1", "price - 0.5", "price * 3", "-x", "-n + 1", "n = 1", "n <> 1", "x < 2", "price >= 12.34", "text = 'abc'",
    "n <=> NULL", "text LIKE '%l_o%'", r"text LIKE r'1\_%'", "text ILIKE 'HELLO%'", r"text RLIKE r'^\d+$'", "n IN (1, 7)",
    "n NOT IN (1, 7)", "n BETWEEN 0 AND 7", "text IS NULL", "yes IS NOT TRUE", "yes AND n > 0", "yes OR n > 0", "NOT yes",
    "CASE n WHEN 1 THEN 'one' WHEN 7 THEN 'seven' ELSE 'other' END", "CASE WHEN n > 0 THEN n END", "time + INTERVAL 90 MINUTES",
    "time - INTERVAL 1 DAY", "time > '2000-01-01'", "day = '2024-02-29'", "day < time",
    *(f"CAST(text AS {to})" for to in ("INT", "BIGINT", "DOUBLE", "DECIMAL(10,1)", "BOOLEAN", "DATE", "TIMESTAMP")),
    *(f"TRY_CAST(text AS {to})" for to in ("INT", "BIGINT", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP")),
    "CAST(n AS STRING)", "CAST(n AS BIGINT)", "CAST(n AS DOUBLE)", "CAST(n AS DECIMAL(12,2))", "CAST(n AS BOOLEAN)",
    "CAST(x AS INT)", "CAST(x AS BIGINT)", "CAST(x AS DECIMAL(10,1))", "CAST(x AS BOOLEAN)", "CAST(price AS INT)",
    "CAST(price AS DOUBLE)", "CAST(price AS STRING)", "CAST(price AS DECIMAL(10,1))", "CAST(yes AS INT)", "CAST(yes AS STRING)",
    "CAST(day AS STRING)", "CAST(day AS TIMESTAMP)", "CAST(time AS STRING)", "CAST(time AS DATE)",
]  # fmt: skip


def computed_expression(text: str) -> Expression:
    source = SourceText(text)
    return check(
        source,
        parse_tree(source),
        Scope({name: type_ for name, (type_, _) in {**SAMPLES, **DERIVED}.items()}),
    )


def chunks(items, size):
    return [items[i : i + size] for i in range(0, len(items), size)]
