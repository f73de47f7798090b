"""The fastest parser: flat events of one shape, with the same names in the same order, cut out by their offsets.

It leaves out all others. The second parser (`event_verdict.py`) accepts all that this one reads, with the same values.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.define.model import Field
from headrace.parse.block_checks import Mask, is_utf8
from headrace.parse.frames import Frames, Offsets
from headrace.parse.uniform_values import read_column
from headrace.types import STRING, arrow_type

Bytes = npt.NDArray[np.uint8]
PROBE = 8  # frames whose shapes are compared
LEAST_SHARE = 0.7  # of the events must have the shape and good values: to read the others separately takes time, too
MOST_MEMBERS = 500
_MOST_BYTES = 1 << 31  # of Arrow's offsets
_MEMBER = re.compile(rb' *"([^"\\\x00-\x1f]*)" *: *(?:"([^"\\]*)"|([^ ",:{}\[\]]+)) *(,|\}\Z)')

_IGNORED = Field("", STRING)  # stands for a member that is no field: whether it is JSON counts
_UNDECLARED = [_IGNORED]


@dataclass(frozen=True)
class _Member:
    """A name and its value; `before` are the bytes between the value before it and its own."""

    name: str
    before: bytes
    is_quoted: bool


@dataclass(frozen=True)
class _Shape:
    """The common part of events: all of their bytes except those of the values.

    The mark is what the names after the first begin with: a quote and the byte before it. It shows where values end.
    """

    members: tuple[_Member, ...]
    after: bytes  # the last value
    mark: bytes

    def texts(self) -> list[bytes]:
        """The bytes before and after the values."""
        return [*(member.before for member in self.members), self.after]


class Uniform:
    """Reads JSON objects into typed columns."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self.schema = pa.schema([(field.name, arrow_type(field.type)) for field in fields])
        # Several fields may have the value of one member. What is deeper in an event is not in a flat one.
        self._fields: dict[str, list[Field]] = {}
        for field in fields:
            if len(field.steps) == 1:
                self._fields.setdefault(str(field.steps[0]), []).append(field)
        self._able = bool(fields) and not any(field.type.is_nested for field in fields)
        self._last: _Shape | None = None  # the shape that was read last

    def read(self, frames: Frames) -> tuple[pa.Table, Mask] | None:
        """The columns of the frames of the most common shape, and which ones these are; None if it reads none."""
        if not self._able or not len(frames):
            return None
        shape = _shape_of(frames[0])
        if shape is None or shape != self._last:
            shape = _common_shape(frames)
        part = self._read(frames, shape) if shape is not None else None
        self._last = shape if part is not None else None
        return part

    def _read(self, frames: Frames, shape: _Shape) -> tuple[pa.Table, Mask] | None:
        block = frames.data[int(frames.starts[0]) : int(frames.ends[-1])]
        if len(block) >= _MOST_BYTES:
            return None
        values, fits = _find(block, frames, shape)
        return self._read_columns(shape, values, fits)

    def _read_columns(self, shape: _Shape, values: Sequence[Frames], fits: Mask) -> tuple[pa.Table, Mask] | None:
        """The columns of the events that fit and have only good values, and which ones these are; None if few do."""
        least, count = len(fits) * LEAST_SHARE, int(np.count_nonzero(fits))
        if count < least:
            return None
        if count < len(fits):
            values = [value.take(fits) for value in values]
        good: Mask | None = None
        columns = {}
        for member, value in zip(shape.members, values, strict=True):
            for field in self._fields.get(member.name, _UNDECLARED):
                of = field.type if field is not _IGNORED else None
                columns[field.name], are_good = read_column(of, value, is_quoted=member.is_quoted)
                if are_good is not None:
                    good = are_good if good is None else good & are_good
                    if np.count_nonzero(good) < least:
                        return None
        table = pa.table(
            [columns[of.name] if of.name in columns else pa.nulls(count, of.type) for of in self.schema],
            schema=self.schema,
        )
        if good is not None:
            fits[fits] = good
            table = table.filter(pa.array(good))
        return table, fits


def _common_shape(frames: Frames) -> _Shape | None:
    """The most common shape of some of the frames; None if too few have it."""
    probe = range(0, len(frames), -(-len(frames) // PROBE))
    shape, count = Counter(_shape_of(frames[index]) for index in probe).most_common(1)[0]
    return shape if count >= len(probe) * LEAST_SHARE else None


def _shape_of(event: bytes) -> _Shape | None:
    """The shape of an event; None if it is nested or has something else that this parser does not read."""
    if not event.startswith(b"{") or b"\\" in event or not is_utf8(np.frombuffer(event, dtype=np.uint8)):
        return None
    members: list[_Member] = []
    at, value_end, mark = 1, 0, b""
    while match := _MEMBER.match(event, at):
        is_quoted = match[2] is not None
        value_start, at = match.start(2 if is_quoted else 3), match.end()
        members.append(_Member(match[1].decode(), event[value_end:value_start], is_quoted))
        value_end = match.end(2 if is_quoted else 3)
        mark = event[match.start(1) - 2 : match.start(1)]
        if match[4] != b",":
            break
    names = {member.name for member in members}
    if at != len(event) or not members or len(names) != len(members) or len(members) > MOST_MEMBERS:
        return None
    return _Shape(tuple(members), event[value_end:], mark) if all(mark in m.before for m in members[1:]) else None


def _find(block: Bytes, frames: Frames, shape: _Shape) -> tuple[list[Frames], Mask]:
    """Find the value of each member, in the events that have the shape, and mark these events."""
    starts, ends = frames.starts - frames.starts[0], frames.ends - frames.starts[0]
    marks, fits = _find_marks(block, starts, ends, shape)
    values: list[Frames] = []
    at, texts, passed = starts, shape.texts(), 0
    for before, after in pairwise(texts):
        fits &= _has(block, at, before)
        at = at + len(before)
        passed += before.count(shape.mark)
        mark = after.find(shape.mark)
        end = ends - len(after) if mark < 0 else marks[:, passed] - mark
        fits &= end >= at  # up to the last one: so all texts are inside of the event
        values.append(Frames(block, at, end))
        at = end
    return values, fits & _has(block, at, texts[-1])


def _find_marks(block: Bytes, starts: Offsets, ends: Offsets, shape: _Shape) -> tuple[Offsets, Mask]:
    """Find the marks of each event, in columns, and the events that have as many as the shape."""
    count = sum(text.count(shape.mark) for text in shape.texts())
    # The first bytes of the marks, if there are no others: the texts are compared anyway.
    marks = np.flatnonzero(block[:-1] == shape.mark[0])
    if len(marks) != len(starts) * count:
        marks = marks[block[marks + 1] == shape.mark[1]]
    columns = marks.reshape(-1, count) if count and len(marks) == len(starts) * count else None
    if columns is not None and (columns[:, 0] >= starts).all() and (columns[:, -1] < ends).all():
        fits = np.ones(len(starts), dtype=bool)
    else:
        first = np.searchsorted(marks, starts)
        fits = np.diff(first, append=len(marks)) == count
        columns = np.append(marks, 0)[np.where(fits, first, 0)[:, None] + np.arange(count)]
    return columns, fits


def _has(block: Bytes, at: Offsets, text: bytes) -> Mask:
    """Mark the events that have this text there; where it would be outside of the block, the result is undefined."""
    length = len(text)
    windows = np.ndarray(len(block) - length + 1, dtype=f"V{length}", buffer=block, strides=(1,))
    try:
        contents = windows[at]
    except IndexError:
        contents = windows[np.clip(at, 0, len(block) - length)]
    expected = text * len(at)
    if contents.tobytes() == expected:
        return np.ones(len(at), dtype=bool)
    is_equal = contents.view(np.uint8) == np.frombuffer(expected, dtype=np.uint8)
    has_text: Mask = is_equal.reshape(-1, length).all(axis=1)
    return has_text
