"""What an aggregate takes: arguments, which are expressions over an event, then parameters, which are constants."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.types import Type

Single = bool | int | float | str
Constant = Single | tuple[Single, ...]


@dataclass(frozen=True)
class ArgumentKind:
    """The values that an argument may have."""

    words: str
    types: tuple[str, ...] = ()  # names of types; none: every type
    nested: bool = False  # ARRAY, STRUCT and MAP too
    fix: str = ""  # what to write where the type is another one; {x} is the argument
    maps: bool = True  # with `nested`: also those with a MAP in them, which has no order

    def takes(self, of: Type) -> bool:
        """Whether values of this type fit."""
        if of.is_nested:
            return self.nested and (self.maps or not _has_map(of))
        return not self.types or of.name in self.types

    def advice(self, of: Type, x: str) -> str:
        """What to write for an argument of a type that it does not take; empty if nothing is known."""
        fix = _AS_NUMBER.get(of.name, self.fix) if "DOUBLE" in self.types else self.fix
        return fix.format(x=x)


_AS_NUMBER = {  # for types that have no cast to a DOUBLE, or a better one
    "BOOLEAN": "cast it: CAST({x} AS INT)",
    "DATE": "write datediff({x}, DATE '1970-01-01')",
    "TIMESTAMP": "write unix_seconds({x})",
}


def _has_map(of: Type) -> bool:
    return of.name == "MAP" or any(_has_map(part) for _, part in of.parts)


ANY = ArgumentKind("a value", nested=True)
KEPT = ArgumentKind("a value", nested=True, maps=False, fix="take one of its values, as in {x}['key']")
SINGLE = ArgumentKind("a value")
NUMBER = ArgumentKind("a number", ("INT", "BIGINT", "DOUBLE", "DECIMAL"), fix="cast it: CAST({x} AS DOUBLE)")
CONDITION = ArgumentKind("a condition", ("BOOLEAN",), fix="write a condition, as in {x} IS NOT NULL")


@dataclass(frozen=True)
class Argument:
    """An expression that an aggregate takes.

    Without one that is `optional` the aggregate is of all events: in SQL `name(*)`, or a constant in its place.
    The last one may be one that `repeats`: then it can be given several times, and no parameters follow.
    """

    name: str
    kind: ArgumentKind
    optional: bool = False
    repeats: bool = False


def whole(constant: Constant) -> int:
    """A constant that is a whole number, by the type of its parameter."""
    assert isinstance(constant, int), constant
    return constant


@dataclass(frozen=True)
class Parameter:
    """A constant that follows the arguments: the 0.95 of approx_percentile(x, 0.95)."""

    name: str
    type: type[bool] | type[int] | type[float] | type[str]
    words: str  # what it is: "a number from 0 to 1"
    examples: tuple[Constant, ...]  # that tests try
    optional: bool = False  # it may be left out, with all that follow it
    one: bool = True  # whether it may be a single constant
    several: bool = False  # whether it may be a list of them: array(0.5, 0.9) in SQL

    def convert(self, value: object) -> Constant | None:
        """The value as this parameter keeps it; None if it is of another type."""
        if not isinstance(value, list | tuple):
            return self._single(value) if self.one else None
        items = tuple(item for item in map(self._single, value) if item is not None)
        return items if self.several and items and len(items) == len(value) else None

    @property
    def annotation(self) -> str:
        """Its type in Python."""
        name = self.type.__name__
        types = [name] * self.one + [f"list[{name}]"] * self.several + ["None"] * self.optional
        return " | ".join(types)

    def _single(self, value: object) -> Single | None:
        if isinstance(value, bool) is not (self.type is bool):
            return None
        if self.type is float and isinstance(value, int | float):
            return float(value)
        return value if isinstance(value, self.type) else None
