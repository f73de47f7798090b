"""Values of one field, block by block: a function of seed, field and block alone, on every machine and version.

Only the raw numbers of the generator are used; how libraries make distributions of them may change with a version.
"""

from __future__ import annotations

import zlib
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from headrace.ingest.generate.rules import Rule, constant, default_rule
from headrace.types import Type

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
