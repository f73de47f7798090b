"""Signatures of functions: parameters, their kinds, and checks of arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from headrace.errors import DefinitionError
from headrace.language.calendar import zone_name
from headrace.language.coercion import VOID
from headrace.language.patterns import is_format
from headrace.language.terms import Term
from headrace.types import INT, STRING, Type

Result = Type | Callable[[Sequence[Term]], Type | None]
KINDS = {
    "NUMBER": ("INT", "BIGINT", "DOUBLE", "DECIMAL"),
    "INTEGER": ("INT", "BIGINT"),
    "TIME": ("DATE", "TIMESTAMP"),
    "NESTED": ("ARRAY", "MAP"),
}
CONSTANTS = (
    "REGEX",
    "TEXT",
    "UNIT",
    "ZONE",
    "FORMAT",
    "PATTERN",
    "PART",
    "GROUP",
    "COUNT",
    "BITS",
    "INDEX",
)  # kinds that take a literal only
UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond")
URL_PARTS = ("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO")


@dataclass(frozen=True)
class FunctionParameter:
    """One parameter of a function."""

    name: str
    kind: str  # types and KINDS joined by |, ANY, SAME (a type in common with the other SAMEs), or one of CONSTANTS
    optional: bool = False
    repeats: bool = False

    def refuse(self, term: Term) -> str | None:
        """Return what the parameter expects, if the argument is not that; else None."""
        if self.kind in CONSTANTS:
            return _refuse_constant(self.kind, term)
        if self.kind in ("ANY", "SAME") and term.type.is_nested:
            return "a single value"
        if self.kind in ("ANY", "SAME") or (term.type == VOID and not term.is_literal):
            return None
        types = {name for kind in self.kind.split("|") for name in KINDS.get(kind, (kind,))}
        return None if term.type.name in types else self.kind.replace("NESTED", "ARRAY|MAP").replace("|", " or ")


@dataclass(frozen=True)
class ScalarFunction:
    """A row of the table."""

    name: str
    takes: str
    result: Result
    duckdb: str = ""  # the translation of a computed field, {0}, {1}, … its arguments; empty: not for computed fields
    aliases: tuple[str, ...] = ()
    refuse: Callable[[Sequence[Term]], str | None] | None = None  # other errors
    group: str = ""

    @cached_property
    def parameters(self) -> tuple[FunctionParameter, ...]:
        """The parameters, read from `takes`: "a STRING, [b INT], c SAME..."."""
        parameters = []
        for part in filter(None, (part.strip() for part in self.takes.split(","))):
            name, kind = part.strip("[].").split(" ")
            parameters.append(FunctionParameter(name, kind, part.startswith("["), part.endswith("...")))
        return tuple(parameters)

    def pair(self, count: int) -> list[FunctionParameter] | None:
        """The parameter of each of `count` arguments; None if there are too few or too many."""
        parameters = list(self.parameters)
        least = sum(not (p.optional or p.repeats) for p in parameters)
        if parameters and parameters[-1].repeats:
            parameters += [parameters[-1]] * (count - len(parameters))
        return parameters[:count] if least <= count <= len(parameters) else None

    def result_type(self, args: Sequence[Term]) -> Type | None:
        """The type of the value; None if the arguments have no type in common."""
        return self.result(args) if callable(self.result) else self.result

    @property
    def signature(self) -> str:
        """The function as in the documentation."""
        return f"{self.name}({self.takes})"


def _refuse_constant(kind: str, term: Term) -> str | None:
    text = term.text if term.is_literal else None
    match kind:
        case "UNIT":
            good = text is not None and text.lower() in UNITS
            return None if good else "one of '" + "', '".join(UNITS) + "'"
        case "ZONE":
            return None if term.type == STRING and text is not None and _is_zone(text) else "such as 'Europe/Berlin'"
        case "PART":
            return None if text in URL_PARTS else "one of '" + "', '".join(URL_PARTS) + "'"
        case "REGEX":
            return None if term.type == STRING and text is not None else "a constant pattern"
        case "FORMAT":
            good = term.type == STRING and text is not None and is_format(text)
            return None if good else "a constant pattern such as 'yyyy-MM-dd HH:mm:ss'"
        case "PATTERN":
            return None if term.type == STRING and text is not None else "a constant format such as 'dd/MMM/yyyy'"
        case "TEXT":
            return None if term.type == STRING and text is not None else "a constant text"
        case "BITS":
            return None if text in ("224", "256", "384", "512") else "224, 256, 384 or 512"
        case "INDEX":
            return None if term.type == INT and text not in (None, "0") else "a constant INT other than 0"
        case _:
            least = 0 if kind == "GROUP" else -1000
            good = term.type == INT and text is not None and least <= int(text) <= 1000
            return None if good else f"a constant INT from {least} to 1000"


def _is_zone(text: str) -> bool:
    try:
        zone_name(text)
    except DefinitionError:
        return False
    return True
