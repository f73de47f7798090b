"""Messages for mistakes in expressions: what is wrong with a name, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from headrace.errors import DefinitionError, did_you_mean, nearest
from headrace.language.aggregate_names import AGGREGATES
from headrace.language.coercion import CASTS
from headrace.language.functions import ALIASES, FUNCTIONS, NOT_HERE, TYPE_NAMES, UNSTABLE, WHY_UNSTABLE
from headrace.language.signatures import KINDS, FunctionParameter, ScalarFunction
from headrace.language.source_text import SourceText, escape
from headrace.language.standard_forms import ARROW
from headrace.language.syntax import Call, Name
from headrace.language.terms import Expression, Term, quote, render
from headrace.lazy import later
from headrace.types import Type

USE_EVENT_TIME = "use the event time or a field of the event; a query selects the last hour by --start=-1h"
MOST_DIGITS_OF_SECONDS = 11
foreign_functions = later("headrace.language.foreign.foreign_functions")  # after a mistake only
unavailable_syntax = later("headrace.language.foreign.unavailable_syntax")
Advice = dict[str, str | None]  # `fix`, a sentence, or `write`, the expression to write
_CASTS = {
    ("DATE", "number"): "datediff({x}, DATE '1970-01-01')",
    ("TIMESTAMP", "number"): "unix_seconds({x})|unix_millis({x})|unix_micros({x})",
    ("number", "TIMESTAMP"): "timestamp_seconds({x})|timestamp_millis({x})|timestamp_micros({x})",
    ("number", "DATE"): "to_date(timestamp_seconds({x}))|to_date(timestamp_millis({x}))",
}


def describe(term: Term) -> str:
    """A value as an error names it: its type and its SQL."""
    return f"{term.type} ({render(term)})"


def instead_of_name(source: SourceText, node: Name, spellings: Mapping[str, str]) -> Advice:
    """Return what to write for a name that no field has; a text in double quotes is a name here, as in standard SQL."""
    if source.text[node.at : node.at + 1] == '"':
        text = escape(node.name)
        return {"fix": f"write {text}, in single quotes, for a text", "write": text}
    near = nearest(node.name, spellings.values())
    if near is None:
        return {"fix": "it has " + ", ".join(spellings.values())}
    return {"fix": f"did you mean '{near}'?", "write": None if node.of else quote(near)}


def unknown_function(source: SourceText, call: Call) -> DefinitionError:
    """Why a definition cannot call this function, and what to write."""
    name = call.name.lower()
    end = call.written.end if call.written else None
    if name == ARROW:
        message = "-> returns JSON, in which text has quotes"
        return source.error(call.at, message, write=foreign_functions.instead_of_function(call), end=end)
    write = foreign_functions.instead_of_function(call)
    if write:
        return source.error(call.at, f"the function {call.name} is not available here", write=write, end=end)
    message, fix = _why_not(name)
    near = nearest(name, [*FUNCTIONS, *ALIASES, *AGGREGATES]) if message.startswith("the function") else None
    if near is None:
        return source.error(call.at, message, fix=fix)
    return source.error(call.at, message, fix=f"did you mean '{near}'?", write=near, end=call.at + len(call.name))


def _why_not(name: str) -> tuple[str, str | None]:
    if name in AGGREGATES:
        return f"the aggregate {name} is not allowed in an expression that is computed for each event", (
            "use it in SELECT or HAVING of a view"
        )
    if name in UNSTABLE:
        return f"{name} {WHY_UNSTABLE}", USE_EVENT_TIME
    if name == "proctime":
        return "proctime() is the time of processing, which is another one for each layer", (
            "remove the field: the event time of a stream without WATERMARK is the time of arrival, _arrived"
        )
    if name in TYPE_NAMES:
        return f"{name}(…) is not a function", f"write CAST(… AS {name.upper()})"
    if name in NOT_HERE:
        return f"{name} cannot be used here: {NOT_HERE[name]}", None
    return f"the function {name} is not available in definitions", "docs/functions.md lists those that are"


def similar_name(name: str, spellings: Mapping[str, str]) -> str:
    """The nearest of these names, or all of them; `spellings` are by their lower case."""
    return did_you_mean(name, spellings.values()) or "it has " + ", ".join(spellings.values())


def part_of_other_type(value: Term, name: str) -> str | None:
    """Return how to get a part by name out of a value that is not a STRUCT."""
    match value.type.name:
        case "ARRAY":
            return f"write {render(value)}[0].{name}"
        case "MAP":
            return f"write {render(value)}['{name}']"
        case "STRING":
            return f"if it is JSON, write {render(value)}->>'{name}'"
    return None


def part_hint(expression: Expression) -> str:
    """Return how to take a single value out of a nested one."""
    sql, of = expression.sql, expression.type
    while of.is_nested:
        sql += {"ARRAY": "[0]", "MAP": "['key']"}.get(of.name) or f".{of.parts[0][0]}"
        of = of.parts[0][1] if of.name == "STRUCT" else of.inner
    return f"take a part of it, as in {sql}"


def instead_of_cast(value: Term, to: Type) -> Advice:
    """The function that converts between two types that have no cast."""
    known = _CASTS.get((_family(value.type), _family(to)))
    if known is None:
        return {}
    calls = known.format(x=render(value)).split("|")
    return {"fix": f"write {' or '.join(calls)}", "write": calls[0] if len(calls) == 1 else None}


def instead_of_argument(function: ScalarFunction, parameter: FunctionParameter, arg: Term, expected: str) -> Advice:
    """Return what to write for an argument that does not fit."""
    if function.name == "concat" and arg.type.name == "BOOLEAN":
        return {"fix": f"|| joins texts; for conditions write OR, for its text {cast(arg, 'STRING')}"}
    if function.name == "length" and arg.type.name in ("ARRAY", "MAP"):
        return {"fix": f"write size({render(arg)})"}
    kinds = [*parameter.kind.split("|"), *KINDS.get(parameter.kind, ())]
    castable = CASTS.get(arg.type.name, ())
    to = next(
        (kind for kind in ("STRING", "DOUBLE", "TIMESTAMP", "BIGINT", "INT") if kind in kinds and kind in castable),
        None,
    )
    return {"write": cast(arg, to)} if to else {"fix": f"see {function.signature}"}


def cast(term: Term, to: str) -> str:
    """A cast to a type that is expected."""
    return f"CAST({render(term)} AS {to})"


def common_type_of(args: Sequence[Term]) -> str:
    """Return how to compare, or choose from, values of different types."""
    if len(args) == 2:
        for value, other in (tuple(args), tuple(reversed(args))):
            if other.type.name == "TIMESTAMP" and value.is_literal and value.type.is_integer:
                unit = "millis" if len(value.text) > MOST_DIGITS_OF_SECONDS else "seconds"
                return f"write timestamp_{unit}({value.text.rstrip('L')})"
        for value, other in (tuple(args), tuple(reversed(args))):
            if value.is_literal and value.type.name == "STRING" and other.type.is_numeric and _is_number(value.text):
                return f"write {value.text}"
        for value, other in (tuple(args), tuple(reversed(args))):
            if not value.is_literal and other.type.name in CASTS.get(value.type.name, ()):
                return f"write {cast(value, str(other.type))}"
    return "CAST one to the type of the other"


def whole(args: Sequence[Term]) -> str:
    """The whole part of a quotient."""
    return f"write floor({render(args[0])} / {render(args[1])})"


def as_number(term: Term, args: Sequence[Term], op: str) -> Advice:
    """Return how to calculate with a value that is not a number."""
    both = {arg.type.name for arg in args}
    if op == "-" and len(args) == 2 and both == {"TIMESTAMP"}:
        return {"fix": f"write unix_millis({render(args[0])}) - unix_millis({render(args[1])})"}
    if op == "-" and len(args) == 2 and both == {"DATE"}:
        return {"fix": f"write datediff({render(args[0])}, {render(args[1])})"}
    if op == "+" and term.type.name == "STRING" and term.is_literal:
        return {"fix": "to join texts write ||"}
    if term.type.name == "TIMESTAMP":
        return {"fix": f"to shift it write {render(term)} - INTERVAL 1 MINUTE"}
    if term.type.name == "DATE":
        return {"fix": f"to shift it write date_add({render(term)}, 1)"}
    return {"write": cast(term, "DOUBLE")} if "DOUBLE" in CASTS.get(term.type.name, ()) else {}


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?", text) is not None


def _family(type_: Type) -> str:
    return "number" if type_.is_numeric else type_.name
