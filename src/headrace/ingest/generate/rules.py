"""The rule of a field: what its values are like. As text: `choice(GET:9, POST:1)`, `normal(20, 5) null 10%`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from headrace.language.durations import parse_duration
from headrace.errors import DefinitionError, UsageError, did_you_mean
from headrace.types import Type

_RULE = re.compile(r"\s*([a-z]+)\s*\((.*)\)\s*(?:null\s+(\d+(?:\.\d+)?)\s*%\s*)?", re.DOTALL)
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")
NUMBERS = ("INT", "BIGINT", "DOUBLE", "DECIMAL")
FORMS = {  # how each is written, and the types that it is for
    "choice": ("choice(A, B, …) or choice(A:9, B:1)", ("STRING", "BOOLEAN", "DATE", "TIMESTAMP", *NUMBERS)),
    "zipf": ("zipf(COUNT) or zipf(COUNT, PREFIX)", ("STRING", *NUMBERS)),
    "uniform": ("uniform(LEAST, GREATEST)", ("STRING", *NUMBERS)),
    "normal": ("normal(MEAN, DEVIATION)", ("STRING", *NUMBERS)),
    "exponential": ("exponential(MEAN)", ("STRING", *NUMBERS)),
    "sequence": ("sequence() or sequence(FIRST)", ("STRING", *NUMBERS)),
    "words": ("words(COUNT) or words(LEAST, MOST)", ("STRING",)),
    "time": ("time() or time(SHARE%, LONGEST DELAY)", ("TIMESTAMP", "DATE", "STRING")),
}
MOST_VALUES = 10_000_000
MOST_WORDS = 1_000


@dataclass(frozen=True)
class Rule:
    """What the values of a field are like."""

    kind: str
    texts: tuple[str, ...] = ()  # the values of a choice, the prefix of zipf
    numbers: tuple[float, ...] = ()
    null_share: float = 0.0


def default_rule(name: str, of: Type) -> Rule:
    """The rule of a field that has none."""
    match of.name:
        case "BOOLEAN":
            return Rule("choice", ("true", "false"), (1.0, 1.0))
        case "INT" | "BIGINT":
            return Rule("uniform", (), (0.0, 999.0))
        case "DOUBLE":
            return Rule("normal", (), (50.0, 15.0))
        case "DECIMAL":
            return Rule("exponential", (), (50.0,))
        case "DATE" | "TIMESTAMP":
            return Rule("time", (), (0.0, 0.0))
        case _:
            return Rule("zipf", (name,), (100.0,))


def parse_rule(field: str, of: Type, text: str, *, nullable: bool) -> Rule:
    """The rule that a text describes, for a field of a type."""
    match = _RULE.fullmatch(text)
    kinds = ", ".join(FORMS)
    if match is None:
        raise UsageError(
            f"field '{field}': '{text}' is not a rule", expected=f"such as choice(A:9, B:1) null 5%; kinds: {kinds}"
        )
    kind, null_share = match[1], float(match[3] or 0) / 100
    if kind not in FORMS:
        hint = did_you_mean(kind, FORMS)
        raise UsageError(f"field '{field}': there is no rule '{kind}'", expected=kinds, fix=hint)
    form, types = FORMS[kind]
    if of.name not in types:
        raise UsageError(f"field '{field}': {kind} makes no {of}", expected=f"a field of {', '.join(types)}")
    if null_share > 1:
        raise UsageError(f"field '{field}': null {match[3]}% is more than all events", expected="at most 100%")
    if null_share and not nullable:
        raise UsageError(f"field '{field}' is NOT NULL", found=f"null {match[3]}%", fix="leave out `null`")
    arguments = [part.strip() for part in match[2].split(",")] if match[2].strip() else []
    try:
        texts, numbers = _read(kind, field, arguments)
    except (ValueError, DefinitionError) as error:
        raise UsageError(f"field '{field}': '{text}' is not a rule", expected=form) from error
    for each in texts if kind == "choice" else ():
        try:
            constant(each, of)
        except (ValueError, DefinitionError) as error:
            raise UsageError(
                f"field '{field}': a value of choice does not fit", found=each, expected=str(of)
            ) from error
    return Rule(kind, texts, numbers, null_share)


def constant(text: str, of: Type) -> Any:
    """The value of a text of a choice; ValueError if the type has none."""
    match of.name:
        case "BOOLEAN":
            _expect(text.lower() in ("true", "false"))
            return text.lower() == "true"
        case "INT" | "BIGINT":
            return int(text)
        case "DOUBLE":
            return float(text)
        case _:
            return text


def _read(kind: str, field: str, arguments: list[str]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """The texts and numbers of a rule; ValueError if they are not what it takes."""
    count = len(arguments)
    match kind:
        case "choice":
            parts = [argument.rpartition(":") for argument in arguments]
            weighted = count > 0 and all(mark and _is_number(weight) for _, mark, weight in parts)
            texts = tuple(text for text, _, _ in parts) if weighted else tuple(arguments)
            weights = tuple(float(weight) for _, _, weight in parts) if weighted else (1.0,) * count
            _expect(count > 0 and sum(weights) > 0)
            return texts, weights
        case "zipf":
            _expect(count in (1, 2) and 1 <= int(arguments[0]) <= MOST_VALUES)
            return (arguments[1] if count == 2 else field,), (float(int(arguments[0])),)
        case "uniform" | "normal" | "exponential":
            numbers = tuple(map(float, arguments))
            _expect(count == (1 if kind == "exponential" else 2))
            _expect(kind != "uniform" or numbers[0] <= numbers[1])
            _expect(
                all(abs(number) < 1e300 for number in numbers) and numbers[-1] >= (-1e300 if kind == "uniform" else 0)
            )
            return (), numbers
        case "sequence":
            _expect(count < 2)
            return (field,), (float(int(arguments[0])) if count else 0.0,)
        case "words":
            _expect(count in (1, 2))
            least, most = int(arguments[0]), int(arguments[-1])
            _expect(1 <= least <= most <= MOST_WORDS)
            return (), (float(least), float(most))
        case _:
            share = _SHARE.fullmatch(arguments[0]) if count == 2 else None
            _expect(count == 0 or (share is not None and float(share[1]) <= 100))
            return (), (float(share[1]) / 100, float(parse_duration(arguments[1]))) if share else (0.0, 0.0)


def _is_number(text: str) -> bool:
    try:
        return 0 <= float(text) < 1e300
    except ValueError:
        return False


def _expect(true: bool) -> None:
    if not true:
        raise ValueError
