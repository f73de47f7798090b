"""Lines of text: the kind of log they are, and the computed fields that extract parts of such a line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.tools.infer.definition_text import DraftField
from headrace.types import BIGINT, INT, STRING, Type

VALUE = "value"
MOSTLY = 0.95  # of the lines must be of a kind
_ACCESS_TIME = r"\[\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4}\]"
_COMMON = rf'\S+ \S+ \S+ {_ACCESS_TIME} ".*" \d{{3}} (?:\d+|-)'
_ISO_TIME = r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?(?:Z|[+-]\d{2}:?\d{2})?"
_LEVELS = "TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL"


@dataclass(frozen=True)
class LineKind:
    """A kind of lines: its pattern, its fields as expressions over `value`, and its event time."""

    name: str
    pattern: re.Pattern[str]
    fields: tuple[tuple[str, Type, str], ...] = ()
    time: str | None = None
    time_comment: str = ""

    @property
    def is_access_log(self) -> bool:
        """Return whether it is an access log, which cannot be mistaken for anything else."""
        return self.fields[: len(_ACCESS_FIELDS)] == _ACCESS_FIELDS


def _extract(pattern: str) -> str:
    """The part of the line that the group of a pattern matches; NULL if it does not match."""
    return f"nullif(regexp_extract({VALUE}, r'{pattern}', 1), '')"


def _dash_is_null(expression: str) -> str:
    return f"nullif({expression}, '-')"


_ACCESS_STAMP = f"to_timestamp(regexp_extract({VALUE}, r'\\[([^\\]]+)\\]', 1), 'dd/MMM/yyyy:HH:mm:ss Z')"
_ACCESS_FIELDS = (
    ("host", STRING, f"split_part({VALUE}, ' ', 1)"),
    ("remote_user", STRING, _dash_is_null(f"split_part({VALUE}, ' ', 3)")),
    ("method", STRING, _extract('"([A-Z]+) ')),
    ("path", STRING, _extract('"[A-Z]+ ([^ ?"]+)')),
    ("status", INT, f"""TRY_CAST(regexp_extract({VALUE}, r'" (\\d{{3}}) ', 1) AS INT)"""),
    ("bytes", BIGINT, f"""TRY_CAST(regexp_extract({VALUE}, r'" \\d{{3}} (\\d+)', 1) AS BIGINT)"""),
)
_AGENT_FIELDS = (
    ("referrer", STRING, _dash_is_null(_extract(r'" \d{3} \S+ "([^"]*)"'))),
    ("agent", STRING, _dash_is_null(_extract(r'" \d{3} \S+ "[^"]*" "([^"]*)'))),
)
SYSLOG = "a syslog, whose times have no year"
_SYSLOG_TIME = r"[A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2}"
_SYSLOG_FIELDS = (
    ("host", STRING, _extract(rf"^{_SYSLOG_TIME} (\S+)")),
    ("program", STRING, _extract(rf"^{_SYSLOG_TIME} \S+ ([^ \[:]+)")),
    ("level", STRING, _extract(rf"(?i)\b({_LEVELS})\b")),
)
_ACCESS_COMMENT = "the time in brackets"
KINDS = (
    LineKind(
        "an access log in the combined format of Apache and nginx",
        re.compile(rf'{_COMMON} "[^"]*" "'),
        (*_ACCESS_FIELDS, *_AGENT_FIELDS),
        _ACCESS_STAMP,
        _ACCESS_COMMENT,
    ),
    LineKind(
        "an access log in the common format of Apache", re.compile(_COMMON), _ACCESS_FIELDS, _ACCESS_STAMP,
        _ACCESS_COMMENT,
    ),
    LineKind(
        "a log whose lines begin with a time",
        re.compile(_ISO_TIME),
        (("level", STRING, _extract(rf"\b({_LEVELS})\b")),),
        f"to_timestamp(regexp_extract({VALUE}, r'^({_ISO_TIME})', 1))",
        "the time that the line begins with, in UTC if it names no zone",
    ),
    # Its times have no year: the arrival is the event time.
    LineKind(SYSLOG, re.compile(rf"{_SYSLOG_TIME} \S+ \S+"), _SYSLOG_FIELDS),
)  # fmt: skip
LINES = LineKind("lines of text", re.compile(""))


def kind_of(lines: Sequence[str]) -> LineKind:
    """The first kind that nearly all lines match; `LINES` if there is none."""
    for kind in KINDS:
        if lines and sum(bool(kind.pattern.match(line)) for line in lines) >= MOSTLY * len(lines):
            return kind
    return LINES


def declare(kind: LineKind) -> list[DraftField]:
    """The field of the line, and the computed ones of its kind."""
    parts = [DraftField(name, type_, True, "", expression) for name, type_, expression in kind.fields]
    return [DraftField(VALUE, STRING, False, "the line as it came"), *parts]
