"""Samples of rows: one condition for Spark and one for DuckDB, with equal results, and its share of all rows.

A row is kept if a hash of its event's position, or of its key, is below a bound. So it is the same rows in both lanes,
in every build and after every restart.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from headrace.aggregate.sampled import Scaling
from headrace.define.relation import Branch, Explode, Relation, RowStep, SampleRows
from headrace.errors import DefinitionError
from headrace.language.terms import Expression
from headrace.types import DATE, TIMESTAMP

POSITION = "_position"
BITS = 32  # of a hash
_ALL = (1 << BITS) - 1
_MULTIPLIERS = (0x7FEB352D, 0x446CA68B, 0x31848BAB)  # odd, and below 2^31: products of 32 bits fit in 63
_SHIFTS = (16, 15, 17)
_KEY_TYPES = ("STRING", "BOOLEAN", "INT", "BIGINT", "DATE", "TIMESTAMP")


@dataclass(frozen=True)
class _Engine:
    """Spellings that differ between the two engines."""

    xor: Callable[[str, str], str]
    shift: Callable[[str, int], str]
    text: str  # the type
    micros: str  # of a time
    days: str  # of a date


_SPARK = _Engine(
    lambda a, b: f"({a} ^ {b})", lambda a, bits: f"shiftright({a}, {bits})", "STRING", "unix_micros({})",
    "CAST(datediff({}, DATE'1970-01-01') AS BIGINT)",
)  # fmt: skip
_DUCKDB = _Engine(
    lambda a, b: f"xor({a}, {b})", lambda a, bits: f"({a} >> {bits})", "VARCHAR", "epoch_us({})",
    "CAST(({}) - DATE '1970-01-01' AS BIGINT)",
)  # fmt: skip


def make_sample(
    percent: float, seed: int | None, keys: Sequence[Expression], before: Iterable[RowStep], what: str = "a sample"
) -> SampleRows:
    """A sample of rows that these steps made, or an error without a place.

    Without a seed it has the first that no earlier sample has: two samples with one seed would not be independent.
    """
    if not 0 < percent <= 100:
        expected = "a number above 0, at most 100"
        raise DefinitionError(f"{what} is a share in percent", found=f"{percent:g}", expected=expected)
    for key in keys:
        if key.type.name not in _KEY_TYPES:
            fix = f"write CAST({key.sql} AS STRING)" if key.type.is_numeric else "name single values"
            raise DefinitionError(
                f"{what} cannot be chosen by {key.sql}", found=str(key.type), expected=", ".join(_KEY_TYPES), fix=fix
            )
    used = {step.seed for step in before if isinstance(step, SampleRows)}
    if seed is None:
        seed = next(number for number in range(len(used) + 1) if number not in used)
    elif seed in used:
        raise DefinitionError(
            f"{what} of a sample with the same seed {seed}", fix="give it another seed, or none; then it is independent"
        )
    return SampleRows(float(percent), seed, tuple(keys))


def spark_condition(sample: SampleRows, stream: str, keys: Sequence[str]) -> str:
    """Spark SQL for whether a row of a base stream is kept. `keys` is Spark SQL for each of its keys."""
    return _condition(sample, stream, keys, _SPARK)


def duckdb_condition(sample: SampleRows, stream: str, keys: Sequence[str]) -> str:
    """Return the condition in DuckDB's SQL. `keys` is DuckDB's SQL for each of its keys."""
    return _condition(sample, stream, keys, _DUCKDB)


def _condition(sample: SampleRows, stream: str, keys: Sequence[str], engine: _Engine) -> str:
    bound = max(1, round(sample.percent / 100 * (_ALL + 1)))
    if bound > _ALL:
        return "true"
    if not keys:
        # Streams have the same positions: with the name of each, their samples are independent.
        return f"{_mixed(POSITION, f'{sample.seed}:{stream}', engine)} < {bound}"
    of_null = str(int.from_bytes(_digest(f"{sample.seed}:NULL")[:4]) < bound).lower()
    numbers = [_number(sql, key, engine) for sql, key in zip(keys, sample.keys, strict=True)]
    if len(keys) == 1 and numbers[0] is not None:
        return f"coalesce({_mixed(numbers[0], str(sample.seed), engine)} < {bound}, {of_null})"
    texts = [f"CAST({number or sql} AS {engine.text})" for sql, number in zip(keys, numbers, strict=True)]
    if len(texts) > 1:
        texts = [f"coalesce(length({text}) || ':' || {text}, 'n')" for text in texts]
    # Hexadecimal digits, as texts, are in the order of the numbers that they write.
    is_kept = f"md5('{sample.seed}:' || {' || '.join(texts)}) < '{bound:08x}'"
    return f"coalesce({is_kept}, {of_null})"


def _number(sql: str, key: Expression, engine: _Engine) -> str | None:
    """SQL for an integer that stands for the value; None for texts and truth values."""
    if key.type.is_integer:
        return f"CAST({sql} AS BIGINT)"
    return engine.micros.format(sql) if key.type == TIMESTAMP else engine.days.format(sql) if key.type == DATE else None


def _mixed(number: str, seed: str, engine: _Engine) -> str:
    """SQL for a hash of 32 bits: three rounds of shift, xor and multiplication, of the low half, then of both."""
    digest = _digest(seed)
    first, second = (int.from_bytes(digest[at : at + 4]) for at in (0, 4))
    high = f"({engine.shift(number, BITS)} & {_ALL})"
    value = engine.xor(f"({number} & {_ALL})", str(first))
    for place, (multiplier, bits) in enumerate(zip(_MULTIPLIERS, _SHIFTS, strict=True)):
        if place == 1:
            value = engine.xor(value, engine.xor(high, str(second)))
        value = f"(({engine.xor(value, engine.shift(value, bits))} * {multiplier}) & {_ALL})"
    return value


def _digest(text: str) -> bytes:
    return hashlib.md5(text.encode(), usedforsecurity=False).digest()


@dataclass(frozen=True)
class Share:
    """Return the part of all rows that a relation has, as far as samples decide it."""

    percent: float
    keys: tuple[str, ...] = ()  # what rows were chosen by; none: each event by itself
    clustered: bool = False  # whether several rows are kept or left out together: then no error can be stated

    def __str__(self) -> str:
        by = f" of the values of {', '.join(self.keys)}" if self.keys else ""
        return f"a sample of {self.percent:g} %{by}"


def share_of(relation: Relation | None) -> Share | None:
    """The share of a relation; None: all rows. Raises DefinitionError if its branches have different ones."""
    shares = list(dict.fromkeys(map(_share_of_branch, relation.branches))) if relation else []
    if len({share.percent if share else 100.0 for share in shares}) > 1:
        percentages = " and ".join(f"{share.percent:g} %" if share else "all events" for share in shares)
        raise DefinitionError(
            "counts and sums over a union of different samples cannot be scaled", found=percentages,
            fix="take the sample of the union, or the same share of each of its streams",
        )  # fmt: skip
    if relation is None or not shares or shares[0] is None:
        return None
    keys = dict.fromkeys(key for share in shares if share for key in share.keys)
    repeats = len(relation.streams) < len(relation.branches)  # an event may be in several branches
    return Share(shares[0].percent, tuple(keys), repeats or any(share.clustered for share in shares if share))


@lru_cache(maxsize=1024)
def scaling_of(relation: Relation | None) -> Scaling | None:
    """Return how counts and sums of rows of a relation are scaled; None: they are not."""
    share = share_of(relation)
    return None if share is None else Scaling(share.percent, str(share), bounded=not share.clustered)


def _share_of_branch(branch: Branch) -> Share | None:
    samples = [step for step in branch.steps if isinstance(step, SampleRows) and step.percent < 100]
    if not samples:
        return None
    keys = dict.fromkeys(key.sql for sample in samples for key in sample.keys)
    clustered = bool(keys) or any(isinstance(step, Explode) for step in branch.steps)
    return Share(round(100 * math.prod(sample.percent / 100 for sample in samples), 12), tuple(keys), clustered)
