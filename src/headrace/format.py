"""Numbers, times, durations and sizes as text for display, and values as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any, ClassVar, Self, overload

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOST_ITEMS = 20  # of an array in a table; `--json` has all of them
HOUR_MS, DAY_MS, YEAR_MS = 3_600_000, 86_400_000, 31_557_600_000


def iso(time: datetime) -> str:
    """A time in ISO 8601, in UTC with Z, as in every answer."""
    return time.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


@overload
def iso_us(us: int) -> str: ...
@overload
def iso_us(us: None) -> None: ...
def iso_us(us: int | None) -> str | None:
    """Microseconds since the epoch in ISO 8601."""
    return None if us is None else iso(EPOCH + timedelta(microseconds=us))


def count(number: int | float | None) -> str:
    """A number with thousands separators."""
    return "–" if number is None else f"{number:,}"


def number(of: int | float | Decimal) -> str:
    """A number with at most four decimals or six digits; `--json` has all of them."""
    if isinstance(of, int):
        return f"{of:,}"
    if isinstance(of, Decimal):
        return f"{of:,f}"
    if not math.isfinite(of):
        return "NaN" if math.isnan(of) else "Infinity" if of > 0 else "-Infinity"
    if 1 <= abs(of) < 1e15:
        return f"{of:,.4f}".rstrip("0").rstrip(".")
    return f"{of:.6g}"


def version_shown(name: str, version: int | None, commits: Mapping[str, int]) -> int | None:
    """The version of a view; that of a table, of which it is the log, is the number of its commits."""
    return commits.get(name, version)


def cut(text: str, most: int = 200) -> str:
    """A text as it is shown where a very long one would hide the rest: its beginning, and how long it is."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def within(bound: float | None) -> str:
    """The margin that follows a value scaled from a sample: its distance from the true one, at most; often nothing."""
    return "" if bound is None else f" ± {bound:,.0f}" if bound >= 10 else f" ± {bound:.2g}"


def nested(of: list[Any] | tuple[Any, ...] | dict[str, Any], text: Callable[[Any], str]) -> str:
    """An ARRAY, STRUCT or MAP, from the text of each single value; of a long one the first items."""
    if isinstance(of, dict):
        parts = [f"{name}: {_part(value, text)}" for name, value in islice(of.items(), MOST_ITEMS)]
    else:
        parts = [_part(value, text) for value in of[:MOST_ITEMS]]
    if len(of) > MOST_ITEMS:
        parts.append(f"… {len(of) - MOST_ITEMS:,} more")
    begin, end = "{}" if isinstance(of, dict) else "[]"
    return f"{begin}{', '.join(parts)}{end}"


def _part(value: Any, text: Callable[[Any], str]) -> str:
    return nested(value, text) if isinstance(value, list | tuple | dict) else text(value)


def digits(of: int | float | Decimal) -> str:
    """A number without thousands separators, for keys such as years."""
    return str(of) if isinstance(of, int) else f"{of:f}" if isinstance(of, Decimal) else number(of).replace(",", "")


def span(ms: int | float | None) -> str:
    """A span of time."""
    if ms is None:
        return "–"
    if ms < 0:
        return f"-{span(-ms)}"
    if ms < 1_000:
        return f"{ms:.0f} ms"
    if ms < 120_000:
        return f"{ms / 1_000:.1f} s"
    if ms < 2 * HOUR_MS:
        return f"{ms / 60_000:.0f} min"
    if ms < 2 * DAY_MS:
        return f"{ms / HOUR_MS:.1f} h"
    if ms < 2 * YEAR_MS:
        return f"{ms / DAY_MS:.1f} days"
    return f"{ms / YEAR_MS:,.1f} years"


def plural(number: int, noun: str) -> str:
    """A number and a noun: 1 event, 2 events."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def commits_of(commits: Mapping[str, int]) -> str:
    """The number of commits of each stream: 12 commits of visits, 1 commit of calls."""
    return ", ".join(f"{plural(number, 'commit')} of {stream}" for stream, number in commits.items())


def about(seconds: float) -> str:
    """An estimated span of time, rounded."""
    if seconds < 1:
        return "under a second"
    if seconds < 90:
        return f"about {seconds:.0f} s"
    if seconds < 5400:
        return f"about {seconds / 60:.0f} min"
    return f"about {seconds / 3600:.0f} h"


def size(number: int | None) -> str:
    """A number of bytes."""
    if number is None:
        return "–"
    amount = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def waiting(events: int | None, size_bytes: int | None) -> str:
    """The backlog of the lake: events of Kafka where they can be counted, else bytes."""
    return size(size_bytes) if events is None else plural(events, "event")


def freshness(ms: int | None, reason: str | None) -> str:
    """The time by which a view is behind the accepted events."""
    if ms is None:
        return reason or "unknown"
    if ms == 0:
        return "up to date"
    return f"{span(ms)} behind{f' ({reason})' if reason else ''}"


@dataclass(frozen=True)
class Shown:
    """A value that HTTP and `--json` show as JSON, with its fields in their order, and that clients read from it again.

    `holds` names the class of fields that are such values themselves, or tuples of them.
    """

    holds: ClassVar[Mapping[str, type[Shown]]] = {}

    def as_dict(self) -> dict[str, Any]:
        """The form that HTTP and `--json` show."""
        return {name: _plain(value) for name, value in vars(self).items()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """The value that `as_dict` shows. Fields that only a newer server sends are left out."""
        known = {name: value for name, value in content.items() if name in cls.__dataclass_fields__}
        return cls(**{name: _read(cls.holds.get(name), value) for name, value in known.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, Shown):
        return value.as_dict()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return {key: _plain(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def _read(inner: type[Shown] | None, value: Any) -> Any:
    if isinstance(value, list):
        return tuple(inner.from_dict(item) for item in value) if inner else tuple(value)
    return inner.from_dict(value) if inner and value is not None else value
