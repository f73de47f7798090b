"""Which rows a sink with a condition has sent: only those need a delete when the condition no longer holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.aggregate import Value

MOST_KEYS = 1_000_000


class SentKeys:
    """The keys of the rows that the destination has. While that is not known of all, any other may be there, too."""

    def __init__(self, keys: Sequence[str], *, complete: bool) -> None:
        self.names = tuple(keys)
        self._present: set[tuple[Any, ...]] = set()
        self._absent: set[tuple[Any, ...]] = set()  # of an incomplete one: known not to be there
        self.complete = complete
        self.overflown = False

    def may_have(self, row: Mapping[str, Value]) -> bool:
        """Whether the destination may have a row of this key."""
        key = self._key(row)
        return key in self._present if self.complete else key not in self._absent

    def note(self, row: Mapping[str, Value], is_present: bool) -> None:
        """The destination has this row from now on, or not."""
        if self.overflown:
            return
        key = self._key(row)
        if is_present:
            self._present.add(key)
            self._absent.discard(key)
        else:
            self._present.discard(key)
            if not self.complete:
                self._absent.add(key)
        if len(self._present) + len(self._absent) > MOST_KEYS:
            self._present, self._absent = set(), set()
            self.complete, self.overflown = False, True

    def clear(self) -> None:
        """The destination has nothing."""
        self._present, self._absent = set(), set()
        self.complete, self.overflown = True, False

    def _key(self, row: Mapping[str, Value]) -> tuple[Any, ...]:
        values = (row.get(name) for name in self.names)
        return tuple(repr(value) if isinstance(value, float) else value for value in values)  # NaN is equal to itself
