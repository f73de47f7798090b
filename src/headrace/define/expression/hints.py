"""Messages for mistakes in expressions: what is wrong with a name, and what to write instead."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.aggregate import REGISTRY
from headrace.define.expression.functions import ALIASES, FUNCTIONS, NOT_HERE, TYPE_NAMES, UNSTABLE, WHY_UNSTABLE
from headrace.define.expression.peers import instead_of_function
from headrace.define.expression.standard import ARROW
from headrace.define.expression.syntax import Call, Name
from headrace.define.expression.terms import Term, render
from headrace.define.tokens import Source, escape
from headrace.errors import DefinitionError, did_you_mean
from headrace.types import Type

USE_EVENT_TIME = "use the event time or a field of the event"
_CASTS = {
    ("DATE", "number"): "use datediff(x, DATE '1970-01-01')",
    ("TIMESTAMP", "number"): "use unix_seconds(x), unix_millis(x) or unix_micros(x)",
    ("number", "TIMESTAMP"): "use timestamp_seconds(x), timestamp_millis(x) or timestamp_micros(x)",
    ("number", "DATE"): "use to_date(timestamp_seconds(x)) or timestamp_millis",
}


def describe(term: Term) -> str:
    """A value as an error names it: its type and its SQL."""
    return f"{term.type} ({render(term)})"


def quoted_text(source: Source, node: Name) -> str | None:
    """What to write for a text in double quotes, which is a name here, as in standard SQL."""
    return (
        f"write {escape(node.name)}, in single quotes, for a text"
        if source.text[node.at : node.at + 1] == '"'
        else None
    )


def unknown_function(source: Source, call: Call) -> DefinitionError:
    """Why a definition cannot call this function, and what to write."""
    name = call.name.lower()
    end = call.written.end if call.written else None
    if name == ARROW:
        message = "-> gives JSON, where a text has quotes"
        return source.error(call.at, message, write=instead_of_function(call), end=end)
    write = instead_of_function(call)
    if write:
        return source.error(call.at, f"the function {call.name} is not available here", write=write, end=end)
    message, fix = _why_not(name)
    return source.error(call.at, message, fix=fix)


def _why_not(name: str) -> tuple[str, str | None]:
    if name in REGISTRY:
        return f"the aggregate {name} cannot be used inside an expression", "make it a separate column"
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
    hint = did_you_mean(name, [*FUNCTIONS, *ALIASES, *REGISTRY]) or "docs/definitions.md lists those that are"
    return f"the function {name} is not available in definitions", hint


def similar_name(name: str, spellings: Mapping[str, str]) -> str:
    """The nearest of these names, or all of them; `spellings` are by their lower case."""
    return did_you_mean(name, spellings.values()) or "it has " + ", ".join(spellings.values())


def part_of_other_type(value: Term, name: str) -> str | None:
    """How to get a part by name out of a value that is not a STRUCT."""
    match value.type.name:
        case "ARRAY":
            return f"write {render(value)}[0].{name}"
        case "MAP":
            return f"write {render(value)}['{name}']"
    return None


def instead_of_cast(value: Type, to: Type) -> str | None:
    """The function that converts between two types that have no cast."""
    return _CASTS.get((_family(value), _family(to)))


def cast_to(term: Term, expected: str) -> str:
    """A cast to the type that is expected."""
    return f"write CAST({render(term)} AS {expected})"


def as_number(term: Term) -> str:
    """How to calculate with a value that is not a number."""
    if term.type.name == "TIMESTAMP":
        return "for a difference write unix_millis(a) - unix_millis(b); to shift it, at - INTERVAL 1 MINUTE"
    if term.type.name == "DATE":
        return "for a difference write datediff(a, b); to shift it, date_add(a, 1)"
    return cast_to(term, "DOUBLE")


def _family(type_: Type) -> str:
    return "number" if type_.is_numeric else type_.name
