"""Functions and aggregates that other systems have: what to write here instead, text from the arguments as written."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from headrace.language.aggregate_names import AGGREGATES as OURS
from headrace.language.syntax import Call, Literal
from headrace.types import BOOLEAN

Instead = str | Callable[[Sequence[str]], str | None]  # {0}, {1}: an argument, {*}: all of them

ORDER_STATISTICS = ("median", "percentile", "percentile_cont", "percentile_disc", "mode")
_DRUID_PERIOD = re.compile(r"'P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?'", re.IGNORECASE)
_TO_CHAR = (("YYYY", "yyyy"), ("DD", "dd"), ("HH24", "HH"), ("MI", "mm"), ("SS", "ss"), ("MS", "SSS"))


def _share(args: Sequence[str]) -> str | None:
    """quantile(x), quantile(x, 0.9), quantile(0.9)(x), percentile_cont(0.9) WITHIN GROUP (ORDER BY x)."""
    shares = [arg for arg in args if _is_number(arg) or arg.lower().startswith("array")]
    values = [arg for arg in args if arg not in shares]
    if len(values) != 1 or len(shares) > 1:
        return f"approx_percentile({values[0]}, array({', '.join(shares)}))" if len(values) == 1 else None
    return f"approx_percentile({values[0]}, {shares[0] if shares else '0.5'})"


def _top(args: Sequence[str]) -> str | None:
    """topK(10)(x): the most frequent; approx_most_frequent(10, x, 100)."""
    counts, values = [arg for arg in args if arg.isdigit()], [arg for arg in args if not arg.isdigit()]
    return f"approx_top_k({values[0]}, {counts[0] if counts else 10})" if len(values) == 1 else None


def _largest(args: Sequence[str]) -> str | None:
    """TOPK(x, 3) of ksqlDB: the largest values."""
    return f"max_by({args[0]}, {args[0]}, {args[1]})" if len(args) == 2 else None


def _any(args: Sequence[str]) -> str | None:
    """any(x > 0) of Spark, or any(x) of ClickHouse."""
    is_condition = re.search(r"[=<>]|\b(IS|IN|NOT|LIKE|AND|OR)\b", args[0], re.IGNORECASE)
    return f"{'bool_or' if is_condition else 'any_value'}({args[0]})"


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[\d.]+", text) is not None


def _path(args: Sequence[str]) -> str | None:
    """JSONExtractString(text, 'a', 'b')."""
    keys = [arg[1:-1] for arg in args[1:] if arg.startswith("'")]
    return f"get_json_object({args[0]}, '$.{'.'.join(keys)}')" if keys else None


def _whole_of_path(args: Sequence[str]) -> str | None:
    """JSONExtractInt(text, 'a')."""
    return f"CAST({_path(args)} AS BIGINT)"


def _double_of_path(args: Sequence[str]) -> str | None:
    """JSONExtractFloat(text, 'a')."""
    return f"CAST({_path(args)} AS DOUBLE)"


def _epoch(args: Sequence[str]) -> str | None:
    """TO_TIMESTAMP_LTZ(x, 3) of milliseconds, or of seconds."""
    return f"timestamp_{'millis' if list(args[1:]) == ['3'] else 'seconds'}({args[0]})"


def _truncated(args: Sequence[str]) -> str | None:
    """timestamp_trunc(at, HOUR)."""
    return f"date_trunc('{args[1].lower()}', {args[0]})" if len(args) == 2 else None


def _size_first(args: Sequence[str]) -> str | None:
    """time_bucket(at, '1 hour'), with its arguments in the wrong order."""
    is_size = len(args) == 2 and args[1].upper().startswith(("'", "INTERVAL"))
    return f"time_bucket({args[1]}, {args[0]})" if is_size else None


def _period(args: Sequence[str]) -> str | None:
    """time_floor(__time, 'PT5M')."""
    match = _DRUID_PERIOD.fullmatch(args[1]) if len(args) > 1 else None
    if match is None:
        return None
    parts = zip(match.groups(), ("day", "hour", "minute", "second"), strict=True)
    spans = [f"{count} {unit}{'s' * (count != '1')}" for count, unit in parts if count]
    return f"time_bucket('{' '.join(spans)}', {args[0]})"


def _formatted(args: Sequence[str]) -> str | None:
    """to_char(at, 'YYYY-MM-DD')."""
    if len(args) != 2:
        return None
    pattern = args[1]
    for theirs, ours in _TO_CHAR:
        pattern = pattern.replace(theirs, ours)
    return f"date_format({args[0]}, {pattern})"


def _difference(args: Sequence[str]) -> str | None:
    """timestampdiff(SECOND, a, b)."""
    if len(args) != 3:
        return None
    size = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400}.get(args[0].strip("'").lower())
    seconds = f"(unix_seconds({args[2]}) - unix_seconds({args[1]}))"
    return None if size is None else seconds if size == 1 else f"({seconds} div {size})"


def _case(args: Sequence[str]) -> str | None:
    """multiIf(condition, x, …, otherwise)."""
    whens = "".join(f" WHEN {args[i]} THEN {args[i + 1]}" for i in range(0, len(args) - 1, 2))
    return f"CASE{whens} ELSE {args[-1]} END" if len(args) % 2 and len(args) > 1 else None


def _shifted(args: Sequence[str]) -> str | None:
    """timestampadd(HOUR, 1, at)."""
    if len(args) != 3:
        return None
    sign, count = ("-", args[1][1:]) if args[1].startswith("-") else ("+", args[1])
    return f"({args[2]} {sign} INTERVAL {count} {args[0]})"


def _same(names: str, instead: Instead) -> dict[str, Instead]:
    return dict.fromkeys(names.split(), instead)


AGGREGATES: dict[str, Instead] = {
    **_same("argmax arg_max maxby", "max_by({0}, {1})"),
    **_same("argmin arg_min minby", "min_by({0}, {1})"),
    **_same("latest_by_offset", "last({*})"),
    **_same("earliest_by_offset", "first({*})"),
    **_same("last_value anylast latest", "last({0})"),
    **_same("first_value earliest", "first({0})"),
    **_same("any some", _any),
    **_same("arbitrary anyheavy", "any_value({0})"),
    **_same("every logical_and", "bool_and({0})"),
    **_same("logical_or", "bool_or({0})"),
    **_same(
        "uniq uniqcombined uniqcombined64 uniqhll12 uniqtheta approx_distinct approx_unique approxdistinct ndv "
        "approx_count_distinct_ds_hll approx_count_distinct_ds_theta hll_count",
        "approx_count_distinct({0})",
    ),
    **_same("median approx_median medianexact", "approx_percentile({0}, 0.5)"),
    **_same("uniqexact countdistinct", "count(DISTINCT {*})"),
    **_same(
        "approx_quantiles quantile quantiles quantileexact quantiletdigest quantiletiming "
        "quantiledeterministic percentile percentile_cont percentile_disc quantile_cont quantile_disc approx_quantile "
        "approx_quantile_ds approxquantile",
        _share,
    ),
    **_same("mode approx_mode", "approx_top_k({0}, 1)"),
    **_same("approx_most_frequent topkweighted", _top),
    **_same("topk", _largest),
    **_same("topkdistinct", _largest),
    **_same(
        "string_agg group_concat listagg wm_concat array_agg list grouparray collect array_concat_agg json_arrayagg "
        "json_agg jsonb_agg",
        "collect_list({0})",
    ),
    **_same("groupuniqarray set_agg array_unique_agg", "collect_set({0})"),
    **_same("mean", "avg({0})"),
    **_same("total", "sum({0})"),
    **_same("std stdev stddevsamp", "stddev({0})"),
    **_same("stddevpop stdevp", "stddev_pop({0})"),
    **_same("var varsamp", "variance({0})"),
    **_same("varpop varp", "var_pop({0})"),
    **_same("covarsamp", "covar_samp({0}, {1})"),
    **_same("covarpop", "covar_pop({0}, {1})"),
    **_same("countif", "count_if({0})"),
    **_same("avgweighted", "sum({0} * {1}) / sum({1})"),
}
FUNCTIONS: dict[str, Instead] = {
    **{f"tostartof{unit}": f"date_trunc('{unit}', {{0}})" for unit in ("second", "minute", "hour", "day", "month")},
    **{f"tostartof{unit}": f"date_trunc('{unit}', {{0}})" for unit in ("quarter", "year")},
    **_same("tomonday", "date_trunc('week', {0})"),
    **_same("tostartoffiveminutes tostartoffiveminute", "time_bucket('5 minutes', {0})"),
    **_same("tostartoftenminutes", "time_bucket('10 minutes', {0})"),
    **_same("tostartoffifteenminutes", "time_bucket('15 minutes', {0})"),
    **_same("tostartofinterval", "time_bucket({1}, {0})"),
    **_same("timestamp_trunc datetime_trunc datetrunc", _truncated),
    **_same("time_floor", _period),
    **_same("time_bucket date_bin", _size_first),
    **_same("todate", "to_date({0})"),
    **_same("todatetime todatetime64 parsedatetimebesteffort", "to_timestamp({0})"),
    **_same("tostring to_varchar", "CAST({0} AS STRING)"),
    **_same("toint8 toint16 toint32 to_int", "CAST({0} AS INT)"),
    **_same("toint64 to_bigint", "CAST({0} AS BIGINT)"),
    **_same("tofloat32 tofloat64 to_double", "CAST({0} AS DOUBLE)"),
    **{f"to{part}": f"{part}({{0}})" for part in ("year", "quarter", "month", "hour", "minute", "second")},
    **_same("todayofmonth", "day({0})"),
    **_same("todayofweek", "(weekday({0}) + 1)"),
    **_same("tounixtimestamp epoch to_unix_timestamp", "unix_seconds({0})"),
    **_same("from_unixtime fromunixtimestamp to_datetime", "timestamp_seconds({0})"),
    **_same("epoch_ms fromunixtimestamp64milli millis_to_timestamp", "timestamp_millis({0})"),
    **_same("to_timestamp_ltz", _epoch),
    **_same("stringtotimestamp parse_timestamp strptime", "to_timestamp({0}, {1})"),
    **_same("timestamptostring formatdatetime strftime", "date_format({0}, 'yyyy-MM-dd HH:mm:ss')"),
    **_same("to_char", _formatted),
    **_same("timestampdiff", _difference),
    **_same("timestampadd dateadd", _shifted),
    **_same("regexp_substr", "regexp_extract({0}, {1}, 0)"),
    **_same("charindex locate position", "instr({1}, {0})"),
    **_same("json_extract json_query extractjsonfield json_extract_scalar json_extract_string", "get_json_object({*})"),
    **_same("jsonextractstring jsonextractraw visitparamextractstring json_extract_path_text", _path),
    **_same("jsonextractint", _whole_of_path),
    **_same("jsonextractfloat", _double_of_path),
    **_same("isnull", "({0} IS NULL)"),
    **_same("isnotnull", "({0} IS NOT NULL)"),
    **_same("empty", "({0} = '')"),
    **_same("notempty", "({0} <> '')"),
    **_same("match regexp_matches", "regexp_like({0}, {1})"),
    **_same("has list_contains array_has", "array_contains({0}, {1})"),
    **_same("array_length", "size({0})"),
    **_same("sha256", "sha2({0}, 256)"),
    **_same("sha512", "sha2({0}, 512)"),
    **_same("monthname", "date_format({0}, 'MMMM')"),
    **_same("dayname", "date_format({0}, 'EEEE')"),
    **_same("overlay", "left({0}, …) || … || substring({0}, …)"),
    **_same("json_unquote trim_json", "{0}"),
    **_same("safe_divide div0", "({0} / {1})"),
    **_same("multiif", _case),
    "->": "{0}",
}


def is_aggregate_elsewhere(name: str) -> bool:
    """Return True if another system has an aggregate of this name."""
    lower = name.lower()
    if lower in OURS:
        return False
    return lower in AGGREGATES or (lower.endswith("if") and (lower[:-2] in OURS or lower[:-2] in AGGREGATES))


def instead_of_aggregate(call: Call) -> str | None:
    """Return what to write instead of an aggregate of another system; None if nothing is known."""
    name = call.name.lower()
    written, arguments = call.written, list(call.written.arguments if call.written else ())
    base = name[:-2] if name.endswith("if") and name not in AGGREGATES and len(arguments) > 1 else ""
    if base in OURS:  # sumIf(x, condition)
        return f"{base}({', '.join(arguments[:-1])}) FILTER (WHERE {arguments[-1]})"
    if base in AGGREGATES:
        text = _fill(AGGREGATES[base], arguments[:-1])
        return f"{text} FILTER (WHERE {arguments[-1]})" if text else None
    if name == "topk" and written and written.parametric:
        text = _top(arguments)
    elif call.distinct and AGGREGATES.get(name) == "collect_list({0})":
        text = _fill("collect_set({0})", arguments)
    elif name in AGGREGATES:
        text = _fill(AGGREGATES[name], arguments)
    else:
        ours = next((each for each, others in OURS.items() if name in others), None)
        text = f"{ours}({', '.join(arguments)})" if ours and arguments else None
    return f"{text} {written.filter}".strip() if text and written else text


def instead_of_more(call: Call, most: int) -> str | None:
    """Return what to write instead of an aggregate of ours with more arguments than it takes."""
    if call.written is None:
        return None
    return f"{call.name.lower()}({', '.join(call.written.arguments[:most])}) {call.written.filter}".strip()


def instead_of_order(call: Call) -> str | None:
    """Return what to write instead of last(price, at) and first(price, at) of TimescaleDB."""
    name = {"last": "max_by", "first": "min_by"}.get(call.name.lower())
    if name is None or call.written is None or len(call.args) != 2 or isinstance(call.args[1], Literal):
        return None
    return f"{name}({', '.join(call.written.arguments)}) {call.written.filter}".strip()


def instead_of_flag(call: Call) -> str | None:
    """Return what to write instead of last(x, true) of Spark, which skips NULL."""
    name, written = call.name.lower(), call.written
    if name not in ("first", "last") or written is None or len(call.args) != 2:
        return None
    flag, x = call.args[1], written.arguments[0]
    if not isinstance(flag, Literal) or flag.type != BOOLEAN:
        return None
    if flag.text.upper() == "FALSE":
        return f"{name}({x}) {written.filter}".strip()
    condition = re.sub(r"(?is)^FILTER\s*\(\s*WHERE\s+(.*)\)$", r" AND (\1)", written.filter)
    return f"{name}({x}) FILTER (WHERE {x} IS NOT NULL{condition})"


def instead_of_function(call: Call) -> str | None:
    """Return what to write instead of a function of another system; None if nothing is known."""
    instead = FUNCTIONS.get(call.name.lower())
    return _fill(instead, list(call.written.arguments)) if instead and call.written else None


def _fill(instead: Instead, arguments: list[str]) -> str | None:
    if callable(instead):
        return instead(arguments) if arguments else None
    places = re.findall(r"\{(\d|\*)\}", instead)
    if not arguments or any(place != "*" and int(place) >= len(arguments) for place in places):
        return None
    text = instead.replace("{*}", ", ".join(arguments))
    return re.sub(r"\{(\d)\}", lambda match: arguments[int(match[1])], text)
