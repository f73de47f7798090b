"""Values of generated fields by rules: the same for a seed, field and block on every machine and version."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.errors import DefinitionError, UsageError, did_you_mean
from headrace.language.durations import parse_duration
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
    """The rule for the values of a field."""

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
                f"field '{field}': a value of choice is not valid for the field", found=each, expected=str(of)
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


BLOCK = 1000  # events
MOST_ELEMENTS = 3  # of an ARRAY or MAP
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LIMITS = {"INT": (-(2**31), 2**31 - 1), "BIGINT": (-(2**63), 2**63 - 1)}
_TEXT = """\
the of and a to in is it you that he was for on are with as his they be at one have this from or had by hot
but some what there we can out other were all your when up use word how said an each she which do their time
if will way about many then them would write like so these her long make thing see him two has look more day
could go come did my sound no most number who over know water than call first people may down side been now
find
"""
WORDS = _TEXT.split()

Numbers = npt.NDArray[np.float64]


class Draws:
    """Numbers in [0, 1) for one field of one block."""

    def __init__(self, seed: int, field: str, block: int) -> None:
        entropy = np.random.SeedSequence([seed, zlib.crc32(field.encode()), block])
        self._bits = np.random.PCG64(entropy)

    def take(self, count: int) -> Numbers:
        """The next numbers."""
        return np.asarray((self._bits.random_raw(count) >> np.uint64(11)) * 2.0**-53, dtype=np.float64)


def values(rule: Rule, of: Type, draws: Draws, first: int, times_us: npt.NDArray[np.int64]) -> list[Any]:
    """The values of a block whose first event has this number, as JSON has them."""
    count = len(times_us)
    column = _NESTED[of.name](of, draws, first, times_us) if of.is_nested else _plain(rule, of, draws, first, times_us)
    if rule.null_share:
        column = [
            None if draw < rule.null_share else value for value, draw in zip(column, draws.take(count), strict=True)
        ]
    return column


def _plain(rule: Rule, of: Type, draws: Draws, first: int, times_us: npt.NDArray[np.int64]) -> list[Any]:
    count = len(times_us)
    match rule.kind:
        case "choice":
            indexes = np.searchsorted(_shares(rule.numbers), draws.take(count), side="right")
            options = [constant(text, of) for text in rule.texts]
            return [options[index] for index in indexes]
        case "zipf":
            ranks = np.searchsorted(_zipf(int(rule.numbers[0])), draws.take(count), side="right")
            return [f"{rule.texts[0]}-{rank}" for rank in ranks] if of.name == "STRING" else _numbers(ranks, of)
        case "uniform":
            least, greatest = rule.numbers
            spread = least + draws.take(count) * (greatest - least + of.is_integer)
            return _numbers(np.floor(spread) if of.is_integer else spread, of)
        case "normal":
            angles, radii = draws.take(count), draws.take(count)
            deviations = np.sqrt(-2 * np.log(1 - radii)) * np.cos(2 * np.pi * angles)
            return _numbers(rule.numbers[0] + rule.numbers[1] * deviations, of)
        case "exponential":
            return _numbers(-np.log(1 - draws.take(count)) * rule.numbers[0], of)
        case "sequence":
            numbers = int(rule.numbers[0]) + np.arange(first, first + count)
            return [f"{rule.texts[0]}-{number}" for number in numbers] if of.name == "STRING" else _numbers(numbers, of)
        case "words":
            least, most = map(int, rule.numbers)
            lengths = least + np.floor(draws.take(count) * (most - least + 1)).astype(int)
            return [_sentence(draws, length) for length in lengths]
        case _:
            return _times(rule, of, draws, times_us)


def _sentence(draws: Draws, length: int) -> str:
    return " ".join(WORDS[index] for index in np.searchsorted(_zipf(len(WORDS)), draws.take(length), side="right"))


def _times(rule: Rule, of: Type, draws: Draws, times_us: npt.NDArray[np.int64]) -> list[str]:
    share, longest_ms = rule.numbers
    if share:
        late = draws.take(len(times_us)) < share
        times_us = times_us - (late * draws.take(len(times_us)) * longest_ms * 1000).astype(np.int64)
    texts = [write_time(int(time_us)) for time_us in times_us]
    return [text[:10] for text in texts] if of.name == "DATE" else texts


def write_time(time_us: int) -> str:
    """A time as ISO 8601 in UTC."""
    return (_EPOCH + timedelta(microseconds=time_us)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _numbers(numbers: npt.NDArray[Any], of: Type) -> list[Any]:
    match of.name:
        case "INT" | "BIGINT":
            least, most = _LIMITS[of.name]
            return [min(max(round(number), least), most) for number in numbers.tolist()]
        case "DECIMAL":
            most_digits = float(10 ** (of.precision - of.scale)) - 10.0**-of.scale
            return [f"{min(max(number, -most_digits), most_digits):.{of.scale}f}" for number in numbers.tolist()]
        case "STRING":
            return [f"{number:.10g}" for number in numbers.tolist()]
        case _:
            return [round(float(number), 6) for number in numbers.tolist()]


def _array(of: Type, draws: Draws, first: int, times_us: npt.NDArray[np.int64]) -> list[Any]:
    lengths = np.floor(draws.take(len(times_us)) * (MOST_ELEMENTS + 1)).astype(int)
    inner = values(default_rule("item", of.inner), of.inner, draws, first, np.repeat(times_us, lengths))
    ends = np.cumsum(lengths)
    return [inner[end - length : end] for end, length in zip(ends, lengths, strict=True)]


def _map(of: Type, draws: Draws, first: int, times_us: npt.NDArray[np.int64]) -> list[Any]:
    return [{f"key-{n}": value for n, value in enumerate(each)} for each in _array(of, draws, first, times_us)]


def _struct(of: Type, draws: Draws, first: int, times_us: npt.NDArray[np.int64]) -> list[Any]:
    columns = [values(default_rule(name, part), part, draws, first, times_us) for name, part in of.parts]
    names = [name for name, _ in of.parts]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


_NESTED = {"ARRAY": _array, "MAP": _map, "STRUCT": _struct}


@lru_cache(maxsize=64)
def _shares(weights: tuple[float, ...]) -> Numbers:
    """The upper end of each one's part of [0, 1), except the last."""
    sums = np.cumsum(np.array(weights))
    return np.asarray(sums[:-1] / sums[-1], dtype=np.float64)


@lru_cache(maxsize=8)
def _zipf(count: int) -> Numbers:
    sums = np.cumsum(1.0 / np.arange(1, count + 1))
    return np.asarray(sums[:-1] / sums[-1], dtype=np.float64)
