"""Generated events as something that can be sent: the stream knows how many it has, so a new run continues there."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from headrace.errors import UsageError, did_you_mean
from headrace.ingest.file_marks import End, Mark, MarkMatch
from headrace.ingest.generated_values import BLOCK, Draws, Rule, default_rule, parse_rule, values
from headrace.ingest.input_files import Piece
from headrace.language.paths import Steps
from headrace.types import Type

AT_ONCE = 10_000  # events of a piece
TICK_S = 0.1


@dataclass(frozen=True)
class GeneratedField:
    """A field of the stream: where it is in an event, and its values."""

    name: str
    steps: Steps
    type: Type
    rule: Rule


@dataclass(frozen=True)
class Recipe:
    """All that the events depend on. Without a start, the times are those at which events are made."""

    seed: int
    fields: tuple[GeneratedField, ...]
    rate: float
    start_us: int | None
    text: bool  # events are lines of text

    @property
    def identity(self) -> str:
        """Different for different events."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]


def make_fields(
    stream: str, fields: Iterable[tuple[str, Steps, Type, bool]], rules: Mapping[str, str]
) -> tuple[GeneratedField, ...]:
    """The fields of a stream by name, place, type and nullability, with the rules of some of them."""
    fields = list(fields)
    names = [name for name, *_ in fields]
    for name in rules:
        if name not in names:
            message = f"stream '{stream}' has no field '{name}' to generate"
            raise UsageError(message, expected=", ".join(names), fix=did_you_mean(name, names))
    return tuple(
        GeneratedField(
            name,
            steps,
            of,
            parse_rule(name, of, rules[name], nullable=nullable) if name in rules else default_rule(name, of),
        )
        for name, steps, of, nullable in fields
    )


class Generated:
    """Events of a recipe, at most so many, at once or at the rate of the recipe."""

    size = 0

    def __init__(self, recipe: Recipe, events: int | None, stopping: threading.Event, *, at_once: bool) -> None:
        self._recipe = recipe
        self._events = events
        self._stopping = stopping
        self._at_once = at_once
        self._block: tuple[int, list[bytes]] = (-1, [])
        self.name = f"generated:{recipe.seed}:{recipe.identity}"
        self.label = f"the generator with seed {recipe.seed}"

    def first(self) -> str:
        """One of its own, so that no file is taken for it."""
        return self._recipe.identity

    def match(self, marks: Iterable[Mark]) -> MarkMatch | None:
        """The furthest of the marks: the name says that they are of these events."""
        furthest = max(marks, key=lambda mark: mark.lines, default=None)
        if furthest is None:
            return None
        return MarkMatch(furthest, at_end=self._events is not None and furthest.lines >= self._events)

    def written_s(self) -> None:
        """Not known."""

    def is_still(self, name: str, mark: Mark) -> bool:
        """No: a generator has one name."""
        return False

    def pieces(self, skip: int = 0) -> Iterator[Piece]:
        """The events from a number on; at their rate, or as fast as they are taken."""
        number, began = skip, time.monotonic()
        while not self._stopping.is_set() and (self._events is None or number < self._events):
            due = number + AT_ONCE
            if not self._at_once:
                due = skip + int((time.monotonic() - began) * self._recipe.rate) + 1
                if due <= number:
                    self._stopping.wait(
                        max(TICK_S, (number + 1 - skip) / self._recipe.rate - (time.monotonic() - began))
                    )
                    continue
            end = min(due, number + AT_ONCE, *([self._events] if self._events is not None else []))
            lines = b"".join(self._lines(number, end))
            number = end
            yield Piece(lines, len(lines), self._mark(number))

    def _mark(self, number: int) -> Mark:
        ended = End.WHOLE if number == self._events else End.WITHIN
        return Mark(number, number, self._recipe.identity, ended)

    def _lines(self, start: int, end: int) -> Iterator[bytes]:
        while start < end:
            block = start // BLOCK
            if self._block[0] != block:
                self._block = block, self._make_block(block)
            lines = self._block[1][start % BLOCK : start % BLOCK + end - start]
            yield from lines
            start += len(lines)

    def _make_block(self, block: int) -> list[bytes]:
        recipe, first = self._recipe, block * BLOCK
        offsets_us = (np.arange(first, first + BLOCK) * (1e6 / recipe.rate)).astype(np.int64)
        times_us = offsets_us + (time.time_ns() // 1000 - offsets_us[0] if recipe.start_us is None else recipe.start_us)
        columns = [
            values(field.rule, field.type, Draws(recipe.seed, field.name, block), first, times_us)
            for field in recipe.fields
        ]
        if recipe.text:
            return [str(value).replace("\n", " ").encode() + b"\n" for value in columns[0]]
        write = _writer([field.steps for field in recipe.fields])
        return [orjson.dumps(write(row)) + b"\n" for row in zip(*columns, strict=True)]


def _writer(places: Sequence[Steps]) -> Callable[[tuple[Any, ...]], dict[str, Any]]:
    """Makes an event of the values of a row, each in its place."""
    if all(len(steps) == 1 for steps in places):
        names = [str(steps[0]) for steps in places]
        return lambda row: dict(zip(names, row, strict=True))

    def nested(row: tuple[Any, ...]) -> dict[str, Any]:
        event: dict[str, Any] = {}
        for steps, value in zip(places, row, strict=True):
            _put(event, steps, value)
        return event

    return nested


def _put(inside: Any, steps: Steps, value: Any) -> None:
    """Set a value in an object or array, and make those that it is in."""
    step, rest = steps[0], steps[1:]
    if isinstance(step, int):
        inside.extend([None] * (step + 1 - len(inside)))
    current = inside[step] if isinstance(step, int) else inside.get(step)
    if rest:
        if not isinstance(current, list if isinstance(rest[0], int) else dict):
            current = [] if isinstance(rest[0], int) else {}
        _put(current, rest, value)
        value = current
    inside[step] = value
