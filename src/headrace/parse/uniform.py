"""The fastest parser: flat events of one shape, with the same names in the same order, cut out by their offsets.

It leaves out all other events. The second parser (`verdict.py`) accepts all that this one reads, with the same values.
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
import pyarrow.compute as pc

from headrace.define.model import Field
from headrace.parse.frames import Frames, Offsets, cut
from headrace.parse.schema import UTC_US, arrow_type
from headrace.parse.sound import is_sound, is_utf8
from headrace.types import Type

Bytes = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]
PROBE = 8  # frames whose shapes are compared
LEAST_SHARE = 0.7  # of the events must have the shape: to read others apart takes time, too
MOST_MEMBERS = 500
_MOST_BYTES = 1 << 31  # of Arrow's offsets
_QUOTE, _BACKSLASH, _ZERO, _SPACE, _NULL = b'"\\0 n'
_WORD = 8
_PAIRS = np.uint64(0x000000FF000000FF)
_DATE_LENGTH = 10
_MEMBER = re.compile(rb' *"([^"\\\x00-\x1f]*)" *: *(?:"([^"\\]*)"|([^ ",:{}\[\]]+)) *(,|\}\Z)')
_ZONE = re.compile(r"[T ].*(?:Z|[+-][0-9:]{2,5})\Z", re.ASCII)
_INTEGER = r"\A-?(?:0|[1-9][0-9]*)\z"
_NUMBER = r"\A-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\z"
_BOOLEAN = r"\A(?:true|false)\z"
_BARE = rf"{_NUMBER}|\A(?:true|false|null)\z"


@dataclass(frozen=True)
class _Member:
    """A name and its value; `before` are the bytes between the value before it and its own."""

    name: str
    before: bytes
    is_quoted: bool


@dataclass(frozen=True)
class _Shape:
    """What events have in common: all of their bytes except those of the values.

    The mark is what the names after the first begin with: a quote and the byte before it. It tells where values end.
    """

    members: tuple[_Member, ...]
    after: bytes  # the last value
    mark: bytes

    def texts(self) -> list[bytes]:
        """The bytes before and after the values."""
        return [*(member.before for member in self.members), self.after]


@dataclass(frozen=True)
class _Value:
    """Where the value of one member is in each event."""

    block: Bytes
    starts: Offsets
    ends: Offsets

    def texts(self) -> pa.Array:
        """The values as strings."""
        return cut(pa.string(), self.block, self.starts, self.ends)


class Uniform:
    """Reads JSON objects into typed columns."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self.schema = pa.schema([(field.name, arrow_type(field.type)) for field in fields])
        self._types = {field.name: field.type for field in fields}
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
        table = self._read_columns(shape, values, fits)
        if table is None and len(escapes := np.flatnonzero(block == _BACKSLASH)):
            fits[np.searchsorted(frames.starts - frames.starts[0], escapes, side="right") - 1] = False
            table = self._read_columns(shape, values, fits)
        return None if table is None else (table, fits)

    def _read_columns(self, shape: _Shape, values: Sequence[_Value], fits: Mask) -> pa.Table | None:
        """The columns of the events that fit; None if these are few, or a value is not certainly good."""
        count = int(np.count_nonzero(fits))
        if count < len(fits) * LEAST_SHARE:
            return None
        if count < len(fits):
            values = [_Value(value.block, value.starts[fits], value.ends[fits]) for value in values]
        columns = {}
        for member, value in zip(shape.members, values, strict=True):
            of = self._types.get(member.name)
            if of is not None:
                column = _read_quoted(of, value) if member.is_quoted else _read_bare(of, value)
                if column is None or not is_sound(column):
                    return None
                columns[member.name] = column
            elif not (_are_strings(value.texts()) if member.is_quoted else _all_match(value.texts(), _BARE)):
                return None
        for field in self.schema:
            if field.name not in columns:
                columns[field.name] = pa.nulls(count, field.type)
        return pa.table([columns[name] for name in self.schema.names], schema=self.schema)


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


def _find(block: Bytes, frames: Frames, shape: _Shape) -> tuple[list[_Value], Mask]:
    """Where the value of each member is, in the events that have the shape, and which ones these are."""
    starts, ends = frames.starts - frames.starts[0], frames.ends - frames.starts[0]
    marks, fits = _find_marks(block, starts, ends, shape)
    values: list[_Value] = []
    at, texts, passed = starts, shape.texts(), 0
    for before, after in pairwise(texts):
        fits &= _has(block, at, ends, before)
        at = at + len(before)
        passed += before.count(shape.mark)
        mark = after.find(shape.mark)
        end = ends - len(after) if mark < 0 else marks[:, passed] - mark
        fits &= end >= at
        values.append(_Value(block, at, end))
        at = np.maximum(end, at)
    return values, fits & _has(block, at, ends, texts[-1])


def _find_marks(block: Bytes, starts: Offsets, ends: Offsets, shape: _Shape) -> tuple[Offsets, Mask]:
    """Where the marks of each event are, in columns, and which events have as many as the shape."""
    count = sum(text.count(shape.mark) for text in shape.texts())
    marks = np.flatnonzero((block[:-1] == shape.mark[0]) & (block[1:] == shape.mark[1]))
    columns = marks.reshape(-1, count) if count and len(marks) == len(starts) * count else None
    if columns is not None and (columns[:, 0] >= starts).all() and (columns[:, -1] < ends).all():
        fits = np.ones(len(starts), dtype=bool)
    else:
        first = np.searchsorted(marks, starts)
        fits = np.diff(first, append=len(marks)) == count
        columns = np.append(marks, 0)[np.where(fits, first, 0)[:, None] + np.arange(count)]
    return columns, fits


def _has(block: Bytes, at: Offsets, ends: Offsets, text: bytes) -> Mask:
    """Which events have this text there."""
    length = len(text)
    has_room: Mask = at + length <= ends
    if not has_room.all():
        at = np.where(has_room, at, 0)
    windows = np.ndarray(len(block) - length + 1, dtype=f"V{length}", buffer=block, strides=(1,))
    content, expected = windows[at].view(np.uint8), np.frombuffer(text * len(at), dtype=np.uint8)
    if np.array_equal(content, expected):
        return has_room
    has_text: Mask = (content == expected).reshape(-1, length).all(axis=1)
    return has_room & has_text


def _are_strings(texts: pa.Array) -> bool:
    """Whether each text is what a JSON string without escapes has between its quotes."""
    content = _content(texts)
    if len(content) and (content.min() < _SPACE or (content == _QUOTE).any() or (content == _BACKSLASH).any()):
        return False
    return is_utf8(content)


def _content(texts: pa.Array) -> Bytes:
    content = texts.buffers()[2]
    return np.frombuffer(memoryview(content) if content is not None else b"", dtype=np.uint8)


def _read_quoted(of: Type, value: _Value) -> pa.Array | None:
    texts = value.texts()
    try:
        match of.name:
            case "STRING":
                return texts if _are_strings(texts) else None
            case "TIMESTAMP":
                has_zone = _ZONE.search(texts[0].as_py())
                return texts.cast(UTC_US) if has_zone else texts.cast(pa.timestamp("us")).cast(UTC_US)
            case "DATE":
                return texts.cast(pa.date32()) if (value.ends - value.starts == _DATE_LENGTH).all() else None
            case "DECIMAL":
                return _read_decimal(of, texts)
    except pa.ArrowInvalid:
        pass
    return None


def _read_bare(of: Type, value: _Value) -> pa.Array | None:
    """Numbers, true, false and null."""
    if of.name in ("INT", "BIGINT") and (numbers := _short_integers(value)) is not None:
        return pa.array(numbers.astype(np.int32 if of.name == "INT" else np.int64))
    texts = value.texts()
    if (value.block[value.starts] == _NULL).any():
        texts = pc.if_else(pc.equal(texts, "null"), pa.scalar(None, pa.string()), texts)
    try:
        match of.name:
            case "INT" | "BIGINT":
                return texts.cast(arrow_type(of)) if _all_match(texts, _INTEGER) else None
            case "DOUBLE":
                return texts.cast(pa.float64()) if _all_match(texts, _NUMBER) else None
            case "DECIMAL":
                return _read_decimal(of, texts)
            case "BOOLEAN":
                return pc.equal(texts, "true") if _all_match(texts, _BOOLEAN) else None
    except pa.ArrowInvalid:
        return None
    return pa.nulls(len(texts), arrow_type(of)) if texts.null_count == len(texts) else None


def _read_decimal(of: Type, texts: pa.Array) -> pa.Array | None:
    whole = f"[1-9][0-9]{{0,{of.precision - of.scale - 1}}}|" if of.precision > of.scale else ""
    fraction = rf"(?:\.[0-9]{{1,{of.scale}}})?" if of.scale else ""
    return texts.cast(arrow_type(of)) if _all_match(texts, rf"\A-?(?:{whole}0){fraction}\z") else None


def _short_integers(value: _Value) -> npt.NDArray[np.uint64] | None:
    """The numbers, if all are 1 to 8 digits: read as words of 8 bytes, all digits of a number at once."""
    lengths = value.ends - value.starts
    if lengths.min() < 1 or lengths.max() > _WORD or value.ends[0] < _WORD:
        return None
    windows = np.ndarray(len(value.block) - _WORD + 1, dtype=f"V{_WORD}", buffer=value.block, strides=(1,))
    words = windows[value.ends - _WORD].view("<u8") ^ np.uint64(0x3030303030303030)  # a byte of 0 to 9 for each digit
    shifts = ((_WORD - lengths) * 8).astype(np.uint64)
    digits = (words >> shifts) << shifts  # without the bytes before the number
    if (((digits + np.uint64(0x7676767676767676)) | digits) & np.uint64(0x8080808080808080)).any():
        return None
    if ((value.block[value.starts] == _ZERO) & (lengths > 1)).any():
        return None
    # Sums of pairs of digits, then of fours, then of all eight.
    pairs = digits * np.uint64(10) + (digits >> np.uint64(8))
    even, odd = pairs & _PAIRS, (pairs >> np.uint64(16)) & _PAIRS
    return (even * np.uint64(100 + (1_000_000 << 32)) + odd * np.uint64(1 + (10_000 << 32))) >> np.uint64(32)


def _all_match(texts: pa.Array, pattern: str) -> bool:
    """Whether all that are not NULL match."""
    return pc.all(pc.match_substring_regex(texts, pattern)).as_py() is not False
