"""Infers a definition from samples: fields, event time, patience and a first view, tried on the sample."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.define.catalog import Catalog, assemble
from headrace.define.model import ARRIVED, Stream
from headrace.define.sql_definitions import read_definitions
from headrace.define.unresolved import PlacedDefinition
from headrace.errors import DefinitionErrors, IngestError
from headrace.language.durations import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS
from headrace.language.source_text import SourceText
from headrace.name_encoding import shell
from headrace.parse.event_parser import Parsed, Parser
from headrace.parse.frames import frame_lines
from headrace.tools.infer.definition_text import DraftField, describe, suggest_view, write_stream
from headrace.tools.infer.field_profile import profile_values
from headrace.tools.infer.file_sample import FileSample
from headrace.tools.infer.inferred_fields import InferredFields, candidate, find_fields
from headrace.tools.infer.log_lines import SYSLOG, VALUE, declare
from headrace.tools.infer.time_fields import Reading, time_example
from headrace.types import TIMESTAMP

TOLERATED = 0.01  # of the events may be refused for their event time; if more are, another field is tried
PATIENCES_MS = (
    *(s * SECOND_MS for s in (10, 30)), *(m * MINUTE_MS for m in (1, 2, 5, 10, 30)),
    *(h * HOUR_MS for h in (1, 2, 6, 12)), DAY_MS,
)  # fmt: skip
UNKNOWN_MS = MINUTE_MS  # the patience if no event is late
MOST_WINDOWS, LEAST_EVENTS = 400, 2  # of the suggested view; events in a window, on average
MOST = 0.99  # of the events are not later than the patience


@dataclass(frozen=True)
class Draft:
    """An inferred definition, and the result of parsing the sample with it."""

    name: str
    sql: str
    stream: Stream
    view: str
    sampled: int
    refused: dict[str, int]  # reason -> events
    left_out: dict[str, str]  # name -> why it is not a field
    span: Span | None
    notes: list[str]

    @property
    def fitting(self) -> int:
        """The number of sampled events that the stream accepts."""
        return self.sampled - sum(self.refused.values())


def draft(name: str, samples: list[FileSample], other_names: Set[str] = frozenset()) -> Draft:
    """The definition of the stream of these samples; `other_names` are those of existing streams and views."""
    fields = _text_fields(samples) if samples[0].is_text else find_fields(samples)
    stream, draft_fields, reading, result = _choose_event_time(name, samples, fields)
    span = measure(_runs(result, stream, samples)) if stream.event_time else None
    patience_ms = span.patience_ms if span else 0
    window_ms = span.window_ms if span else MINUTE_MS
    event_time = stream.event_time
    view = suggest_view(name, fields.candidates(), event_time or ARRIVED, window_ms, other_names | {name})
    text = "\n".join(
        [
            _heading(samples, span),
            write_stream(name, draft_fields, event_time, patience_ms, fields.left_out, text=fields.kind is not None),
            f"-- A view: kept up to date as events arrive. `headrace ask {shell(view.name)}` shows it.",
            view.sql,
        ]
    )
    catalog = _load(text)
    refusals = _refusals(result)
    if sum(refusals.values()) > len(result.columns) // 2:
        raise IngestError(
            f"file '{samples[0].path}': most events would be refused",
            found=f"{next(iter(refusals.values())):,} of {len(result.columns):,}: {next(iter(refusals))}",
            expected="events of one shape",
        )
    return Draft(
        name,
        text,
        catalog.streams[name],
        view.name,
        sum(len(sample.events) for sample in samples),
        refusals,
        fields.left_out,
        span,
        _notes(fields, reading, span, refusals),
    )


def _text_fields(samples: list[FileSample]) -> InferredFields:
    """The computed fields of lines of text for which the parser finds a value in at least one line."""
    kind = samples[0].kind
    line, *parts = declare(kind)
    result = _parse(_load(write_stream("lines", [line, *parts], None, 0, {}, text=True)).streams["lines"], samples)
    fields = InferredFields([line], kind=kind.name)
    for part in parts:
        values = result.columns.column(part.name).to_pylist()
        profile = profile_values(part.name, values, len(values), texts=False)
        if profile.values:
            fields.declared.append(replace(part, comment=describe(profile)))
            fields.computed.append(candidate(profile, part.type))
    fields.times = [Reading(VALUE, 0, kind.time, kind.time_comment)] if kind.time else []
    return fields


def _choose_event_time(
    name: str, samples: list[FileSample], fields: InferredFields
) -> tuple[Stream, list[DraftField], Reading | None, Parsed]:
    """The first reading that gives nearly all events a valid event time; the time of arrival, if there is none."""
    for reading in [*fields.readings[:5], None]:
        draft_fields, event_time = _with_event_time(fields, reading)
        stream = _load(write_stream(name, draft_fields, event_time, 0, {}, text=fields.kind is not None)).streams[name]
        result = _parse(stream, samples)
        wrong = sum(count for reason, count in _refusals(result).items() if "event time" in reason)
        if reading is None or wrong <= TOLERATED * len(result.columns):
            return stream, draft_fields, reading, result
    raise AssertionError("the time of arrival is always valid")


def _with_event_time(fields: InferredFields, reading: Reading | None) -> tuple[list[DraftField], str | None]:
    if reading is None:
        return fields.declared, None
    draft_fields = []
    for field in fields.declared:
        if field.name == reading.field and reading.expression is None:
            field = replace(field, nullable=False, comment=f"{field.comment}; {reading.comment}")
        draft_fields.append(field)
    if reading.expression is None:
        return draft_fields, reading.field
    names = {field.name.lower() for field in draft_fields}
    name = next(name for name in ("at", "event_time", "event_at", "headrace_time") if name not in names)
    comment = f"computed from {reading.field}: {reading.comment}"
    return [*draft_fields, DraftField(name, TIMESTAMP, False, comment, reading.expression)], name


def _parse(stream: Stream, samples: list[FileSample]) -> Parsed:
    """The sample as the parser of the stream reads it."""
    events = b"".join(sample.as_lines(stream) for sample in samples)
    return Parser(stream).parse(frame_lines(events), time.time_ns() // 1000)


def _refusals(result: Parsed) -> dict[str, int]:
    if result.reasons is None:
        return {}
    return dict(Counter(reason for reason in result.reasons.to_pylist() if reason).most_common())


def _runs(result: Parsed, stream: Stream, samples: list[FileSample]) -> list[npt.NDArray[np.int64]]:
    """The event times of accepted events, one array for each run of consecutive events."""
    assert stream.event_time is not None, "only streams with an event time are measured"
    times = result.columns.column(stream.event_time).cast(pa.int64())
    accepted = times.is_valid() if result.reasons is None else pa.chunked_array([result.reasons.is_null()])
    us, mask = times.fill_null(0).to_numpy(), accepted.to_numpy() & times.is_valid().to_numpy()
    runs, start = [], 0
    for length in (length for sample in samples for length in sample.runs):
        runs.append(us[start : start + length][mask[start : start + length]])
        start += length
    return runs


def _load(text: str) -> Catalog:
    """The definition as the loader reads it."""
    declarations, errors = read_definitions(SourceText(text, "<inferred>"))
    if errors:
        raise DefinitionErrors(errors)
    return assemble([PlacedDefinition(one.definition, one.where) for one in declarations])


def _heading(samples: list[FileSample], span: Span | None) -> str:
    rows = sum(len(sample.events) for sample in samples)
    names = ", ".join(sample.path.name for sample in samples[:3]) + (" and more" if len(samples) > 3 else "")
    when = f", from {_day(span.first_us)} to {_day(span.last_us)}" if span else ""
    return (
        f"-- Inferred from {names}: {rows:,} events sampled{when}. Edit it as needed.\n"
        "-- NOT NULL is set only for the event time and for identifiers that every event has; events without them are\n"
        "-- refused. Undeclared values are still stored with the event."
    )


def _day(us: int) -> str:
    return datetime.fromtimestamp(us // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M")


def _line_time(kind: str) -> str:
    """An example of an event time for lines of a kind whose time is not known."""
    if kind != SYSLOG:
        return "to_timestamp(left(value, 19))"
    year = datetime.now(UTC).year
    return f"to_timestamp(concat('{year} ', left(value, 15)), 'yyyy MMM [ ]d HH:mm:ss') for lines of one year"


def _notes(fields: InferredFields, reading: Reading | None, span: Span | None, refusals: dict[str, int]) -> list[str]:
    """Remarks that the user should read before the next step."""
    notes = []
    if fields.kind:
        notes.append(f"the stream has FORMAT TEXT, so an event is a line; the file contains {fields.kind}")
    if fields.kind and len(fields.declared) == 1:
        notes.append(
            "the lines are of no known kind: add computed fields for their parts, such as "
            "host STRING AS split_part(value, ' ', 1); docs/functions.md lists the functions"
        )
    if reading is None and fields.kind:
        notes.append(
            "no time was found in the lines: the time of arrival is the event time. To change it, declare a computed "
            f"field such as at TIMESTAMP AS {_line_time(fields.kind)} and WATERMARK FOR at"
        )
    elif reading is None:
        notes.append(
            "no field could be read as a time: the time of arrival is the event time. To change it, declare a computed "
            f"field such as at TIMESTAMP AS {time_example(fields.typed)} and WATERMARK FOR at"
        )
    elif "check" in reading.comment:
        notes.append(f"event time '{reading.field}': {reading.comment}")
    if span and span.newest_first:
        notes.append("the newest events come first in the file: the others count as late, which is fine")
    if any(reason.startswith("not UTF-8") for reason in refusals):
        notes.append(
            "some text is not UTF-8; `iconv -f WINDOWS-1252 -t UTF-8 FILE > NEW` converts what older programs write"
        )
    notes += [f"'{name}' is not a field: {why}" for name, why in fields.left_out.items()]
    return notes


@dataclass(frozen=True)
class Span:
    """The time from the first event to the last, and the lateness that all but the latest 1 % stay within."""

    first_us: int
    last_us: int
    lateness_ms: int
    events: int
    late: int  # events that arrive after a newer one
    newest_first: bool  # the file is in descending order, so all but the first event are late

    @property
    def patience_ms(self) -> int:
        """The next round span above the lateness, from 10 seconds to a day."""
        if not self.late:
            return UNKNOWN_MS
        return next((ms for ms in PATIENCES_MS if ms >= self.lateness_ms), DAY_MS)

    @property
    def window_ms(self) -> int:
        """The smallest of a minute, an hour and a day that gives neither too many windows nor nearly empty ones."""
        ms = (self.last_us - self.first_us) // 1000
        for window_ms in (MINUTE_MS, HOUR_MS):
            windows = ms / window_ms
            if windows <= MOST_WINDOWS and self.events >= LEAST_EVENTS * windows:
                return window_ms
        return DAY_MS


def measure(runs: list[npt.NDArray[np.int64]]) -> Span | None:
    """The span of event times in microseconds; each run is of consecutive events, in the order of the file."""
    runs = [run for run in runs if len(run)]
    if not runs:
        return None
    steps = np.concatenate([np.diff(run) for run in runs])
    newest_first = bool((steps < 0).sum() > 2 * (steps > 0).sum() and len(steps) > 2)
    ascending = [run[::-1] for run in runs] if newest_first else runs
    lateness = np.concatenate([np.maximum.accumulate(run) - run for run in ascending])
    return Span(
        first_us=int(min(run.min() for run in runs)),
        last_us=int(max(run.max() for run in runs)),
        lateness_ms=int(np.ceil(np.quantile(lateness, MOST) / 1000)),
        events=sum(len(run) for run in runs),
        late=int((lateness > 0).sum()),
        newest_first=newest_first,
    )
