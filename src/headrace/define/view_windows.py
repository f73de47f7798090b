"""The one window of a view, however it is written: window(…), TUMBLE, HOP, CUMULATE, SESSION, or date_trunc and its
like.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal as LiteralType

from headrace.define.definition_rules import make_calendar_window, make_cumulative, make_session, make_window
from headrace.define.model import ARRIVED, Stream, Window
from headrace.errors import DefinitionError
from headrace.format import EPOCH
from headrace.language.calendar import MONTHS, Calendar, make_calendar, read_calendar, zone_name, zone_tile_ms
from headrace.language.check import Scope, check
from headrace.language.durations import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS, format_duration, parse_duration
from headrace.language.source_text import SourceText, located
from headrace.language.syntax import Call, Case, Cast, Interval, Literal, Name, Node, Operation, Part
from headrace.language.terms import quote
from headrace.types import BIGINT, INT, STRING, TIMESTAMP

SESSION_CALLS = ("session_window", "session")
WINDOW_CALLS = ("window", "tumble", "hop", "cumulate", *SESSION_CALLS)
BUCKET_CALLS = ("date_trunc", "time_bucket", "date_bin")  # windows if they are of the event time
START_CALLS = ("tumble_start", "hop_start", "window_start", "cumulate_start", "session_start")
END_CALLS = ("tumble_end", "hop_end", "window_end", "cumulate_end", "session_end")
FORMS = {
    "window": "window(at, '1 minute'), window(at, '1 hour', '5 minutes') or window(at, '1 month')",
    "tumble": "TUMBLE(at, INTERVAL 1 MINUTE)",
    "hop": "HOP(at, slide, size), as in HOP(at, INTERVAL 5 MINUTES, INTERVAL 1 HOUR)",
    "cumulate": "CUMULATE(at, step, size), as in CUMULATE(at, INTERVAL 1 HOUR, INTERVAL 1 DAY)",
    "session_window": "session_window(at, '30 minutes')",
    "session": "SESSION(at, INTERVAL 30 MINUTES)",
    "date_trunc": "date_trunc('hour', at)",
    "time_bucket": "time_bucket('15 minutes', at)",
    "date_bin": "date_bin(INTERVAL '15 minutes', at)",
}
_SPANS = {"window": (1, 2), "tumble": (1,), "hop": (2,), "cumulate": (2,)}  # without the offset
WINDOW_NAMES = ("window", "session_window")  # of the column with the bounds in Spark
_UNITS_MS = {"second": SECOND_MS, "minute": MINUTE_MS, "hour": HOUR_MS, "day": DAY_MS}
_TIME_BUCKET_ORIGIN_MS = (datetime(2000, 1, 3, tzinfo=EPOCH.tzinfo) - EPOCH).days * DAY_MS  # of TimescaleDB and DuckDB

Bound = LiteralType["start", "end", "both"]


@dataclass(frozen=True)
class _Time:
    """The event time, as a window names it: in a zone or not."""

    at: int
    zone: str | None


def window_bound(source: SourceText, node: Node) -> Bound | None:
    """The bound of the window that an expression names, `both` for the window itself; None for other expressions."""
    if isinstance(node, Call):
        name = node.name.lower()
        return (
            "start" if name in START_CALLS else "end" if name in END_CALLS else "both" if name in WINDOW_CALLS else None
        )
    if isinstance(node, Part) and is_window_call(node.value):  # window(at, '1 minute').start of Spark
        return _part(source, node)
    if not isinstance(node, Name):
        return None
    name = node.name.lower()
    if (node.of or "").lower() in WINDOW_NAMES:
        return _part(source, node)
    if name in WINDOW_NAMES:
        return "both"
    return {"window_start": "start", "window_end": "end"}.get(name)  # type: ignore[return-value]


def _part(source: SourceText, node: Name | Part) -> Bound:
    if node.name.lower() not in ("start", "end"):
        raise source.error(node.at, f"a window has no '{node.name}'", expected="window.start or window.end")
    return "start" if node.name.lower() == "start" else "end"


def is_window_call(node: Node) -> bool:
    """Return True if an expression is a window, whatever it is of."""
    return isinstance(node, Call) and node.name.lower() in WINDOW_CALLS


def whole_window(node: Node) -> Node:
    """The window of `window(at, '1 minute').start`, TUMBLE_START(at, …) and the like, which is the same to group by.

    Other expressions are returned as they are.
    """
    if isinstance(node, Part) and is_window_call(node.value):
        return node.value
    if isinstance(node, Call) and len(node.args) > 1 and node.name.lower() in (*START_CALLS, *END_CALLS):
        return replace(node, name=node.name.rpartition("_")[0])
    return node


def refuse_other_window(
    source: SourceText, node: Node, bound: Bound, window: Window, stream: Stream, scope: Scope
) -> None:
    """Refuse `window(at, '2 minutes').start` in SELECT where GROUP BY has a window of another size."""
    call = whole_window(node)
    if not isinstance(call, Call) or not is_window_call(call):
        return
    if not same_windows(window, read_window(source, call, stream, scope)):
        raise source.error(
            node.at, "SELECT names another window than GROUP BY", fix="write window_start and window_end",
            write=None if bound == "both" else f"window_{bound}", span=node.span,
        )  # fmt: skip


def read_window(source: SourceText, call: Call, stream: Stream, scope: Scope) -> Window:
    """The window of a call over the event time of the stream; the gap of sessions may be an expression of events."""
    kind = call.name.lower()
    if kind in SESSION_CALLS:
        return _read_session(source, call, stream, scope)
    spans, most = call.args[1:], max(_SPANS[kind])
    if len(spans) not in (*_SPANS[kind], most + 1):  # the last is the offset, as in Spark and Flink
        raise source.error(call.at, f"{kind} does not take {len(call.args)} arguments", expected=FORMS[kind])
    time = _time(source, call.args[0], stream)
    if time is None:
        raise _not_event_time(source, call.args[0], stream)
    offset = _offset(source, spans[most], kind) if len(spans) > most else 0
    sizes = [_span(source, span, kind, time.zone) for span in spans[:most]]
    with located(source, call.at):
        if kind == "cumulate":
            return _cumulative(sizes[0], sizes[1], offset)
        size, slide = (sizes[1], sizes[0]) if kind == "hop" else (sizes[0], sizes[-1])
        return _make(size, slide, offset)


def is_bucket(node: Node, stream: Stream) -> bool:
    """Return True if an expression is date_trunc or one of its like, of the event time."""
    call, _ = _unwrapped(node)
    if call is None or len(call.args) < 2 or _time_of(call.args[1], stream) is None:
        return False
    unit = call.args[0]
    sub_second = isinstance(unit, Literal) and unit.text.lower() in ("millisecond", "microsecond")
    return not sub_second  # an ordinary key: no pane is that short


def read_bucket(source: SourceText, node: Node, stream: Stream) -> Window:
    """The window of date_trunc and its like, of which `is_bucket` holds."""
    call, outer_zone = _unwrapped(node)
    assert call is not None, "it is a bucket"
    kind = call.name.lower()
    time = _time(source, call.args[1], stream)
    assert time is not None, "it is of the event time"
    zone, rest = time.zone, call.args[2:]
    if kind in ("date_trunc", "time_bucket") and rest and zone is None and isinstance(rest[0], Literal):
        text = rest[0]
        if text.type == STRING and not _is_time(text.text):
            zone, rest = _zone(source, text), rest[1:]
    if len(rest) > (0 if kind == "date_trunc" else 1):
        raise source.error(call.at, f"{kind} does not take {len(call.args)} arguments", expected=FORMS[kind])
    with located(source, call.at):
        if outer_zone is not None and outer_zone != (zone or "UTC"):
            raise DefinitionError(
                f"the start of a window in {zone or 'UTC'} is an instant, which {outer_zone} does not change",
                fix=f"leave out the outer AT TIME ZONE, or write '{zone or 'UTC'}' in both",
            )
        if kind == "date_trunc":
            return _truncated(source, call.args[0], zone)
        size = _span(source, call.args[0], kind, zone)
        if isinstance(size, Calendar):
            if rest:
                raise DefinitionError("a calendar window has no origin", fix="leave out the origin")
            return make_calendar_window(size)
        # Whatever the origin, buckets of whole divisors of a day begin where those of the epoch do.
        origin = _offset(source, rest[0], kind) if rest else _TIME_BUCKET_ORIGIN_MS if kind == "time_bucket" else 0
        return make_window(size, size, origin)


def same_windows(a: Window | None, b: Window) -> bool:
    """Return True if two windows begin and end at the same times, whatever they are called."""
    return a is not None and replace(a, start_name=b.start_name, end_name=b.end_name) == b


def _read_session(source: SourceText, call: Call, stream: Stream, scope: Scope) -> Window:
    kind = call.name.lower()
    if len(call.args) != 2:
        raise source.error(call.at, f"{kind} does not take {len(call.args)} arguments", expected=FORMS[kind])
    if _time(source, call.args[0], stream) is None:
        raise _not_event_time(source, call.args[0], stream)
    gaps: list[int] = []
    written = _constant_gaps(source, call.args[1], kind, gaps)
    with located(source, call.at):
        for gap_ms in gaps:
            make_session(gap_ms)
        if len(set(gaps)) == 1:
            return make_session(gaps[0])
        return make_session(min(gaps), check(source, Cast(written.at, written, BIGINT, "CAST"), scope))


def _constant_gaps(source: SourceText, node: Node, kind: str, gaps: list[int]) -> Node:
    """A gap with its durations in ms, which are added to `gaps`: one, or those that a CASE with ELSE chooses from."""

    def read(part: Node) -> Node:
        return _constant_gaps(source, part, kind, gaps)

    match node:
        case Case(otherwise=Node() as otherwise):
            whens = tuple((condition, read(gap)) for condition, gap in node.whens)
            return replace(node, whens=whens, otherwise=read(otherwise))
        case Call(name=name, args=(condition, gap, otherwise)) if name.lower() in ("if", "iff"):
            return Case(node.at, ((condition, read(gap)),), read(otherwise))
        case Interval(calendar=""):
            gaps.append(node.ms)
        case Literal(type=of) if of == STRING:
            span = _span(source, node, kind)
            if isinstance(span, Calendar):
                raise source.error(node.at, "the gap of a session is a fixed duration", found=str(span))
            gaps.append(span)
        case _:
            raise source.error(
                node.at, "the gap of a session is a constant duration, or CASE with ELSE that chooses one for an event",
                expected=f"{FORMS[kind]}, or CASE WHEN … THEN '2 hours' ELSE '30 minutes' END",
            )  # fmt: skip
    return Literal(node.at, str(gaps[-1]), INT)


def _truncated(source: SourceText, node: Node, zone: str | None) -> Window:
    unit = node.text.lower() if isinstance(node, Literal) and node.type == STRING else None
    if unit in _UNITS_MS and (zone is None or unit != "day"):
        return make_window(_in_zone(_UNITS_MS[unit], zone))
    if unit in ("day", "week"):
        return make_calendar_window(make_calendar("day" if unit == "day" else "week", 1, zone, unit))
    if unit in MONTHS:
        return make_calendar_window(make_calendar("month", MONTHS[unit], zone, unit))
    raise source.error(
        node.at, "date_trunc takes a unit first", found=repr(unit) if unit else None,
        expected=", ".join(f"'{each}'" for each in (*_UNITS_MS, "week", *MONTHS)), fix=FORMS["date_trunc"],
    )  # fmt: skip


def _make(size: int | Calendar, slide: int | Calendar, offset: int) -> Window:
    if not isinstance(size, Calendar) and not isinstance(slide, Calendar):
        return make_window(size, slide, offset)
    if size != slide:
        raise DefinitionError(
            "calendar windows follow one another: they have no slide",
            fix="leave out the slide; CUMULATE(at, INTERVAL 1 DAY, INTERVAL 1 MONTH) is the running total of a month",
        )
    if offset:
        raise DefinitionError("a calendar window has no offset", fix="leave out the offset")
    assert isinstance(size, Calendar), "both are"
    return make_calendar_window(size)


def _cumulative(step: int | Calendar, size: int | Calendar, offset: int) -> Window:
    if isinstance(step, Calendar) and step.unit != "month":
        step = step.nominal_ms  # a day of a zone: its steps count from the start of the window
    if isinstance(step, Calendar):
        raise DefinitionError("the step of a cumulative window is a fixed duration", found=str(step), fix="write days")
    return make_cumulative(step, size, offset)


def _unwrapped(node: Node) -> tuple[Call | None, str | None]:
    """The bucket inside of `… AT TIME ZONE zone`, which gives its start as an instant again; and that zone."""
    names = ("from_utc_timestamp", "to_utc_timestamp")
    if isinstance(node, Call) and node.name.lower() in names and len(node.args) == 2:
        inner, zone = node.args
        if isinstance(inner, Call) and inner.name.lower() in BUCKET_CALLS and isinstance(zone, Literal):
            return inner, zone.text
    return (node, None) if isinstance(node, Call) and node.name.lower() in BUCKET_CALLS else (None, None)


def _time_of(node: Node, stream: Stream) -> tuple[Name, Node | None] | None:
    """The name of the event time, and the zone in which it is taken; None if the expression is another."""
    zone = None
    if isinstance(node, Call) and node.name.lower() == "from_utc_timestamp" and len(node.args) == 2:
        node, zone = node.args
    if isinstance(node, Name) and node.name.lower() == stream.time_column.lower():
        return node, zone
    return None


def _time(source: SourceText, node: Node, stream: Stream) -> _Time | None:
    parts = _time_of(node, stream)
    if parts is None:
        return None
    name, zone = parts
    return _Time(name.at, None if zone is None else _zone(source, zone))


def _zone(source: SourceText, node: Node) -> str:
    if not isinstance(node, Literal) or node.type != STRING:
        raise source.error(node.at, "the time zone of a window is a constant", expected="such as 'Europe/Berlin'")
    with located(source, node.at):
        return zone_name(node.text)


def _not_event_time(source: SourceText, node: Node, stream: Stream) -> DefinitionError:
    time, name = stream.time_column, node.name if isinstance(node, Name) else None
    fix = f"write {quote(time)}"
    if name and stream.relation is None and not stream.event_time:
        fix = f"declare WATERMARK FOR {quote(name)} in the stream, or write {time}"
    elif name:
        field, columns = (ARRIVED[1:], f"*, {ARRIVED} AS {ARRIVED[1:]}") if name.lower() == ARRIVED else (name, "*")
        derived = quote(f"{stream.name}_by_{field}")
        fix += (
            f", or read a stream with that event time: CREATE STREAM {derived} (WATERMARK FOR {quote(field)}) "
            f"AS SELECT {columns} FROM {quote(stream.name)}"
        )
    return source.error(
        node.at,
        f"a window is over the event time of the stream; that of '{stream.name}' is '{time}'",
        found=f"'{name}'" if name else "an expression",
        fix=fix,
        write=time,
        span=node.span,
    )


def _span(source: SourceText, node: Node, kind: str, zone: str | None = None) -> int | Calendar:
    """A size: a fixed duration in ms, or a calendar."""
    if isinstance(node, Interval) and not node.calendar:
        text = f"{node.ms} ms"
        if zone is not None and node.ms % DAY_MS == 0:
            text = f"{node.ms // DAY_MS} days"
    elif isinstance(node, Interval):
        text = node.calendar
    elif isinstance(node, Literal) and node.type == STRING:
        text = node.text
    else:
        raise source.error(node.at, f"{kind} takes a constant duration here", expected=FORMS[kind])
    with located(source, node.at):
        return read_span(text, zone)


def read_span(text: str, zone: str | None) -> int | Calendar:
    """A size as text: a fixed duration in ms, or a calendar."""
    if zone is None:
        with suppress(DefinitionError):
            return parse_duration(text)
    calendar = read_calendar(text, zone)
    return _in_zone(parse_duration(text), zone) if calendar is None else calendar


def _in_zone(span_ms: int, zone: str | None) -> int:
    """A duration, if windows of it begin at the same times in a zone and in UTC."""
    if zone in (None, "UTC") or (span_ms and zone_tile_ms(zone) % span_ms == 0):
        return span_ms
    raise DefinitionError(
        f"windows of {format_duration(span_ms)} do not begin at the same times in {zone} and in UTC",
        expected="days, weeks, months, quarters or years in a zone",
        fix="leave out the zone, or write a shorter duration or days",
    )


def _offset(source: SourceText, node: Node, kind: str) -> int:
    """An offset, or an instant from which windows are counted, in ms."""
    if isinstance(node, Operation) and node.op == "-" and len(node.args) == 1:
        return -_offset(source, node.args[0], kind)
    if isinstance(node, Literal) and node.type in (STRING, TIMESTAMP) and _is_time(node.text):
        instant = datetime.fromisoformat(node.text.strip())
        instant = instant.replace(tzinfo=EPOCH.tzinfo) if instant.tzinfo is None else instant
        return round((instant - EPOCH).total_seconds() * 1000)
    span = _span(source, node, kind)
    if isinstance(span, Calendar):
        raise source.error(node.at, f"{kind} takes a fixed duration here", found=str(span), expected=FORMS[kind])
    return span


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text.strip())
    except ValueError:
        return False
    return True
