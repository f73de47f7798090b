"""A change of a view: a row that is new, other or gone; batches of them, and the cursor of their reader, opaque to
clients.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import orjson

from headrace.errors import QuestionError
from headrace.format import iso
from headrace.types import Type

if TYPE_CHECKING:
    from headrace.aggregate import Value
    from headrace.store.version import Version


# What is being read page by page: all rows; rows that became settled; rows that only an earlier version had.
Reading = Literal["all", "settled", "old"]


@dataclass(frozen=True)
class ChangePage:
    """A place within rows that are read page by page."""

    reading: Reading
    last: tuple[Any, ...] | None = None  # the last row of the page before, as JSON: id of its window, its keys
    until_ms: int | None = None  # of windows that end by then
    old: tuple[int, ...] = ()  # earlier versions of which the reader may have rows
    deletes: bool = False  # the reader may have rows that HAVING now leaves out


@dataclass(frozen=True)
class ChangeCursor:
    """All changes up to a tick of a version, and all windows that were settled by a time."""

    version: int
    tick: int
    settled_ms: int | None
    after: ChangePage | None = None  # within rows that are read page by page
    definition: str = ""  # of the version: a number alone may come again, in a new store
    mark: str | None = None  # of a view with LIMIT: a hash of its rows

    def to_text(self) -> str:
        """As text that a URL can hold."""
        fields: list[Any] = [self.version, self.tick, self.settled_ms, self.definition, self.mark]
        if self.after:
            fields.append(asdict(self.after))
        return base64.urlsafe_b64encode(orjson.dumps(fields)).decode().rstrip("=")

    @classmethod
    def from_text(cls, text: str) -> ChangeCursor:
        """What `to_text` wrote; raises QuestionError for anything else."""
        try:
            version, tick, settled_ms, definition, mark, *page = orjson.loads(
                base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            )
            after = _read_page(*page) if page else None
            return cls(int(version), int(tick), _ms(settled_ms), after, _text(definition), mark and _text(mark))
        except (ValueError, TypeError, KeyError) as error:
            raise QuestionError(
                "the cursor of changes cannot be read",
                found=repr(text[:60]),
                expected="the id of a change, or the cursor of a batch of changes, unchanged",
                fix="omit it to start with all rows",
            ) from error

    def is_of(self, version: Version) -> bool:
        """Whether it is a place in this version."""
        return (self.version, self.definition) == (version.number, version.fingerprint[:8])

    @property
    def reads_old(self) -> bool:
        """Whether rows follow that only an earlier version had."""
        return self.after is not None and self.after.reading == "old"


def _read_page(fields: dict[str, Any]) -> ChangePage:
    last = fields["last"]
    page = ChangePage(
        fields["reading"],
        None if last is None else tuple(last),
        _ms(fields["until_ms"]),
        tuple(int(number) for number in fields["old"]),
        bool(fields["deletes"]),
    )
    if page.reading not in ("all", "settled", "old"):
        raise ValueError(page.reading)
    return page


def _ms(value: Any) -> int | None:
    return None if value is None else int(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


Row = tuple[Any, ...]
Columns = tuple[tuple[str, Type], ...]


@dataclass(frozen=True)
class ViewChange:
    """A row that is new or other than it was, or one that is gone: then it has only what it is known by.

    The op restart, which only readers of a feed see, has no row: all that came before is void.
    """

    op: Literal["upsert", "delete", "restart"]
    row: Mapping[str, Value]  # keys, window_start, window_end, columns, settled
    version: int
    commit: int  # the tick of its values: of two changes of a row in one version the one with the higher is later
    cursor: str | None = None  # of the last change of a batch: a reader can continue behind it

    def with_cursor(self, cursor: str) -> ViewChange:
        """The same as the last change of a batch."""
        return replace(self, cursor=cursor)

    def as_dict(self) -> dict[str, Any]:
        """As `headrace watch --json` shows it."""
        change: dict[str, Any] = {"op": self.op}
        if self.op != "restart":
            change["row"] = {name: _encode(value) for name, value in self.row.items()}
        return {**change, "version": self.version, "commit": self.commit, "cursor": self.cursor}


def row_of(columns: Columns, values: Row) -> dict[str, Value]:
    """A row by the names of its columns; one that is gone has only the first ones."""
    return {name: value for (name, _), value in zip(columns, values, strict=False)}


@dataclass(frozen=True)
class ChangeBatch:
    """Changes, and the cursor after them."""

    view: str
    columns: Columns
    keys: tuple[str, ...]  # what a row is known by: its keys, and its window if the view has windows
    upserts: Sequence[Row]  # in the order of columns
    deletes: Sequence[Row]  # only the first columns: keys and times
    cursor: ChangeCursor
    version: int
    commit: int
    snapshot: bool = False  # rows of the present state, whether they have changed or not
    restarted: bool = False  # all that came before is void: replace it by what follows
    more: bool = False  # there is more to read at once
    first: bool = False  # the reader has had none of these rows before
    having: bool = False  # HAVING may leave out rows

    def __len__(self) -> int:
        return len(self.upserts) + len(self.deletes)

    @cached_property
    def changes(self) -> list[ViewChange]:
        """Each change by itself; a row is never both in the deletes and in the upserts."""
        deleted = [ViewChange("delete", row_of(self.columns, row), self.version, self.commit) for row in self.deletes]
        return deleted + [
            ViewChange("upsert", row_of(self.columns, r), self.version, self.commit) for r in self.upserts
        ]


def _encode(value: Any) -> Any:
    """A value as JSON has it; see `values`."""
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, list | tuple):
        return [_encode(each) for each in value]
    if isinstance(value, dict):
        return {name: _encode(each) for name, each in value.items()}
    return value
