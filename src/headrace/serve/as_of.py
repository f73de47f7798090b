"""VERSION AS OF and TIMESTAMP AS OF in questions: a number of commits, of each stream, or a commit time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from headrace.errors import QuestionError
from headrace.format import iso
from headrace.names import decode_name, encode_name
from headrace.serve.times import parse_instant, read_relative

MOST_COMMITS = (1 << 62) - 1
VERSION, TIMESTAMP = "version_as_of", "timestamp_as_of"


@dataclass(frozen=True)
class AsOf:
    """The state of a view with commits [0, commits), or with those made by a time. Exactly one of them is set."""

    commits: int | None = None  # of the one stream that the view reads
    time: datetime | None = None
    of_streams: tuple[tuple[str, int], ...] | None = None  # the commits of each stream

    @property
    def is_version(self) -> bool:
        """Whether it says how many commits, and not when."""
        return self.time is None

    def parameters(self) -> dict[str, Any]:
        """The parameters of a question for this state."""
        version = self.commits if self.of_streams is None else write_commits(dict(self.of_streams))
        return {VERSION: version, TIMESTAMP: iso(self.time) if self.time else None}


def write_commits(commits: Mapping[str, int]) -> str:
    """The commits of several streams as VERSION AS OF takes them."""
    return ",".join(f"{encode_name(stream)}={count}" for stream, count in commits.items())


def read_as_of(version: Any, timestamp: Any) -> AsOf | None:
    """From Python values or text. An empty value is an error, unlike that of other parameters, and not the present."""
    has_version, has_timestamp = version is not None, timestamp is not None
    if has_version and has_timestamp:
        raise QuestionError(
            "a question takes only one of them", found=f"{VERSION} and {TIMESTAMP}", fix="leave one of them out"
        )
    if isinstance(version, Mapping) or (isinstance(version, str) and "=" in version):
        return AsOf(of_streams=_read_streams(version))
    if has_version:
        return AsOf(commits=_read_commits(version))
    return AsOf(time=_read_time(timestamp)) if has_timestamp else None


def _read_streams(value: Mapping[str, Any] | str) -> tuple[tuple[str, int], ...]:
    """From a mapping, or `visits=12,calls=7`, in which a name that is not plain is as `encode_name` writes it."""
    pairs = list(value.items()) if isinstance(value, Mapping) else [_read_pair(pair) for pair in value.split(",")]
    names = [name for name, _ in pairs]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None or not names:
        raise QuestionError(
            f"{VERSION} takes each stream once",
            found=f"'{repeated}' twice" if repeated else "no stream",
            expected="such as visits=12,calls=7",
        )
    return tuple((str(name), _read_commits(count)) for name, count in pairs)


def _read_pair(pair: str) -> tuple[str, str]:
    name, _, count = pair.partition("=")
    return decode_name(name.strip()), count.strip()


def _read_commits(value: Any) -> int:
    try:
        number = -1 if isinstance(value, bool | float) else int(value)
    except (TypeError, ValueError):
        number = -1
    if not 0 <= number <= MOST_COMMITS:
        raise QuestionError(
            f"{VERSION} is not a number of commits",
            found=repr(value)[:60],
            expected="the number of commits to include, such as 12; of several streams, visits=12,calls=7",
        )
    return number


def _read_time(value: Any) -> datetime:
    if isinstance(value, str) and (back_ms := read_relative(TIMESTAMP, value.strip())) is not None:
        return datetime.now(UTC) - timedelta(milliseconds=back_ms)  # commits are made at times of the clock
    time = parse_instant(value) if isinstance(value, str) and not value.strip().isdigit() else value
    if isinstance(time, datetime):
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    if isinstance(time, date):
        return datetime(time.year, time.month, time.day, tzinfo=UTC)
    raise QuestionError(
        f"{TIMESTAMP} is not a time",
        found=repr(value)[:60],
        expected="ISO 8601, such as '2026-03-01T12:00:00Z', or a time before now, such as '-1h'",
    )
