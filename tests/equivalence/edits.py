"""Random edits of a view: some that keep its rows, some for which the log must be read again."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from .generate import WINDOWS, make_keys, make_output, make_where
from .reference import Shape


def edit_shape(chance: random.Random, shape: Shape) -> Shape:
    """Another form of the same view, different in one or two respects."""
    for _ in range(chance.choice([1, 1, 2])):
        shape = chance.choice(EDITS)(chance, shape)
    return shape


def _new_name(chance: random.Random) -> str:
    return f"c_{chance.randrange(10**9)}"


def _rename(chance: random.Random, shape: Shape) -> Shape:
    at = chance.randrange(len(shape.outputs))
    output = replace(shape.outputs[at], name=_new_name(chance))
    return replace(shape, outputs=(*shape.outputs[:at], output, *shape.outputs[at + 1 :]))


def _drop(chance: random.Random, shape: Shape) -> Shape:
    outputs = chance.sample(shape.outputs, max(1, len(shape.outputs) - 1))
    return replace(shape, outputs=tuple(outputs))  # and in another order


def _repeat(chance: random.Random, shape: Shape) -> Shape:
    again = replace(chance.choice(shape.outputs), name=_new_name(chance))
    return replace(shape, outputs=(*shape.outputs, again))


def _add(chance: random.Random, shape: Shape) -> Shape:
    return replace(shape, outputs=(*shape.outputs, make_output(chance, _new_name(chance))))


def _rekey(chance: random.Random, shape: Shape) -> Shape:
    return replace(shape, keys=make_keys(chance))


def _filter(chance: random.Random, shape: Shape) -> Shape:
    return replace(shape, where=make_where(chance))


def _window(chance: random.Random, shape: Shape) -> Shape:
    return replace(shape, window=chance.choice(WINDOWS))


EDITS: list[Callable[[random.Random, Shape], Shape]] = [_rename, _drop, _repeat, _add, _rekey, _filter, _window]
