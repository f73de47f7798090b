"""The one table of scalar functions that definitions may use: signatures, Spark's result types, DuckDB's translations.

A function is in the table only if Spark (ansi off) fails for no value: one event must not stall a view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.language.coercion import VOID, arithmetic_type, common_type
from headrace.language.datetime_patterns import as_meant, refuse_time_pattern
from headrace.language.patterns import groups, matches_nothing, refuse_replacement
from headrace.language.signatures import ScalarFunction
from headrace.language.terms import Term
from headrace.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Type, array, decimal

TO_LOCAL, TO_UTC = "headrace_to_local", "headrace_to_utc"  # functions of ours in DuckDB (`engine/zones.py`)


def operand_types(args: Sequence[Term]) -> list[Type]:
    """The types for arithmetic: next to a DECIMAL, Spark gives an integer literal the precision of its digits."""
    if not any(arg.type.name == "DECIMAL" for arg in args):
        return [arg.type for arg in args]
    return [
        decimal(len(arg.text.strip("-L")), 0) if arg.is_literal and arg.type.is_integer else arg.type for arg in args
    ]


def _same(args: Sequence[Term]) -> Type | None:
    return common_type([arg.type for arg in args])


def _first(args: Sequence[Term]) -> Type | None:
    return args[0].type


def _rest(args: Sequence[Term]) -> Type | None:
    return common_type([arg.type for arg in args[1:]])


def _whole(args: Sequence[Term]) -> Type | None:
    type_ = args[0].type
    return decimal(min(type_.precision - type_.scale + 1, 38), 0) if type_.name == "DECIMAL" else BIGINT


def _round(args: Sequence[Term]) -> Type | None:
    type_, digits = args[0].type, int(args[1].text) if len(args) > 1 else 0
    if type_.name != "DECIMAL":
        return type_
    whole = type_.precision - type_.scale + 1
    if digits < 0:
        return decimal(min(max(whole, 1 - digits), 38), 0)
    scale = min(type_.scale, digits)
    return decimal(min(whole + scale, 38), scale)


def _in_zone(function: str) -> str:
    return f"make_timestamptz({function}(epoch_us({{0}}), {{1}}))"


def _mod(args: Sequence[Term]) -> Type | None:
    return arithmetic_type("%", *operand_types(args))


def _element(args: Sequence[Term]) -> Type | None:
    inner = args[0].type.inner
    key = INT if args[0].type.name == "ARRAY" else STRING
    return inner if len(args) == 1 or args[1].type == key else None


def _elements(args: Sequence[Term]) -> Type | None:
    return array(args[0].type.inner)


def _contains(args: Sequence[Term]) -> Type | None:
    inner, value = args[0].type.inner, args[1].type
    return None if VOID in (inner, value) or common_type([inner, value]) is None else BOOLEAN


def _refuse_nested(args: Sequence[Term]) -> str | None:
    inner = args[0].type.inner
    return f"elements that are single values, found {inner}" if inner.is_nested else None


def _refuse_zero(args: Sequence[Term]) -> str | None:
    if args[0].type.name == "MAP" or (args[1].is_literal and args[1].text != "0"):
        return None
    return "a constant index of an ARRAY, from 1 or from -1 at its end; x[i] takes any, from 0"


def _refuse_no_characters(args: Sequence[Term]) -> str | None:
    return "no characters to remove; leave them out to remove spaces" if len(args) > 1 and not args[1].text else None


def _refuse_empty(args: Sequence[Term]) -> str | None:
    return "a pattern that matches the empty text cannot separate" if matches_nothing(args[1].text) else None


def _refuse_wide(args: Sequence[Term]) -> str | None:
    # Spark rounds to 34 digits on the way, and fails when that does not fit.
    return "a DECIMAL of more than 34 digits; CAST it to a narrower one" if args[0].type.precision > 34 else None


def _refuse_group(args: Sequence[Term]) -> str | None:
    group, count = int(args[2].text) if len(args) > 2 else 1, groups(args[1].text)
    return f"group {group} of a pattern that has {count}; write ( ) around the part" if group > count else None


def _refuse_reading(args: Sequence[Term]) -> str | None:
    reason = refuse_time_pattern(args[1].text) if len(args) > 1 else None
    meant = as_meant(args[1].text) if reason else None
    more = f"; write '{meant}'" if meant else ""
    return f"'{args[1].text}' is not a format of times: {reason}{more}" if reason else None


def _refuse_replacement(args: Sequence[Term]) -> str | None:
    return refuse_replacement(args[1].text, args[2].text)


def _timestamp(micros: int) -> str:
    return f"make_timestamptz(CAST({{0}} AS BIGINT) * {micros})"


def _floor_epoch(micros: int) -> str:
    return f"(epoch_us({{0}}) - (epoch_us({{0}}) % {micros} + {micros}) % {micros}) // {micros}"


def _cut(side: str) -> str:
    return f"CASE WHEN {{1}} > 0 THEN {side}({{0}}, {{1}}) WHEN {{1}} <= 0 THEN left({{0}}, 0) END"


# An empty separator splits nothing in Spark, and every character in DuckDB.
_SPLIT_PART = """
    CASE WHEN {1} <> '' THEN split_part({0}, {1}, {2}) WHEN abs({2}) = 1 THEN {0} WHEN {0} <> {1} THEN '' END
""".strip()


def _table(group: str, *rows: ScalarFunction) -> list[ScalarFunction]:
    return [replace(f, group=group) for f in rows]


F = ScalarFunction
TABLE = [
    *_table(
        "conditions",
        F("coalesce", "x SAME, more SAME...", _same, "coalesce({*})", ("nvl", "ifnull")),
        F("nullif", "x SAME, y SAME", _first, "nullif({0}, {1})"),
        F("nvl2", "x ANY, given SAME, missing SAME", _rest, "CASE WHEN {0} IS NOT NULL THEN {1} ELSE {2} END"),
        F("if", "condition BOOLEAN, yes SAME, no SAME", _rest, "CASE WHEN {0} THEN {1} ELSE {2} END", ("iff", "iif")),
        F("greatest", "x SAME, y SAME, more SAME...", _same, "greatest({*})"),
        F("least", "x SAME, y SAME, more SAME...", _same, "least({*})"),
        F("isnan", "x DOUBLE", BOOLEAN, "coalesce(isnan({0}), false)"),
        F("nanvl", "x DOUBLE, y DOUBLE", DOUBLE),
    ),
    *_table(
        "strings",
        F("lower", "text STRING", STRING, "lower({0})", ("lcase",)),
        F("upper", "text STRING", STRING, "upper({0})", ("ucase",)),
        F("trim", "text STRING, [characters TEXT]", STRING, "trim({0}, {1})", ("btrim",), refuse=_refuse_no_characters),
        F("ltrim", "text STRING, [characters TEXT]", STRING, "ltrim({0}, {1})", refuse=_refuse_no_characters),
        F("rtrim", "text STRING, [characters TEXT]", STRING, "rtrim({0}, {1})", refuse=_refuse_no_characters),
        F("length", "text STRING", INT, "length({0})", ("len", "char_length", "character_length")),
        F("substring", "text STRING, start INT, [count INT]", STRING, aliases=("substr",), duckdb="substring({*})"),
        F("left", "text STRING, count INT", STRING, _cut("left")),
        F("right", "text STRING, count INT", STRING, _cut("right")),
        F("concat", "text STRING, more STRING...", STRING, "({+})"),
        F("concat_ws", "separator STRING, text STRING, more STRING...", STRING),
        F("replace", "text STRING, search STRING, [by STRING]", STRING, "replace({0}, {1}, {2})"),
        F("split_part", "text STRING, separator STRING, index INDEX", STRING, _SPLIT_PART),
        F("regexp_extract", "text STRING, pattern REGEX, [group GROUP]", STRING, "regexp_extract({0}, {1}, {2})",
          refuse=_refuse_group),
        F("regexp_replace", "text STRING, pattern REGEX, by TEXT", STRING, "regexp_replace({0}, {1}, {2}, 'g')",
          refuse=_refuse_replacement),
        F("regexp_like", "text STRING, pattern REGEX", BOOLEAN, "regexp_matches({0}, {1})"),
        F("startswith", "text STRING, prefix STRING", BOOLEAN, "starts_with({0}, {1})", ("starts_with",)),
        F("endswith", "text STRING, suffix STRING", BOOLEAN, "ends_with({0}, {1})", ("ends_with",)),
        F("contains", "text STRING, part STRING", BOOLEAN, "contains({0}, {1})"),
        F("instr", "text STRING, part STRING", INT, aliases=("strpos",)),
        F("lpad", "text STRING, width COUNT, [by STRING]", STRING),
        F("rpad", "text STRING, width COUNT, [by STRING]", STRING),
        F("reverse", "text STRING", STRING),
        F("initcap", "text STRING", STRING),
        F("translate", "text STRING, from STRING, to STRING", STRING),
        F("ascii", "text STRING", INT),
        F("levenshtein", "a STRING, b STRING", INT),
        F("soundex", "text STRING", STRING),
        F("get_json_object", "text STRING, path STRING", STRING),
        F("parse_url", "url STRING, part PART, [key STRING]", STRING),
    ),
    *_table(
        "numbers",
        F("abs", "x NUMBER", _first, "abs({0})", refuse=_refuse_wide),
        F("ceil", "x NUMBER", _whole, "ceil({0})", ("ceiling",)),
        F("floor", "x NUMBER", _whole, "floor({0})"),
        F("round", "x NUMBER, [digits COUNT]", _round),
        F("sign", "x NUMBER", DOUBLE, aliases=("signum",)),
        F("mod", "x NUMBER, y NUMBER", _mod, "{0} % nullif({1}, 0)"),
        F("pmod", "x NUMBER, y NUMBER", _mod),
        F("sqrt", "x NUMBER", DOUBLE),
        F("cbrt", "x NUMBER", DOUBLE),
        F("pow", "x NUMBER, y NUMBER", DOUBLE, aliases=("power",)),
        F("exp", "x NUMBER", DOUBLE),
        F("ln", "x NUMBER", DOUBLE),
        F("log", "base NUMBER, x NUMBER", DOUBLE),
        F("log2", "x NUMBER", DOUBLE),
        F("log10", "x NUMBER", DOUBLE),
        F("sin", "x NUMBER", DOUBLE),
        F("cos", "x NUMBER", DOUBLE),
        F("tan", "x NUMBER", DOUBLE),
        F("asin", "x NUMBER", DOUBLE),
        F("acos", "x NUMBER", DOUBLE),
        F("atan", "x NUMBER", DOUBLE),
        F("atan2", "y NUMBER, x NUMBER", DOUBLE),
        F("radians", "x NUMBER", DOUBLE),
        F("degrees", "x NUMBER", DOUBLE),
        F("width_bucket", "x NUMBER, low NUMBER, high NUMBER, buckets COUNT", BIGINT),
    ),
    *_table(
        "dates and times",
        F("timestamp_seconds", "x INTEGER", TIMESTAMP, _timestamp(1_000_000)),
        F("timestamp_millis", "x INTEGER", TIMESTAMP, _timestamp(1_000)),
        F("timestamp_micros", "x INTEGER", TIMESTAMP, _timestamp(1)),
        F("unix_seconds", "x TIMESTAMP", BIGINT, _floor_epoch(1_000_000)),
        F("unix_millis", "x TIMESTAMP", BIGINT, _floor_epoch(1_000)),
        F("unix_micros", "x TIMESTAMP", BIGINT, "epoch_us({0})"),
        F("unix_timestamp", "x TIME", BIGINT),
        F("to_date", "x STRING|TIME, [format PATTERN]", DATE, "to_date", refuse=_refuse_reading),
        F("to_timestamp", "x STRING|TIME, [format PATTERN]", TIMESTAMP, "to_timestamp",
          refuse=_refuse_reading),
        F("date_trunc", "unit UNIT, x TIME", TIMESTAMP, "date_trunc({0}, CAST({1} AS TIMESTAMPTZ))"),
        F("year", "x TIME", INT, "year({0})"),
        F("quarter", "x TIME", INT, "quarter({0})"),
        F("month", "x TIME", INT, "month({0})"),
        F("weekofyear", "x TIME", INT, "weekofyear({0})"),
        F("day", "x TIME", INT, "day({0})", ("dayofmonth",)),
        F("dayofyear", "x TIME", INT, "dayofyear({0})"),
        F("dayofweek", "x TIME", INT, "dayofweek({0}) + 1"),
        F("weekday", "x TIME", INT),
        F("hour", "x TIME", INT, "hour({0})"),
        F("minute", "x TIME", INT, "minute({0})"),
        F("second", "x TIME", INT, "second({0})"),
        F("date_add", "x TIME, days INT", DATE),
        F("date_sub", "x TIME, days INT", DATE),
        F("datediff", "end TIME, start TIME", INT, aliases=("date_diff",)),
        F("add_months", "x TIME, months COUNT", DATE),
        F("last_day", "x TIME", DATE),
        F("date_format", "x TIME, format FORMAT", STRING),
        F("from_utc_timestamp", "x TIMESTAMP, zone ZONE", TIMESTAMP, _in_zone(TO_LOCAL)),
        F("to_utc_timestamp", "x TIMESTAMP, zone ZONE", TIMESTAMP, _in_zone(TO_UTC)),
    ),
    *_table(
        "hashes",
        F("md5", "text STRING", STRING, "md5({0})"),
        F("sha1", "text STRING", STRING, aliases=("sha",)),
        F("sha2", "text STRING, bits BITS", STRING),
        F("crc32", "text STRING", BIGINT),
        F("xxhash64", "x ANY, more ANY...", BIGINT),
        F("hash", "x ANY, more ANY...", INT),
    ),
    *_table(
        "nested values",
        F("size", "x NESTED", INT, "len({0})", ("cardinality",)),
        F("element_at", "x NESTED, key INT|STRING", _element, "list_extract({0}, {1})", refuse=_refuse_zero),
        F("array_contains", "x ARRAY, value ANY", _contains, refuse=_refuse_nested),
        F("array_max", "x ARRAY", _element, refuse=_refuse_nested),
        F("array_min", "x ARRAY", _element, refuse=_refuse_nested),
        F("map_keys", "x MAP", array(STRING), "map_keys({0})"),
        F("map_values", "x MAP", _elements, "map_values({0})"),
        F("map_contains_key", "x MAP, key STRING", BOOLEAN, "map_contains({0}, {1})"),
        F("split", "text STRING, pattern REGEX", array(STRING), "string_split_regex({0}, {1})", refuse=_refuse_empty),
    ),
]  # fmt: skip
FUNCTIONS = {function.name: function for function in TABLE}
ALIASES = {alias: function.name for function in TABLE for alias in function.aliases}

UNSTABLE = frozenset({
    "rand", "randn", "random", "uuid", "now", "current_timestamp", "current_date", "curdate", "localtimestamp",
    "current_time", "unix_timestamp", "shuffle", "monotonically_increasing_id", "spark_partition_id",
    "input_file_name", "mz_now", "getdate", "getutcdate", "sysdate", "utc_timestamp", "clock_timestamp", "today",
    "current_user", "session_user", "user", "current_timezone", "randstr", "uniform",
})  # fmt: skip
WHY_UNSTABLE = "is not deterministic, so the batch layer and the speed layer would disagree"
NOT_HERE = {
    **dict.fromkeys(
        ("window", "tumble", "hop", "cumulate", "session_window", "session", "time_bucket", "date_bin"),
        "a window is allowed only in GROUP BY, on its own",
    ),
    "count_window": "windows of so many events are not available yet; use window, TUMBLE or HOP of event time",
    **dict.fromkeys(
        ("explode", "unnest", "flatten", "arrayjoin", "posexplode"),
        "a row for each element of an ARRAY is made in FROM, as in LATERAL VIEW explode(x) t AS i; x[0] reads one, "
        "array_contains(x, y) tests all",
    ),
    **dict.fromkeys(
        ("array", "map", "struct", "named_struct", "transform"),
        "nested values cannot be created here; x[0], x.part and x['key'] read a part",
    ),
    **dict.fromkeys(
        ("any", "some"),
        "an element of an ARRAY is array_contains(x, y), one of a list is x IN (…)",
    ),
    **dict.fromkeys(
        ("row_number", "rank", "dense_rank", "lag", "lead"), "a view aggregates events, it does not rank rows"
    ),
}
TYPE_NAMES = frozenset({
    "int", "bigint", "string", "double", "boolean", "date", "timestamp", "decimal", "float", "tinyint", "smallint",
    "binary",
})  # fmt: skip
