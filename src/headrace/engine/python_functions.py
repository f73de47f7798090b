"""The functions of expressions in Python, with Spark's values.

Each entry makes, for a checked call, the function of its arguments; it gets no None but where it is in NULLS.
"""

from __future__ import annotations

import calendar
import hashlib
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import Any

from headrace.aggregate.merges import EXACT
from headrace.engine.python_values import WIDE, arithmetic, conversion, fit, to_whole, wrap
from headrace.format import EPOCH
from headrace.language.terms import Term
from headrace.types import BIGINT, DATE, DOUBLE, TIMESTAMP, Type

Evaluate = Callable[[Sequence[Any]], Any]
Make = Callable[[Term], Callable[..., Any] | None]
Converted = Callable[[Term, Type], Evaluate]  # the evaluation of an argument, converted to a type
Common = Callable[[Sequence[Term]], Type]
US = timedelta(microseconds=1)


# Functions of NULL


def _coalesce(term: Term, converted: Converted, common: Common) -> Evaluate:
    arguments = [converted(arg, term.type) for arg in term.args]
    return lambda row: next((value for evaluate in arguments if (value := evaluate(row)) is not None), None)


def _nullif(term: Term, converted: Converted, common: Common) -> Evaluate:
    value, of = converted(term.args[0], term.type), common(term.args)
    left, right = (converted(arg, of) for arg in term.args)

    def nullif(row: Sequence[Any]) -> Any:
        a, b = left(row), right(row)
        return None if a is not None and b is not None and (a == b or (a != a and b != b)) else value(row)

    return nullif


def _if(term: Term, converted: Converted, common: Common) -> Evaluate:
    test = term.args[0]
    condition, yes, no = (
        converted(test, test.type),
        converted(term.args[1], term.type),
        converted(term.args[2], term.type),
    )
    if term.op == "nvl2":
        return lambda row: no(row) if condition(row) is None else yes(row)
    return lambda row: yes(row) if condition(row) else no(row)


def _extreme(term: Term, converted: Converted, common: Common) -> Evaluate:
    arguments, choose = [converted(arg, term.type) for arg in term.args], max if term.op == "greatest" else min
    rank = _rank_double if term.type == DOUBLE else None

    def extreme(row: Sequence[Any]) -> Any:
        values = [value for evaluate in arguments if (value := evaluate(row)) is not None]
        return choose(values, key=rank) if values else None

    return extreme


def _isnan(term: Term, converted: Converted, common: Common) -> Evaluate:
    evaluate = converted(term.args[0], DOUBLE)
    return lambda row: (value := evaluate(row)) is not None and math.isnan(value)


def _nanvl(term: Term, converted: Converted, common: Common) -> Evaluate:
    first, second = (converted(arg, DOUBLE) for arg in term.args)

    def nanvl(row: Sequence[Any]) -> Any:
        value = first(row)
        return second(row) if value is not None and math.isnan(value) else value

    return nanvl


def _concat_ws(term: Term, converted: Converted, common: Common) -> Evaluate:
    separator, *arguments = (converted(arg, arg.type) for arg in term.args)

    def concat_ws(row: Sequence[Any]) -> str | None:
        by = separator(row)
        return None if by is None else by.join(text for evaluate in arguments if (text := evaluate(row)) is not None)

    return concat_ws


def _rank_double(value: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(value) else (False, value)


NULLS: Mapping[str, Callable[[Term, Converted, Common], Evaluate]] = {
    "coalesce": _coalesce, "nullif": _nullif, "if": _if, "nvl2": _if, "greatest": _extreme, "least": _extreme,
    "isnan": _isnan, "nanvl": _nanvl, "concat_ws": _concat_ws,
}  # fmt: skip


# Numbers


def _double(function: Callable[..., Any]) -> Make:
    """A function of DOUBLEs; where Python raises an error, Java has NaN or an infinity."""

    def make(term: Term) -> Callable[..., Any]:
        convert = [conversion(arg.type, DOUBLE) or float for arg in term.args]

        def call(*values: Any) -> Any:
            try:
                return function(*(to(value) for to, value in zip(convert, values, strict=True)))
            except ValueError:
                return math.nan
            except OverflowError:
                return math.inf

        return call

    return make


def _logarithm(function: Callable[[float], float]) -> Callable[[float], float | None]:
    return lambda x: None if x <= 0 else function(x)


def _log(base: float, x: float) -> float | None:
    if base <= 0 or x <= 0:
        return None
    below = math.log(base)
    return math.log(x) / below if below else math.nan if x == 1 or math.isnan(x) else math.copysign(math.inf, x - 1)


def _pow(x: float, y: float) -> float:
    try:
        return math.pow(x, y) if not (abs(x) == 1 and not math.isfinite(y)) else math.nan
    except OverflowError:
        return -math.inf if x < 0 and y % 2 == 1 else math.inf
    except ValueError:  # 0 to a negative power, or a root of a negative number
        odd = y % 2 == 1
        return (math.copysign(math.inf, x) if odd else math.inf) if x == 0 else math.nan


def _abs(term: Term) -> Callable[..., Any]:
    of = term.type
    return (lambda x: wrap(abs(x), of)) if of.is_integer else (lambda x: x.copy_abs()) if of.name == "DECIMAL" else abs


def _whole(direction: str, double: Callable[[float], int]) -> Make:
    def make(term: Term) -> Callable[..., Any]:
        if term.type.name == "DECIMAL":
            return lambda x: fit(x.to_integral_value(direction, EXACT), term.type)
        if term.args[0].type.is_integer:
            return lambda x: x
        return lambda x: double(x) if math.isfinite(x) and abs(x) < 2**63 else to_whole(x, BIGINT)

    return make


def _round(term: Term) -> Callable[..., Any]:
    of, digits = term.args[0].type, int(term.args[1].text) if len(term.args) > 1 else 0
    unit = Decimal(1).scaleb(-digits)

    def exact(x: Decimal) -> Decimal:
        return x.quantize(unit, ROUND_HALF_UP, WIDE) if x.as_tuple().exponent < -digits else x  # type: ignore[operator]

    def integer(x: int, *_: int) -> int:
        return wrap(int(exact(Decimal(x))), of)

    def number(x: Decimal, *_: int) -> Decimal | None:
        return fit(exact(x), term.type)

    def double(x: float, *_: int) -> float:
        return float(exact(Decimal(repr(x)))) if math.isfinite(x) else x

    return integer if of.is_integer else double if of == DOUBLE else number


def _mod(term: Term) -> Callable[..., Any]:
    to = term.type if term.type.name != "DECIMAL" else None
    convert = [conversion(arg.type, to) if to else _exact_of(arg.type) for arg in term.args]
    remainder, positive = arithmetic("%", term.type), term.op == "pmod"

    def mod(a: Any, b: Any) -> Any:
        a, b = (value if by is None else by(value) for by, value in zip(convert, (a, b), strict=True))
        rest = remainder(a, b)
        return remainder(rest + b, b) if positive and rest is not None and rest < 0 else rest

    return mod


def _exact_of(of: Type) -> Callable[[Any], Any] | None:
    return Decimal if of.is_integer else None


def _sign(x: float) -> float:
    return x if math.isnan(x) or x == 0 else math.copysign(1.0, x)


def _bucket(x: float, low: float, high: float, buckets: float) -> int | None:
    bounds = (low, high)
    if buckets <= 0 or math.isnan(x) or low == high or not all(map(math.isfinite, bounds)):
        return None
    rises, lower, upper = low < high, min(bounds), max(bounds)
    if x < lower if rises else x > upper:
        return 0
    if x >= upper if rises else x <= lower:
        return int(buckets) + 1
    return int(buckets * ((x - lower) if rises else (upper - x)) / (upper - lower)) + 1


# Texts


def _substring(text: str, start: int, count: int | None = None) -> str:
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    last = len(text) if count is None else first + count
    return text[max(first, 0) : max(last, 0)] if last > max(first, 0) else ""


def _left(text: str, count: int) -> str:
    return text[: max(count, 0)]


def _right(text: str, count: int) -> str:
    return text[-count:] if count > 0 else ""


def _replace(text: str, search: str, by: str = "") -> str:
    return text.replace(search, by) if search else text


def _split_part(text: str, separator: str, index: int) -> str:
    parts = text.split(separator) if separator else [text]
    place = index - 1 if index > 0 else len(parts) + index
    return parts[place] if 0 <= place < len(parts) else ""


def _pad(term: Term) -> Callable[..., str]:
    left = term.op == "lpad"

    def pad(text: str, width: int, by: str = " ") -> str:
        missing = max(width, 0) - len(text)
        if missing <= 0 or not by:
            return text[: max(width, 0)]
        filling = (by * (missing // len(by) + 1))[:missing]
        return filling + text if left else text + filling

    return pad


def _translate(text: str, search: str, by: str) -> str:
    table = {letter: by[at] if at < len(by) else "" for at, letter in reversed(list(enumerate(search)))}
    return "".join(table.get(letter, letter) for letter in text)


# Dates and times


def _time(value: Any) -> datetime:
    return (
        value.astimezone(UTC)
        if isinstance(value, datetime)
        else datetime(value.year, value.month, value.day, tzinfo=UTC)
    )


def _day(value: Any) -> date:
    return value.astimezone(UTC).date() if isinstance(value, datetime) else value


def _from_epoch(micros: int) -> Callable[[int], datetime | None]:
    def time(x: int) -> datetime | None:
        try:
            return EPOCH + x * micros * US
        except OverflowError:  # outside of the years 1 to 9999
            return None

    return time


def _to_epoch(micros: int) -> Callable[[Any], int]:
    return lambda x: (_time(x) - EPOCH) // US // micros


def _cut_seconds(x: Any) -> int:
    """Towards 1970, unlike unix_seconds."""
    micros = (_time(x) - EPOCH) // US
    return micros // 1_000_000 if micros >= 0 else -(-micros // 1_000_000)


def _truncate(unit: str, value: Any) -> datetime:
    time, unit = _time(value), unit.lower()
    day = time.replace(hour=0, minute=0, second=0, microsecond=0)
    match unit:
        case "year":
            return day.replace(month=1, day=1)
        case "quarter":
            return day.replace(month=(time.month - 1) // 3 * 3 + 1, day=1)
        case "month":
            return day.replace(day=1)
        case "week":
            return day - timedelta(days=day.weekday())
        case "day":
            return day
        case "hour":
            return time.replace(minute=0, second=0, microsecond=0)
        case "minute":
            return time.replace(second=0, microsecond=0)
        case "second":
            return time.replace(microsecond=0)
    return time.replace(microsecond=time.microsecond // 1000 * 1000)


def _add_days(sign: int) -> Callable[[Any, int], date | None]:
    def add(x: Any, days: int) -> date | None:
        try:
            return _day(x) + timedelta(days=sign * days)
        except OverflowError:  # outside of the years 1 to 9999
            return None

    return add


def _add_months(x: Any, months: int) -> date | None:
    day = _day(x)
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        return None
    return date(year, month + 1, min(day.day, calendar.monthrange(year, month + 1)[1]))


def _last_day(x: Any) -> date:
    day = _day(x)
    return day.replace(day=calendar.monthrange(day.year, day.month)[1])


def _of_time(to: Type) -> Make:
    """to_date and to_timestamp of a date or time: those of a text are Spark's alone."""

    def make(term: Term) -> Callable[..., Any] | None:
        of = term.args[0].type
        if of.name == "STRING" or len(term.args) > 1:
            return None
        return conversion(of, to) or (lambda value: value)

    return make


# Nested values


def _pairs(value: Any) -> dict[Any, Any]:
    return dict(value)


def _element(term: Term) -> Callable[..., Any]:
    if term.args[0].type.name == "MAP":
        return lambda value, key: _pairs(value).get(key)

    def element(value: Sequence[Any], index: int) -> Any:
        place = index - 1 if index > 0 else len(value) + index
        return value[place] if 0 <= place < len(value) else None

    return element


def _contains(term: Term) -> Callable[..., Any]:
    def contains(values: Sequence[Any], value: Any) -> bool | None:
        return True if value in values else None if None in values else False

    return contains


def _extreme_of_array(term: Term) -> Callable[..., Any]:
    choose = max if term.op == "array_max" else min
    rank = _rank_double if term.type == DOUBLE else None

    def extreme(values: Sequence[Any]) -> Any:
        known = [value for value in values if value is not None]
        return choose(known, key=rank) if known else None

    return extreme


def _plain(function: Callable[..., Any]) -> Make:
    return lambda term: function


def _hash(name: str) -> Make:
    return _plain(lambda text: hashlib.new(name, text.encode(), usedforsecurity=False).hexdigest())


EVALUATED: Mapping[str, Make] = {
    "abs": _abs, "ceil": _whole(ROUND_CEILING, math.ceil), "floor": _whole(ROUND_FLOOR, math.floor), "round": _round,
    "mod": _mod, "pmod": _mod, "sign": _double(_sign), "sqrt": _double(math.sqrt), "cbrt": _double(math.cbrt),
    "pow": _double(_pow), "exp": _double(math.exp), "ln": _double(_logarithm(math.log)), "log": _double(_log),
    "log2": _double(_logarithm(lambda x: math.log(x) / math.log(2.0))), "log10": _double(_logarithm(math.log10)),
    "sin": _double(math.sin), "cos": _double(math.cos), "tan": _double(math.tan), "asin": _double(math.asin),
    "acos": _double(math.acos), "atan": _double(math.atan), "atan2": _double(lambda y, x: math.atan2(y + 0.0, x + 0.0)),
    "radians": _double(math.radians), "degrees": _double(math.degrees), "width_bucket": _double(_bucket),

    "lower": _plain(str.lower), "upper": _plain(str.upper), "trim": _plain(lambda text, of=" ": text.strip(of)),
    "ltrim": _plain(lambda text, of=" ": text.lstrip(of)), "rtrim": _plain(lambda text, of=" ": text.rstrip(of)),
    "length": _plain(len), "substring": _plain(_substring), "left": _plain(_left), "right": _plain(_right),
    "concat": _plain(lambda *texts: "".join(texts)), "replace": _plain(_replace), "split_part": _plain(_split_part),
    "startswith": _plain(str.startswith), "endswith": _plain(str.endswith),
    "contains": _plain(lambda text, part: part in text), "instr": _plain(lambda text, part: text.find(part) + 1),
    "lpad": _pad, "rpad": _pad, "reverse": _plain(lambda text: text[::-1]), "translate": _plain(_translate),
    "ascii": _plain(lambda text: ord(text[0]) if text else 0),

    "timestamp_seconds": _plain(_from_epoch(1_000_000)), "timestamp_millis": _plain(_from_epoch(1_000)),
    "timestamp_micros": _plain(_from_epoch(1)), "unix_seconds": _plain(_to_epoch(1_000_000)),
    "unix_millis": _plain(_to_epoch(1_000)), "unix_micros": _plain(_to_epoch(1)),
    "unix_timestamp": _plain(_cut_seconds), "to_date": _of_time(DATE), "to_timestamp": _of_time(TIMESTAMP),
    "date_trunc": _plain(_truncate), "year": _plain(lambda x: _day(x).year), "month": _plain(lambda x: _day(x).month),
    "quarter": _plain(lambda x: (_day(x).month + 2) // 3), "weekofyear": _plain(lambda x: _day(x).isocalendar().week),
    "day": _plain(lambda x: _day(x).day), "dayofyear": _plain(lambda x: _day(x).timetuple().tm_yday),
    "dayofweek": _plain(lambda x: _day(x).isoweekday() % 7 + 1), "weekday": _plain(lambda x: _day(x).weekday()),
    "hour": _plain(lambda x: _time(x).hour), "minute": _plain(lambda x: _time(x).minute),
    "second": _plain(lambda x: _time(x).second), "date_add": _plain(_add_days(1)), "date_sub": _plain(_add_days(-1)),
    "datediff": _plain(lambda end, start: (_day(end) - _day(start)).days), "add_months": _plain(_add_months),
    "last_day": _plain(_last_day),

    "md5": _hash("md5"), "sha1": _hash("sha1"),
    "sha2": _plain(lambda text, bits: hashlib.new(f"sha{bits}", text.encode(), usedforsecurity=False).hexdigest()),
    "crc32": _plain(lambda text: zlib.crc32(text.encode())),

    "size": _plain(len), "element_at": _element, "array_contains": _contains, "array_max": _extreme_of_array,
    "array_min": _extreme_of_array, "map_keys": _plain(lambda value: list(_pairs(value))),
    "map_values": _plain(lambda value: list(_pairs(value).values())),
    "map_contains_key": _plain(lambda value, key: key in _pairs(value)),
}  # fmt: skip
