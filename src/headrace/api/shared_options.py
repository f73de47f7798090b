"""Parameters of questions and of sent events, declared once for HTTP and for the options of commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.serve.question import DEFAULT_LIMIT, HIGHEST_LIMIT


@dataclass(frozen=True)
class SharedOption:
    """A parameter: what it means, and the placeholder of its value in help; without one, commands have their own."""

    about: str
    metavar: str | None = None

    @property
    def help(self) -> str:
        """Its meaning as a sentence."""
        return f"{self.about[:1].upper()}{self.about[1:].removesuffix('.')}."


QUESTION: Mapping[str, SharedOption] = {
    "by": SharedOption("keys to group by, separated by commas; the others are merged. Empty: grand total", "NAME,..."),
    "start": SharedOption("start, inclusive: ISO 8601, or relative to the newest event, such as -1h", "TIME"),
    "end": SharedOption("end, exclusive; same formats as start", "TIME"),
    "window": SharedOption(
        "window size: a duration (1h), a unit of the calendar (1 month, week), or all: one window from start to end. "
        "With start, windows are counted from there, except those of the calendar",
        "SPAN",
    ),
    "every": SharedOption("interval between window starts, such as 5m", "SPAN"),
    "having": SharedOption(
        "only rows for which this condition is true, such as n > 5; default: HAVING of the view. Empty: all rows",
        "CONDITION",
    ),
    "order_by": SharedOption(
        "order of the rows, such as n DESC; default: ORDER BY of the view. Empty: by window and key", "COLUMN,..."
    ),
    "cumulate": SharedOption("running totals: windows grow by this step until they have the size of window", "SPAN"),
    "zone": SharedOption(
        "time zone of calendar windows and of times without an offset, such as Europe/Berlin; default UTC", "ZONE"
    ),
    "order": SharedOption(
        "which windows come first: oldest (default) or newest; within a window rows are ordered by key"
    ),
    "limit": SharedOption(
        f"maximum number of rows: default LIMIT of the view or {DEFAULT_LIMIT:,}, at most {HIGHEST_LIMIT:,}"
    ),
    "cursor": SharedOption("next_cursor of the previous reply; other parameters except limit must be the same"),
    "settled_only": SharedOption("true: only rows that are settled"),
    "corrections": SharedOption(
        "true: rows also have events and corrections, the number of events that came after the row had settled"
    ),
    "version_as_of": SharedOption(
        "answer as of the first N commits of the log, computed from the lake; of a view over several "
        "streams: visits=12,calls=7",
        "N",
    ),
    "timestamp_as_of": SharedOption(
        "answer as of a commit time: ISO 8601, or relative to the current time, such as -1h", "TIME"
    ),
}
CELL: Mapping[str, SharedOption] = {
    "at": SharedOption(
        "any time in the window: ISO 8601, or relative to the newest event, such as -1h; "
        "omit it for a view without windows",
        "TIME",
    ),
    "window": SharedOption("window size, such as 1h; default: that of the view", "SPAN"),
    "every": SharedOption("interval between window starts, such as 5m", "SPAN"),
    "zone": SharedOption(
        "time zone of calendar windows and of times without an offset, such as Europe/Berlin; default UTC", "ZONE"
    ),
}
INTAKE: Mapping[str, SharedOption] = {
    "delimiter": SharedOption("CSV delimiter: , ; | or tab; detected by default.", "MARK"),
    "fields": SharedOption("Column names of CSV without a header, separated by commas.", "A,B,C"),
}
