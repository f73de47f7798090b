"""Forms of standard SQL and of other systems that mean a function of ours: EXTRACT(HOUR FROM at), payload->>'id'."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace.language.literals import read_type
from headrace.language.source_text import NUMBER, QUOTED, STRING, WORD, Token
from headrace.language.syntax import Call, Cast, Literal, Logic, Node, Operation, Part, Test, WrittenCall
from headrace.language.token_cursor import TokenCursor
from headrace.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, TIMESTAMP, decimal
from headrace.types import STRING as STRING_TYPE

_UNITS = {
    "YEAR": "year", "YEARS": "year", "QUARTER": "quarter", "MONTH": "month", "MONTHS": "month", "WEEK": "weekofyear",
    "DAY": "day", "DAYS": "day", "DOY": "dayofyear", "DOW": "dayofweek", "DAYOFWEEK": "dayofweek", "HOUR": "hour",
    "HOURS": "hour", "MINUTE": "minute", "MINUTES": "minute",
}  # fmt: skip
_FROM_MONDAY = ("ISODOW", "DOW_ISO", "DAYOFWEEK_ISO")
_SECONDS = ("SECOND", "SECONDS")
UNITS = (*_UNITS, "SECOND", "EPOCH", "ISODOW")
SIDES = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}
ARROW = "->"
JSON_ARROWS = (ARROW, "->>", "#>", "#>>", ":")
JSON_TYPES = ("JSON", "JSONB", "VARIANT")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class Readers:
    """The functions that read what is inside a form."""

    expression: Callable[[TokenCursor], Node]
    operand: Callable[[TokenCursor], Node]


def _extract(cursor: TokenCursor, read: Readers) -> Node | None:
    if cursor.ahead(3).upper != "FROM":
        return None
    at = cursor.take().start
    cursor.take()
    unit = cursor.take()
    cursor.take()
    value = read.expression(cursor)
    cursor.expect_symbol(")", "the time of EXTRACT")
    return part_of_time(cursor, at, unit.text, unit.start, value)


def _date_part(cursor: TokenCursor, read: Readers) -> Node | None:
    unit = cursor.ahead(2)
    if unit.kind != STRING or cursor.ahead(3).text != ",":
        return None
    at = cursor.take().start
    cursor.index += 3
    value = read.expression(cursor)
    cursor.expect_symbol(")", "the time of date_part")
    return part_of_time(cursor, at, unit.text, unit.start, value)


def part_of_time(cursor: TokenCursor, at: int, unit: str, unit_at: int, value: Node) -> Node:
    """A part of a time, as Spark gives it: seconds with their fraction, the days of a week from Sunday, 1."""
    upper = unit.upper()
    if upper in _UNITS:
        return Call(at, _UNITS[upper], (value,))
    if upper in _FROM_MONDAY:
        return Operation(at, "+", (Call(at, "weekday", (value,)), Literal(at, "1", INT)))
    if upper in _SECONDS:
        micros: Node = Call(at, "pmod", (Call(at, "unix_micros", (value,)), Literal(at, "60000000", INT)))
        return _by_million(at, Cast(at, micros, decimal(8, 0), "CAST"), 8)
    if upper == "EPOCH":
        return _by_million(at, Cast(at, Call(at, "unix_micros", (value,)), decimal(20, 0), "CAST"), 20)
    raise cursor.error(unit_at, f"'{unit}' is not a part of a time here", expected="one of " + ", ".join(UNITS))


def _by_million(at: int, micros: Node, digits: int) -> Node:
    return Cast(at, Operation(at, "/", (micros, Literal(at, "1000000", INT))), decimal(digits, 6), "CAST")


def _substring(cursor: TokenCursor, read: Readers) -> Node | None:
    start = cursor.index
    at = cursor.take().start
    cursor.take()
    value = read.expression(cursor)
    if not cursor.accept("FROM"):
        cursor.index = start
        return None
    arguments = [value, read.expression(cursor)]
    if cursor.accept("FOR"):
        arguments.append(read.expression(cursor))
    cursor.expect_symbol(")", "the arguments of SUBSTRING")
    return Call(at, "substring", tuple(arguments))


def _trim(cursor: TokenCursor, read: Readers) -> Node | None:
    start = cursor.index
    at = cursor.take().start
    cursor.take()
    side = cursor.take().upper if cursor.next.upper in SIDES else "BOTH"
    characters = None if cursor.sees("FROM") else read.expression(cursor)
    if not cursor.accept("FROM"):
        if cursor.tokens[start + 2].upper in SIDES:
            raise cursor.unexpected(f"FROM after TRIM({side} …")
        cursor.index = start
        return None
    value = read.expression(cursor)
    cursor.expect_symbol(")", "the text of TRIM")
    return Call(at, SIDES[side], (value, characters) if characters else (value,))


def _position(cursor: TokenCursor, read: Readers) -> Node | None:
    start = cursor.index
    at = cursor.take().start
    cursor.take()
    part = read.operand(cursor)
    if not cursor.accept("IN"):
        cursor.index = start
        return None
    value = read.expression(cursor)
    cursor.expect_symbol(")", "the text of POSITION")
    return Call(at, "instr", (value, part))


def _floor(cursor: TokenCursor, read: Readers) -> Node | None:
    """FLOOR(at TO HOUR), as in Flink."""
    start = cursor.index
    at = cursor.take().start
    cursor.take()
    value = read.expression(cursor)
    if not cursor.accept("TO"):
        cursor.index = start
        return None
    unit = cursor.take()
    cursor.expect_symbol(")", "the unit of FLOOR")
    if unit.upper == "WEEK":
        time = cursor.source.text[cursor.tokens[start + 2].start : cursor.tokens[cursor.index - 4].end]
        raise cursor.error(
            at, "FLOOR(… TO WEEK) begins weeks on Sunday, date_trunc on Monday",
            write=f"date_trunc('week', {time})", end=cursor.last_end,
        )  # fmt: skip
    return Call(at, "date_trunc", (Literal(unit.start, unit.text.lower(), STRING_TYPE), value))


def _ceil(cursor: TokenCursor, read: Readers) -> Node | None:
    """CEIL(at TO HOUR), as in Flink, which is refused."""
    start = cursor.index
    cursor.index += 2
    value_at = cursor.index
    read.expression(cursor)
    time = cursor.text_since(value_at)
    if cursor.accept("TO"):
        unit = cursor.take().text
        raise cursor.error(
            cursor.tokens[start].start, "CEIL(… TO …) of a time is not supported",
            fix=f"write date_trunc('{unit.lower()}', {time}) + INTERVAL 1 {unit.upper()}",
        )  # fmt: skip
    cursor.index = start
    return None


def _json_value(cursor: TokenCursor, read: Readers) -> Node | None:
    """JSON_VALUE(text, path [RETURNING type] [NULL ON EMPTY] [NULL ON ERROR])."""
    at = cursor.take().start
    cursor.take()
    value = read.expression(cursor)
    cursor.expect_symbol(",", "the text of JSON_VALUE")
    path = cursor.take()
    if path.kind != STRING:
        raise cursor.error(path.start, "the path of JSON_VALUE must be a constant text", expected="as in '$.user.id'")
    lax = re.sub(r"^lax\s+", "", path.text)
    node: Node = Call(at, "get_json_object", (value, Literal(path.start, lax, STRING_TYPE)))
    if cursor.accept("RETURNING"):
        node = Cast(at, node, read_type(cursor), "TRY_CAST")
    while cursor.accept("NULL", "ON", "EMPTY") or cursor.accept("NULL", "ON", "ERROR"):
        pass
    if cursor.sees("DEFAULT"):
        raise cursor.error(cursor.next.start, "DEFAULT is not supported in JSON_VALUE", fix="write coalesce(…, …)")
    cursor.expect_symbol(")", "the path of JSON_VALUE")
    return node


def json_arrow(cursor: TokenCursor, value: Node, start: int) -> Node:
    """Read -> or ->> after a value, with a key, an index or a path of JSON, or the name of a part of a STRUCT."""
    arrow, key = cursor.take(), cursor.take()
    if key.kind == WORD and arrow.text == "->":
        return Part(value.at, value, key.text)
    if arrow.text == ":":
        step: str | None = _path_after_colon(cursor, key)
    elif arrow.text.startswith("#"):
        step = _path_of_list(key.text)
    else:
        step = _step(key.text, is_text=key.kind == STRING)
    if step is None or (key.kind != STRING and not key.text.isdigit() and arrow.text != ":"):
        raise cursor.error(
            key.start, f"{arrow.text} takes a key, an index or a path", found=key.describe(), expected="as in 'user'"
        )
    text, path = value, Literal(key.start, step if step.startswith("$") else f"${step}", STRING_TYPE)
    if isinstance(value, Call) and value.name == ARROW:  # the path goes on
        text, before = value.args
        assert isinstance(before, Literal), "-> has a constant path"
        path = Literal(before.at, before.text + path.text[1:], STRING_TYPE)
    at = cursor.tokens[start].start
    written = cursor.text_since(start)
    name = ARROW if arrow.text in (ARROW, "#>") else "get_json_object"
    last_arrow = arrow.start - at
    as_text = f"{written[:last_arrow]}->>{written[last_arrow + len(arrow.text) :]}"
    as_text = as_text if arrow.text == ARROW else written.replace("#>", "#>>")
    return Call(at, name, (text, path), written=WrittenCall(cursor.last_end, (as_text,)))


def as_json(cursor: TokenCursor, value: Node, start: int) -> Node:
    """x::json, of which -> and ->> take a part."""
    end = cursor.last_end
    text = cursor.source.text[cursor.tokens[start].start : end]
    text = re.sub(r"(?i)\s*::\s*\w+$|^CAST\s*\(|\s+AS\s+\w+\s*\)$", "", text)
    path = Literal(value.at, "$", STRING_TYPE)
    return Call(cursor.tokens[start].start, ARROW, (value, path), written=WrittenCall(end, (text,)))


def _path_after_colon(cursor: TokenCursor, key: Token) -> str | None:
    """payload:user.tags[0], as in Databricks and Snowflake."""
    path = _step(key.text, is_text=key.kind in (WORD, QUOTED))
    while path and cursor.sees_symbol(".", "["):
        symbol, inner = cursor.take(), cursor.take()
        if symbol.text == "[":
            cursor.expect_symbol("]", "the index")
        step = _step(inner.text, is_text=inner.kind != NUMBER)
        path = path + step if step else None
    return path


def _path_of_list(text: str) -> str | None:
    """Payload #>> '{user,tags,0}', as in PostgreSQL."""
    if not (text.startswith("{") and text.endswith("}")):
        return None
    keys = [key.strip() for key in text[1:-1].split(",")]
    steps = [_step(key, is_text=not key.isdigit()) for key in keys]
    return None if None in steps else "".join(step for step in steps if step)


def json_as_text(node: Node) -> Node:
    """The text of a part of JSON that is cast at once: then it does not matter that a text has quotes in JSON."""
    return replace(node, name="get_json_object") if isinstance(node, Call) and node.name == ARROW else node


def _step(text: str, *, is_text: bool) -> str | None:
    if not is_text:
        return f"[{text}]"
    if text.startswith("$"):
        return text
    if _PLAIN_KEY.fullmatch(text):
        return f".{text}"
    return None if not text or "'" in text or "?" in text else f"['{text}']"


def between_symmetric(at: int, value: Node, low: Node, high: Node, negated: bool) -> Node:
    """The value between two bounds, whichever of them is the lower."""
    either = Logic(at, "OR", (Test(at, "BETWEEN", (value, low, high)), Test(at, "BETWEEN", (value, high, low))))
    return Operation(at, "NOT", (either,)) if negated else either


def _type_function(cursor: TokenCursor, read: Readers) -> Node | None:
    """date(at), string(n): casts, as in Spark."""
    start = cursor.index
    name = cursor.take()
    cursor.take()
    value = read.expression(cursor)
    if not cursor.accept_symbol(")"):
        cursor.index = start
        return None
    return Cast(name.start, json_as_text(value), _TYPE_FUNCTIONS[name.upper], "CAST")


def read_like(cursor: TokenCursor, read: Readers, op: str, left: Node, at: int, negated: bool) -> Node:
    """Read what follows LIKE: a pattern with ESCAPE, or ANY (…) and ALL (…) of several."""
    joins = {"ANY": "OR", "SOME": "OR", "ALL": "AND"}
    if cursor.next.upper in joins and cursor.ahead(1).text == "(" and not negated:
        join = joins[cursor.take().upper]
        cursor.take()
        patterns = [read.operand(cursor)]
        while cursor.accept_symbol(","):
            patterns.append(read.operand(cursor))
        cursor.expect_symbol(")", f"the patterns of {op}")
        tests: tuple[Node, ...] = tuple(Test(at, op, (left, pattern)) for pattern in patterns)
        return tests[0] if len(tests) == 1 else Logic(at, join, tests)
    pattern = read.operand(cursor)
    if cursor.accept("ESCAPE"):
        escape = cursor.take()
        if escape.kind != STRING or len(escape.text) != 1 or not isinstance(pattern, Literal):
            raise cursor.error(escape.start, "ESCAPE takes one character", expected=r"as in ESCAPE '!'")
        pattern = replace(pattern, text=_with_backslashes(pattern.text, escape.text))
    return Test(at, op, (left, pattern), negated)


def _with_backslashes(pattern: str, escape: str) -> str:
    """The pattern of LIKE with a backslash before the characters that `escape` stands before."""
    if escape == "\\":
        return pattern
    pieces = re.split(f"{re.escape(escape)}(.)", pattern.replace("\\", "\\\\"), flags=re.DOTALL)
    return "".join(piece if i % 2 == 0 or piece not in "%_" else f"\\{piece}" for i, piece in enumerate(pieces))


_TYPE_FUNCTIONS = {
    "DATE": DATE, "TIMESTAMP": TIMESTAMP, "STRING": STRING_TYPE, "INT": INT, "BIGINT": BIGINT, "DOUBLE": DOUBLE,
    "FLOAT": DOUBLE, "BOOLEAN": BOOLEAN,
}  # fmt: skip
FORMS: dict[str, Callable[[TokenCursor, Readers], Node | None]] = {
    "EXTRACT": _extract,
    "DATE_PART": _date_part,
    "DATEPART": _date_part,
    "SUBSTRING": _substring,
    "SUBSTR": _substring,
    "TRIM": _trim,
    "POSITION": _position,
    "FLOOR": _floor,
    "CEIL": _ceil,
    "JSON_VALUE": _json_value,
    **dict.fromkeys(_TYPE_FUNCTIONS, _type_function),
}
