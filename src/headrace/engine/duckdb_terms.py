"""Computed fields: what they may contain, and how DuckDB evaluates them, once, when the event is appended.

Fields reach DuckDB with the types of `duckdb_types`, TIMESTAMP as TIMESTAMPTZ in a session whose TimeZone is UTC.
Where Spark would wrap an overflowing integer, the value here is NULL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from headrace.duckdb_connections import literal
from headrace.engine.duckdb_values import (
    DIVISION,
    KEPT,
    WRAP,
    cast_sql,
    division_sql,
    keep_arithmetic,
    parse_format_sql,
    time_sql,
    wrapped_sql,
)
from headrace.engine.value_bounds import BOUNDS, makes_time
from headrace.errors import DefinitionError
from headrace.language.coercion import VOID
from headrace.language.functions import FUNCTIONS, TABLE
from headrace.language.patterns import re2_pattern, re2_replacement
from headrace.language.terms import COMPARISON, LEVELS, PREDICATES, TRIMS, Expression, Term, render
from headrace.language.user_functions import find_function
from headrace.types import Type

PATTERNS = ("RLIKE", "regexp_like", "regexp_extract", "regexp_replace", "split")
ALLOWED = tuple(sorted(function.name for function in TABLE if function.duckdb))
# Of the fused lane, which has to compute what Spark does (`duckdb_views.py`): they fail where DuckDB would differ.
OR_FAIL, SAME_CASE = "CAST or fail", "same "
# Characters, as ranges of a regular expression, that Spark writes in the other case and DuckDB does not, or otherwise:
# as several characters, by their place in a word (sigma), or those of newer Unicode.
OTHER_CASE = {
    "lower": r"\x{130}\x{3a3}\x{1c89}\x{a7cb}\x{a7cc}\x{a7ce}\x{a7d2}\x{a7d4}\x{a7da}\x{a7dc}"
    r"\x{10d50}-\x{10d65}\x{16ea0}-\x{16eb8}",
    "upper": r"\x{df}\x{149}\x{19b}\x{1f0}\x{264}\x{390}\x{3b0}\x{587}\x{1c8a}\x{1e96}-\x{1e9a}\x{1f50}-\x{1fff}"
    r"\x{a7cd}\x{a7cf}\x{a7d3}\x{a7d5}\x{a7db}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{10d70}-\x{10d85}\x{16ebb}-\x{16ed3}",
}


def duckdb_type(type_: Type) -> str:
    """The DuckDB type of a Headrace type."""
    match type_.name:
        case "ARRAY":
            return f"{duckdb_type(type_.inner)}[]"
        case "MAP":
            return f"MAP(VARCHAR, {duckdb_type(type_.inner)})"
        case "STRUCT":
            return f"STRUCT({', '.join(f'{duckdb_name(name)} {duckdb_type(of)}' for name, of in type_.parts)})"
    return {"STRING": "VARCHAR", "INT": "INTEGER", "TIMESTAMP": "TIMESTAMPTZ", "BINARY": "BLOB"}.get(
        type_.name, str(type_)
    )


def duckdb_sql(expression: Expression, types: Mapping[str, Type]) -> str:
    """The expression for DuckDB, over fields of these types; where it cannot be evaluated it is NULL."""
    term = expression.over(types)
    return f"TRY(CAST({translate(keep_arithmetic(term))} AS {duckdb_type(expression.type)}))"


def refuse_computed(term: Term) -> DefinitionError | None:
    """Why a computed field cannot contain this term, or None."""
    try:
        translate(term)
    except DefinitionError as e:
        return e
    return None


def translate(term: Term) -> str:
    """The term in DuckDB's SQL; a date or time outside of the years 1 to 9999 is NULL, as in Spark."""
    sql = _translate(term)
    return _in_years(sql, term) if makes_time(term) else sql


def _same_case(function: str, text: str) -> str:
    """`lower` or `upper`; fails where Spark's differs. Most texts are ASCII: they have as many bytes as characters."""
    differs = f"strlen({text}) <> length({text}) AND regexp_matches({text}, '[{OTHER_CASE[function]}]')"
    reason = f"{function}() of a text with special letters is computed by Spark"
    return f"CASE WHEN {differs} THEN error('{reason}') ELSE {function}({text}) END"


def _in_years(sql: str, term: Term) -> str:
    """The value in a list: if the expression occurred twice, DuckDB would compute it once, but outside of TRY."""
    first, last = (bound.replace("TIMESTAMP", "TIMESTAMPTZ") for bound in BOUNDS[term.type.name])
    return f"list_filter([TRY({sql})], lambda _t: _t BETWEEN {first} AND {last})[1]"


def _translate(term: Term) -> str:
    """Arguments are always in parentheses, so that precedence never matters."""
    if term.op == "field":
        return duckdb_name(term.text)
    if term.op == "literal":
        return _literal(term)
    if term.op == "interval":
        return f"INTERVAL {term.text} MILLISECOND"
    args = [f"({translate(arg)})" for arg in term.args]
    if term.op == DIVISION:
        return division_sql(term, args)
    if term.op.startswith(WRAP):
        return wrapped_sql(term, args)
    if term.op in KEPT.values():
        return f"CAST({term.op}({args[0]}, {args[1]}) AS {duckdb_type(term.type)})"
    if term.op == "part":
        return f"struct_extract({args[0]}, {literal(term.text)})"
    if term.op == "item":
        return _item(term, args)
    if term.op == OR_FAIL:
        whole = args[0] if term.args[0].type.is_integer else f"trunc({args[0]})"
        return f"CAST({whole} AS {duckdb_type(term.type)})"
    if term.op.startswith(SAME_CASE):
        return _same_case(term.op.removeprefix(SAME_CASE), args[0])
    if term.op in ("CAST", "TRY_CAST"):
        return cast_sql(args[0], term.args[0], term)
    if term.op == "CASE":
        whens = " ".join(f"WHEN {args[i]} THEN {args[i + 1]}" for i in range(0, len(args) - 1, 2))
        return f"CASE {whens}{f' ELSE {args[-1]}' if len(args) % 2 else ''} END"
    if term.op in PATTERNS:
        args[1:] = _pattern(term)
    if term.op in PREDICATES:
        return _predicate(term, args)
    if term.op in LEVELS:
        return _operator(term, args)
    return _call(term, args)


def duckdb_name(name: str) -> str:
    """A name as DuckDB's SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def _item(term: Term, args: list[str]) -> str:
    if term.args[0].type.name == "MAP":
        return f"map_extract_value({args[0]}, {args[1]})"
    # DuckDB counts from 1, and from the end where the index is negative.
    return f"CASE WHEN {args[1]} >= 0 THEN list_extract({args[0]}, CAST({args[1]} AS BIGINT) + 1) END"


def _literal(term: Term) -> str:
    match term.type.name:
        case "STRING":
            return literal(term.text)
        case "TIMESTAMP":
            return f"TIMESTAMPTZ '{term.text}+00'"
        case "DATE":
            return f"DATE '{term.text}'"
        case "BOOLEAN" | "VOID":
            return term.text
    return f"CAST({term.text.rstrip('LBD')} AS {duckdb_type(term.type)})"


def _pattern(term: Term) -> list[str]:
    """The constant arguments of a function that takes a pattern."""
    pattern = term.args[1].text
    match term.op:
        case "regexp_extract":  # DuckDB numbers groups only up to 9
            group = int(term.args[2].text) if len(term.args) > 2 else 1
            return [literal(re2_pattern(pattern, group)), "1" if group else "0"]
        case "regexp_replace":
            return [literal(re2_pattern(pattern)), literal(re2_replacement(term.args[2].text))]
    return [literal(re2_pattern(pattern))]


def _predicate(term: Term, args: list[str]) -> str:
    negation = "NOT " if term.negated else ""
    if term.op.startswith("IS "):
        return f"{args[0]} IS {negation}{term.op[3:]}"
    if term.op == "IN":
        return f"{args[0]} {negation}IN ({', '.join(args[1:])})"
    if term.op == "BETWEEN":
        return f"{args[0]} {negation}BETWEEN {args[1]} AND {args[2]}"
    if term.op == "RLIKE":
        return f"{negation}regexp_matches({args[0]}, {args[1]})"
    return f"{args[0]} {negation}{term.op} {args[1]} ESCAPE '\\'"


def _operator(term: Term, args: list[str]) -> str:
    if term.op in ("AND", "OR"):
        return f" {term.op} ".join(args)
    if len(args) == 1:
        return f"{term.op} {args[0]}"
    if LEVELS[term.op] == COMPARISON:
        return f"{args[0]} {'IS NOT DISTINCT FROM' if term.op == '<=>' else term.op} {args[1]}"
    if term.op in ("/", "%", "DIV"):
        if term.op != "%" and "DECIMAL" in (term.args[0].type.name, term.args[1].type.name):
            raise DefinitionError(
                f"a computed field cannot divide a DECIMAL ({render(term)})", fix="CAST both sides to DOUBLE first"
            )
        args[1] = f"nullif({args[1]}, 0)"
    op = "//" if term.op == "DIV" else term.op
    return (
        f"CAST({args[0]} {op} {args[1]} AS {duckdb_type(term.type)})"
        if term.type != VOID
        else f"{args[0]} {op} {args[1]}"
    )


def _call(term: Term, args: list[str]) -> str:
    if find_function(term.op):
        return f"{duckdb_name(term.op)}({', '.join(args)})"
    function = FUNCTIONS[term.op]
    template = function.duckdb
    if not template:
        raise DefinitionError(
            f"{term.op} is not available in a computed field",
            expected="an operator, CASE, CAST or one of " + ", ".join(ALLOWED),
            fix="use it in the views instead",
        )
    if term.op in ("to_date", "to_timestamp"):
        if len(args) == 1:
            return time_sql(args[0], term.args[0], term.type)
        return parse_format_sql(args[0], term.args[0], term.args[1].text, term.type)
    if term.op == "replace" and len(args) == 2:
        args.append("''")
    if term.op in TRIMS and len(args) == 1:
        args.append("' '")
    if term.args and term.args[0].type.name == "MAP":
        template = {"size": "cardinality({0})", "element_at": "map_extract_value({0}, {1})"}.get(term.op, template)
    if term.op == "substring":
        return _substring(args)
    if term.op in ("ceil", "floor"):  # DuckDB makes a DOUBLE of a whole number, and gives one
        return args[0] if term.args[0].type.is_integer else f"CAST({term.op}({args[0]}) AS {duckdb_type(term.type)})"
    lists = {"*": ", ".join(args), "+": " || ".join(args)}
    # In one pass: an argument may itself contain {1}, as a pattern can.
    return re.sub(r"\{([*+\d])\}", lambda match: lists.get(match[1]) or args[int(match[1])], template)


def _substring(args: list[str]) -> str:
    text, start = args[0], args[1]
    from_end = f"length({text}) + {start}"
    first = f"(CASE WHEN {start} > 0 THEN {start} - 1 WHEN {start} < 0 THEN {from_end} WHEN {start} = 0 THEN 0 END)"
    last = f"({first} + {args[2]})" if len(args) > 2 else f"length({text})"
    piece = f"substring({text}, greatest({first}, 0) + 1, greatest({last} - greatest({first}, 0), 0))"
    return f"CASE WHEN {first} IS NOT NULL AND {last} IS NOT NULL THEN {piece} END"
