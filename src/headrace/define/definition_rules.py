"""Rules for streams and views, for definitions in SQL and in Python, and for changes of the fields of a stream.

Errors here have no place yet.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from headrace.define.model import CSV, FORMATS, TEXT, Field, Source, Stream, UniqueEvents, Window
from headrace.errors import DefinitionError, nearest
from headrace.language.calendar import Calendar
from headrace.language.datetime_patterns import has_year, refuse_time_pattern
from headrace.language.durations import SECOND_MS, format_duration
from headrace.language.hints import part_hint
from headrace.language.source_text import FollowUpError, escape
from headrace.language.statements.with_options import refuse_later_format
from headrace.language.terms import Expression, quote
from headrace.types import STRING, TIMESTAMP, Type

_WIDER = {("INT", "BIGINT"), ("INT", "DOUBLE")}
_ROUNDED = {
    "BIGINT": "a DOUBLE holds whole numbers exactly only up to 2^53, so larger ones of the log would change",
    "DECIMAL": "a DOUBLE holds some 15 digits and not every decimal fraction, so numbers of the log would change",
}


def loosens(before: Stream, after: Stream, name: str) -> bool:
    """Return True if this field of both has only become looser."""
    old, new = _field(before, name), _field(after, name)
    same_place = (old.computed, old.path, old.record) == (new.computed, new.path, new.record)
    if not same_place or (new.nullable, old.nullable) == (False, True):
        return False
    if old.type == new.type:
        return True
    # Old events hold values computed from the old type, which the new type may format or round differently.
    expressions = [field.computed for field in before.fields if field.computed]
    return not old.computed and widens(old.type, new.type) and not any(name in of.fields() for of in expressions)


def strictest(before: Stream, after: Stream) -> Stream:
    """The stream that accepts only what both accept: the new fields, with the old declaration where there is one."""
    old = {field.name: field for field in before.fields}
    return replace(after, fields=tuple(old.get(field.name, field) for field in after.fields))


def widens(before: Type, after: Type) -> bool:
    """Return True if each value of one type is the same value of the other."""
    if before.name == after.name == "DECIMAL":
        return after.scale >= before.scale and after.precision - after.scale >= before.precision - before.scale
    return (before.name, after.name) in _WIDER


def why_narrower(before: Field, after: Field) -> str | None:
    """Why a type that looks wider is not, and what to do; None where no explanation is needed."""
    reason = _ROUNDED.get(before.type.name) if after.type.name == "DOUBLE" else None
    fix = f"keep {before.type}, and write CAST({before.name} AS DOUBLE) in views"
    return f"{reason}; {fix}" if reason else None


def _field(stream: Stream, name: str) -> Field:
    return next(field for field in stream.fields if field.name == name)


_OTHER_FORMATS = {"raw": TEXT, "kafka": TEXT, "delimited": CSV}  # of Flink and ksqlDB, for values in Kafka


def make_window(size_ms: int, slide_ms: int | None = None, offset_ms: int = 0) -> Window:
    """A window whose panes the store can hold."""
    slide_ms = size_ms if slide_ms is None else slide_ms
    if slide_ms > size_ms:
        raise DefinitionError(
            f"a window of {format_duration(size_ms)} every {format_duration(slide_ms)} leaves gaps",
            fix="the slide is at most the size; the size comes first in window(…), last in HOP(…)",
        )
    if not slide_ms or not size_ms:
        raise DefinitionError("the size of a window must be greater than 0", expected="at least 1 second")
    return _check_panes(Window(size_ms, slide_ms, offset_ms=offset_ms % slide_ms))


def make_cumulative(step_ms: int, size: int | Calendar, offset_ms: int = 0) -> Window:
    """A window that grows by a step until it has its size."""
    if not step_ms or not size:
        raise DefinitionError("the size of a window must be greater than 0", expected="at least 1 second")
    if isinstance(size, Calendar):
        if offset_ms:
            raise DefinitionError("a calendar window has no offset", fix="leave out the offset")
        tile_ms = math.gcd(step_ms, size.tile_ms)
        return _check_panes(Window(size.nominal_ms, step_ms, calendar=size, cumulative=True, tile_ms=tile_ms))
    if size % step_ms:
        raise DefinitionError(
            f"a window of {format_duration(size)} does not grow in steps of {format_duration(step_ms)}",
            expected="a size that is a multiple of the step",
            fix="the step comes first in CUMULATE(…), as in INTERVAL '1' HOUR, INTERVAL '1' DAY",
        )
    return _check_panes(Window(size, step_ms, offset_ms=offset_ms % size, cumulative=True))


def make_calendar_window(calendar: Calendar) -> Window:
    """Days, weeks or months, one after the other."""
    size_ms = calendar.nominal_ms
    return _check_panes(Window(size_ms, size_ms, calendar=calendar, tile_ms=calendar.tile_ms))


def make_session(gap_ms: int, gap: Expression | None = None) -> Window:
    """Sessions with a gap, which is the shortest one if `gap` gives it for each event."""
    if gap_ms <= 0:
        raise DefinitionError("the gap of a session must be greater than 0", expected="at least 1 second")
    if gap_ms % SECOND_MS:
        raise DefinitionError("the gap of a session is a number of whole seconds", found=format_duration(gap_ms))
    return Window(gap_ms, gap_ms, session=True, gap=gap)


def _check_panes(window: Window) -> Window:
    if window.pane_ms % SECOND_MS:
        offset = f" with an offset of {format_duration(window.offset_ms)}" if window.offset_ms else ""
        raise DefinitionError(
            f"a window of {format_duration(window.size_ms)} every {format_duration(window.slide_ms)}{offset} needs "
            f"panes of {format_duration(window.pane_ms)}",
            expected="panes of whole seconds",
            fix="make size and slide whole seconds",
        )
    return window


def check_key(expression: Expression) -> None:
    """Refuse to group by an ARRAY, a STRUCT or a MAP."""
    if expression.type.is_nested:
        raise DefinitionError(
            f"the key {expression.sql} is not a single value", found=str(expression.type), fix=part_hint(expression)
        )


def check_format(format_: str, fields: Iterable[Field], stream: str, source: Source | None = None) -> str:
    """The format of a stream, with which its fields must be compatible."""
    lower = format_.lower() if isinstance(format_, str) else format_
    lower = _OTHER_FORMATS.get(lower, lower) if source else lower
    refuse_later_format(format_, stream, kafka=source is not None)
    if lower not in FORMATS or (lower == CSV and source is None):
        raise DefinitionError(
            f"stream '{stream}': unknown format",
            found=f"{format_}",
            expected="JSON, TEXT or CSV" if source else "JSON or TEXT",
            fix="produce values in one of these"
            if source
            else "CSV, Parquet and compressed files are sent to a stream of format JSON",
        )
    fields = list(fields)
    declared = [field for field in fields if field.is_sent]
    if lower == TEXT and [(field.name, field.type) for field in declared] != [("value", STRING)]:
        raise DefinitionError(
            f"stream '{stream}' has the format TEXT: an event is one line, in the field 'value'",
            found=", ".join(f"{field.name} {field.type}" for field in declared),
            expected="value STRING",
            fix="take parts of it by computed fields, as in host STRING AS split_part(value, ' ', 1)",
        )
    if lower == TEXT and declared[0].path is not None:
        raise DefinitionError(
            f"stream '{stream}' has the format TEXT: 'value' is the whole line",
            found=f"FROM '{declared[0].path}'",
            fix="leave FROM out",
        )
    if lower == CSV:
        _check_cells(declared, stream)
    return str(lower)


def _check_cells(declared: Iterable[Field], stream: str) -> None:
    """Refuse fields that a row of cells without names cannot hold."""
    for field in declared:
        if field.path is not None:
            raise DefinitionError(
                f"stream '{stream}' has the format CSV: its cells are the fields in the order of their declaration",
                found=f"FROM '{field.path}'",
                fix="leave FROM out",
            )


def check_event_time(
    name: str, fields: Iterable[Field], owner: str, *, complete: bool = True, of: str = "stream"
) -> str:
    """The event time as its field is spelled. Unless `complete`, fields with mistakes are missing from `fields`."""
    for field in fields:
        if field.name.lower() == name.lower():
            if field.type != TIMESTAMP:
                raise DefinitionError(
                    f"{of} '{owner}': the event time '{field.name}' is a {field.type}",
                    expected="a TIMESTAMP",
                    fix=f"declare event_time TIMESTAMP AS {to_time(field.name, field.type)}, "
                    "and write WATERMARK FOR event_time",
                )
            _check_year(field, f"{of} '{owner}'")
            return field.name
    kind = DefinitionError if complete else FollowUpError
    raise kind(f"{of} '{owner}' has no field '{name}' to be its event time", fix="declare it, or name another")


def _check_year(field: Field, owner: str) -> None:
    """Refuse an event time that is read by a format without a year: all events would be of 1970."""
    call = re.fullmatch(r"to_timestamp\((.+), '((?:[^'\\]|\\.)+)'\)", field.computed.sql) if field.computed else None
    pattern = re.sub(r"\\(.)", r"\1", call[2]) if call else ""
    if call is not None and refuse_time_pattern(pattern) is None and not has_year(pattern):
        year = datetime.now(UTC).year
        written = escape("yyyy " + pattern)
        raise DefinitionError(
            f"{owner}: the event time '{field.name}' would be in 1970: the format '{pattern}' has no year",
            fix=f"write to_timestamp(concat('{year} ', {call[1]}), {written}), or leave WATERMARK out: "
            "the time of arrival is then the event time",
        )


def to_time(field: str, type_: Type) -> str:
    """Return what makes a TIMESTAMP of a field of another type."""
    name = quote(field)
    if type_.is_integer:
        return f"timestamp_millis({name})"
    return f"to_timestamp({name})" if type_.name in ("STRING", "DATE") else f"timestamp_millis(CAST({name} AS BIGINT))"


def check_idle_timeout(idle_timeout_ms: int) -> int:
    """Refuse one in which the next event of a busy stream might come."""
    if idle_timeout_ms < SECOND_MS:
        raise DefinitionError(
            "the idle time-out is too short", found=format_duration(idle_timeout_ms), expected="at least 1 second"
        )
    return idle_timeout_ms


def check_unique_column(name: str, fields: Sequence[Field], stream: str, *, complete: bool = True) -> str:
    """A column of UNIQUE as its field is spelled. Unless `complete`, fields with mistakes are missing from `fields`."""
    field = next((field for field in fields if field.name.lower() == name.lower()), None)
    if field is None:
        near = nearest(name, [field.name for field in fields])
        kind = DefinitionError if complete else FollowUpError
        raise kind(
            f"stream '{stream}': UNIQUE names the field '{name}', which does not exist",
            fix=f"did you mean '{near}'?" if near else "declare it, or name another",
        )
    if field.type.is_nested:
        inner = part_hint(Expression.field(field.name, field.type)).removeprefix("take a part of it, as in ")
        raise DefinitionError(
            f"stream '{stream}': the field '{field.name}' of UNIQUE is not a single value",
            found=str(field.type),
            fix=f"declare a field for a part of it, as in {quote(field.name + '_id')} AS {inner}, and name that",
        )
    return field.name


def make_unique(columns: Sequence[str], within_ms: int, stream: str) -> UniqueEvents:
    """UNIQUE over these columns, which exist."""
    if len(set(columns)) < len(columns):
        raise DefinitionError(f"stream '{stream}': UNIQUE names a field twice", fix="name each field once")
    if within_ms <= 0:
        raise DefinitionError(
            f"stream '{stream}': UNIQUE needs an interval greater than 0",
            found=format_duration(within_ms),
            fix="write the interval of event time, as in WITHIN INTERVAL 1 DAY",
        )
    return UniqueEvents(tuple(columns), within_ms)
