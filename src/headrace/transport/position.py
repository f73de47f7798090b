"""A place in a transport: an offset for each of its partitions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Self, TypeAlias

# An event has one number in the lake, `_position`, which holds its partition and its offset: that is unique, ascends
# within a partition, and in partition 0 it is the offset itself.
OFFSET_BITS = 48
MAX_PARTITIONS = 1 << (63 - OFFSET_BITS)

JsonPosition: TypeAlias = int | list[int]

_PART = re.compile(r"([0-9a-f]+)-([0-9a-f]+)")
_OFFSET = re.compile(r"[0-9a-f]+")


@dataclass(frozen=True)
class Position:
    """The part of a transport that has been read: of partition i, everything before offset `offsets[i]`.

    Partitions are numbered from 0; one that is not named is at offset 0. Positions are only partly ordered: of two,
    it may be that neither covers the other. The journal has one partition, whose offsets count bytes.
    """

    offsets: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(offset < 0 for offset in self.offsets):
            raise ValueError(f"an offset is negative: {self.offsets}")
        count = len(self.offsets)
        while count and not self.offsets[count - 1]:  # so that equal positions are equal values
            count -= 1
        object.__setattr__(self, "offsets", self.offsets[:count])

    @classmethod
    def at(cls, offset: int, partition: int = 0) -> Self:
        """A place in one partition, at offset 0 of the others."""
        return cls((*[0] * partition, offset))

    def offset(self, partition: int = 0) -> int:
        """The offset in one partition."""
        return self.offsets[partition] if partition < len(self.offsets) else 0

    def covers(self, other: Position) -> bool:
        """Return whether everything before the other position is also before this one."""
        return all(own >= its for own, its in zip_longest(self.offsets, other.offsets, fillvalue=0))

    def merge(self, other: Position) -> Position:
        """The first position that covers both."""
        return Position(tuple(max(pair) for pair in zip_longest(self.offsets, other.offsets, fillvalue=0)))

    # As data: one partition, the usual case, is a plain number.

    def to_json(self) -> JsonPosition:
        """The form in files and tables."""
        return list(self.offsets) if len(self.offsets) > 1 else self.offset()

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """The position that `to_json` wrote; ValueError or TypeError if it is not one."""
        return cls(tuple(int(offset) for offset in (value if isinstance(value, list) else [value])))

    def to_text(self) -> str:
        """The form in tokens: hexadecimal; beyond partition 0, `PARTITION-OFFSET` for each, joined by `_`."""
        if len(self.offsets) <= 1:
            return f"{self.offset():x}"
        return "_".join(f"{partition:x}-{offset:x}" for partition, offset in enumerate(self.offsets) if offset)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The position that `to_text` wrote; ValueError if it is not one."""
        if _OFFSET.fullmatch(text):
            return cls((int(text, 16),))
        offsets: dict[int, int] = {}
        for part in text.split("_"):
            match = _PART.fullmatch(part)
            if match is None or (partition := int(match[1], 16)) >= MAX_PARTITIONS:
                raise ValueError(f"not a position: '{text}'")
            offsets[partition] = int(match[2], 16)
        return cls(tuple(offsets.get(partition, 0) for partition in range(max(offsets) + 1)))


START = Position()


@dataclass(frozen=True, order=True)
class Range:
    """Offsets [start, end) of one partition: whole records."""

    partition: int
    start: int
    end: int


def event_base(partition: int) -> int:
    """The base that is added to an offset of this partition to make the `_position` of an event there."""
    return partition << OFFSET_BITS
