"""Where a reader of the changes of a view is: opaque to clients, valid over restarts of the server."""

from __future__ import annotations

import base64
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import orjson

from headrace.errors import QuestionError

if TYPE_CHECKING:
    from headrace.store.version import Version

# What is being read page by page: all rows; rows that became settled; rows that only an earlier version had.
Reading = Literal["all", "settled", "old"]


@dataclass(frozen=True)
class Page:
    """A place within rows that are read page by page."""

    reading: Reading
    last: tuple[Any, ...] | None = None  # the last row of the page before, as JSON: id of its window, its keys
    until_ms: int | None = None  # of windows that end by then
    old: tuple[int, ...] = ()  # earlier versions of which the reader may have rows
    deletes: bool = False  # the reader may have rows that HAVING now leaves out


@dataclass(frozen=True)
class Cursor:
    """All changes up to a tick of a version, and all windows that were settled by a time."""

    version: int
    tick: int
    settled_ms: int | None
    after: Page | None = None  # within rows that are read page by page
    definition: str = ""  # of the version: a number alone may come again, in a new store
    mark: str | None = None  # of a view with LIMIT: a hash of its rows

    def to_text(self) -> str:
        """As text that a URL can hold."""
        fields: list[Any] = [self.version, self.tick, self.settled_ms, self.definition, self.mark]
        if self.after:
            fields.append(asdict(self.after))
        return base64.urlsafe_b64encode(orjson.dumps(fields)).decode().rstrip("=")

    @classmethod
    def from_text(cls, text: str) -> Cursor:
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


def _read_page(fields: dict[str, Any]) -> Page:
    last = fields["last"]
    page = Page(
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
