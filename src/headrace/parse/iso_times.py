"""DATE and TIMESTAMP as an event may write them: ISO 8601, UTC where no zone is named."""

from __future__ import annotations

import re
from datetime import MAXYEAR, MINYEAR, UTC, date, datetime

DATE_FORM = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
TIMESTAMP_FORM = re.compile(
    r"\d{4}-\d\d-\d\d(?:[ T]\d\d(?::\d\d(?::\d\d(?:\.\d{1,6})?)?)?(?:Z|[+-]\d\d(?::?[0-5]\d)?)?)?", re.ASCII
)


def read_date(text: str) -> date | None:
    """The date that a text contains; None if it is not a date."""
    if not DATE_FORM.fullmatch(text):
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def read_timestamp(text: str) -> datetime | None:
    """The time of a text, in UTC; None if it is not a time of the years 1 to 9999."""
    if not TIMESTAMP_FORM.fullmatch(text):
        return None
    try:
        time = datetime.fromisoformat(text)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def is_plain_timestamp(text: str) -> bool:
    """Return whether a text is a time that is in the years 1 to 9999 in every time zone."""
    if not TIMESTAMP_FORM.fullmatch(text):
        return False
    try:
        return MINYEAR < datetime.fromisoformat(text).year < MAXYEAR
    except ValueError:
        return False
