"""Derived streams in the order in which they can be made: each after the streams that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from headrace.define.sql.derived import DerivedStatement
from headrace.errors import DefinitionError, Location

Declared = tuple[DerivedStatement, Location]


def in_order(
    declared: Sequence[Declared], errors: list[DefinitionError], broken: set[str | None]
) -> Iterator[Declared]:
    """The statements, each after those that it reads. A cycle is added to `errors`, and its streams to `broken`."""
    waiting = {statement.name.lower(): (statement, where) for statement, where in declared}
    reads = {
        name: [read.name.lower() for read in (*statement.reads, *statement.joined)]
        for name, (statement, _) in waiting.items()
    }
    while waiting:
        ready = [name for name in waiting if not any(read in waiting for read in reads[name])]
        if not ready:
            errors.append(_cycle(waiting, reads))
            broken |= set(waiting)
            return
        for name in ready:
            yield waiting.pop(name)


def _cycle(waiting: Mapping[str, Declared], reads: Mapping[str, list[str]]) -> DefinitionError:
    path = [next(iter(waiting))]
    while path[-1] not in path[:-1]:
        path.append(next(read for read in reads[path[-1]] if read in waiting))
    circle = path[path.index(path[-1]) :]
    names = [waiting[name][0].name for name in circle]
    message, who = f"stream '{names[0]}' reads itself", "it"
    if len(names) > 2:
        message = "streams are made from one another: " + ", ".join(f"'{a}' reads '{b}'" for a, b in pairwise(names))
        who = "one of them"
    return DefinitionError(message, fix=f"let {who} read another stream", where=waiting[circle[0]][1])
