"""The given events of streams: their lines, when each arrives, and the commits that they come in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise, zip_longest
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.define.catalog import Catalog
from headrace.define.model import CSV, JSON, TEXT, Stream
from headrace.define.table_parts import DELETED
from headrace.errors import HeadraceError, did_you_mean
from headrace.format import EPOCH
from headrace.ingest.body_events import BodyParser
from headrace.ingest.formats.format_detection import ANY
from headrace.ingest.input_files import SourceFile, StreamShape
from headrace.lake.added_fields import parser_of
from headrace.parse.frames import Frames, frame
from headrace.serve.question_times import parse_instant
from headrace.tools.testing.yaml_file import Items, Text, YamlFields, YamlNode, json_object
from headrace.transport.journal.journal_records import HEADER

ARRIVED, LINE, COMMIT = "_arrived", "_line", "commit"
# The arrival of an event that has no event time and says nothing else: some fixed time.
USUAL_ARRIVAL_US = int((datetime(2026, 1, 1, tzinfo=UTC) - EPOCH).total_seconds()) * 1_000_000
FAR_US = 1 << 61  # later than any event time
FIRST_US = -FAR_US
MOST_BYTES = 64 << 20


@dataclass(frozen=True)
class GivenEvent:
    """An event as it is sent. `arrived_us` None: it says nothing, so it is on time."""

    line: bytes
    arrived_us: int | None = None


@dataclass(frozen=True)
class GivenEvents:
    """The events of a stream, in the commits that the file says, of which some may be empty; else in one."""

    stream: Stream
    commits: tuple[tuple[GivenEvent, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Commit:
    """Events that arrive together, in the order of their arrival."""

    lines: tuple[bytes, ...]
    arrived_us: npt.NDArray[np.int64]

    def frames(self, stream: Stream) -> Frames:
        """The lines as the parser takes them."""
        return _frames(stream, self.lines)

    def positions(self, start: int) -> npt.NDArray[np.int64]:
        """The position of each event in a journal where it is a request of its own, then the end of the journal.

        Samples choose events by their positions.
        """
        sizes = [HEADER.size + len(line) + 1 for line in self.lines]
        ends = start + np.cumsum([0, *sizes], dtype=np.int64)
        return np.append(ends[:-1] + HEADER.size, ends[-1])


def read_given(stream: Stream, node: YamlNode, folder: Path) -> GivenEvents:
    """The events under `given`; files are relative to the folder."""
    if isinstance(node, Items):
        return _read_items(stream, node)
    if not isinstance(node, Text):
        raise node.error(f"the events of stream '{stream.name}' are a list", found=f"a {node.kind}")
    if node.is_null:
        return GivenEvents(stream, ())
    try:
        body = _inline(stream, node.value) if "\n" in node.value else _file(stream, folder / node.value)
    except HeadraceError as error:
        raise node.error(error.message, found=error.found, expected=error.expected, fix=error.fix) from error
    return GivenEvents(stream, (tuple(GivenEvent(line) for line in frame(stream.format, body)),))


def _inline(stream: Stream, text: str) -> bytes:
    """Lines, NDJSON or CSV in the test file itself."""
    parser = BodyParser(stream, lambda: FAR_US, MOST_BYTES)
    return bytes(parser.parse(text.encode(), ANY, keep_bad=True).payload)


def _file(stream: Stream, path: Path) -> bytes:
    types = {key: str(of) for key, of in stream.key_types().items()}
    pieces = SourceFile(path, StreamShape(stream.name, stream.format, types)).pieces()
    return b"".join(bytes(piece.lines) for piece in pieces)


def _read_items(stream: Stream, node: Items) -> GivenEvents:
    commits: list[list[GivenEvent]] = [[]]
    notes: dict[str, None] = {}
    for item in node.items:
        if isinstance(item, YamlFields) and list(item.values) == [COMMIT] and COMMIT not in stream.types():
            commits.append([])
            continue
        commits[-1].append(_read_event(stream, item))
        notes |= dict.fromkeys(_notes(stream, item))
    return GivenEvents(stream, tuple(map(tuple, commits)), tuple(notes))


def _read_event(stream: Stream, node: YamlNode) -> GivenEvent:
    if isinstance(node, Text):
        return GivenEvent(_line(node))
    if not isinstance(node, YamlFields):
        raise node.error(f"an event of stream '{stream.name}' is a mapping or a line", found=f"a {node.kind}")
    arrived = node.values.get(ARRIVED)
    arrived_us = None if arrived is None else _arrival(arrived)
    values = {name: value for name, value in node.values.items() if name != ARRIVED}
    if list(values) == [LINE]:
        return GivenEvent(_line(values[LINE]), arrived_us)
    if stream.format == TEXT:
        raise node.error(
            f"stream '{stream.name}' has FORMAT TEXT: an event is a line of text",
            found="a mapping",
            fix=f"write the line in quotes, or {{{LINE}: '…', {ARRIVED}: …}}",
        )
    return GivenEvent(json_object(values).encode(), arrived_us)


def _line(node: YamlNode) -> bytes:
    if not isinstance(node, Text) or "\n" in node.value or "\r" in node.value or not node.value.strip():
        raise node.error("an event is one line of text", found="none or several", fix="write each as an item")
    return node.value.encode()


def _arrival(node: YamlNode) -> int:
    time = parse_instant(node.value) if isinstance(node, Text) else None
    if time is None:
        raise node.error(f"{ARRIVED} is a time", found=str(node.literal()), expected="such as 2026-03-01T12:00:00Z")
    since = time - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _notes(stream: Stream, node: YamlNode) -> Iterator[str]:
    """Remarks on fields that the stream does not declare."""
    if not isinstance(node, YamlFields) or stream.format == TEXT:
        return
    declared = event_names(stream)
    computed = {field.name for field in stream.fields if not field.is_sent}
    for name in node.values:
        if name in (ARRIVED, LINE) or name in declared:
            continue
        if name in computed:
            yield f"stream '{stream.name}' computes '{name}': the value in the event is ignored"
        else:
            hint = did_you_mean(name, declared)
            yield f"stream '{stream.name}' has no field '{name}': it is stored and ignored{f'; {hint}' if hint else ''}"


def event_names(stream: Stream) -> set[str]:
    """The names at the top of an event that the stream reads."""
    return {str(field.steps[0]) for field in stream.fields if field.is_sent}


def in_order(catalog: Catalog, names: Iterable[str]) -> list[str]:
    """These streams in the order in which events that arrive together are committed: logs of tables first.

    So does a server that starts: events are joined to the rows that were sent before it.
    """
    relations = [view.relation for view in catalog.views.values()]
    joins = [
        (branch.stream, join.log.stream)
        for relation in relations
        for branch in (relation.branches if relation else ())
        for join in branch.joins
    ]
    streams, ordered = list(names), dict[str, None]()

    def add(name: str, readers: frozenset[str] = frozenset()) -> None:
        for stream, log in joins:
            if stream == name and log not in readers | {name}:
                add(log, readers | {name})
        ordered.setdefault(name)

    for name in sorted(streams, key=lambda name: name not in catalog.tables):
        add(name)
    return [name for name in ordered if name in streams]


def arrange(streams: Sequence[GivenEvents]) -> list[tuple[str, Commit]]:
    """The commits of all streams with their names, in order; of those that arrive together, in that of `streams`.

    If the file says where commits end, the first ones of all streams arrive together, then the second ones, and so on.
    Else there is one for each arrival that is given, in the order of arrival; else one. An event that gives no arrival
    is on time: it arrives at its event time, and a row of a table before all events.
    """
    if not any(len(each.commits) > 1 for each in streams):
        return _by_arrival([arrival for each in streams for arrival in _arrivals(each)])
    rounds = zip_longest(*(_as_written(each) for each in streams))
    return [commit for together in rounds for commit in together if commit is not None]


@dataclass(frozen=True)
class _Arrival:
    """An event of a stream, when it arrives, and what it follows."""

    stream: str
    event: GivenEvent
    arrived_us: int
    order_us: int


def _arrivals(source: GivenEvents) -> list[_Arrival]:
    stream, arrivals, last_us = source.stream, list[_Arrival](), USUAL_ARRIVAL_US
    events = [event for commit in source.commits for event in commit]
    is_table = DELETED in stream.types()
    for event, time_us in zip(events, _event_times(stream, [event.line for event in events]), strict=True):
        given_us = event.arrived_us
        last_us = given_us if given_us is not None else time_us if time_us is not None else last_us
        order_us = FIRST_US if is_table and given_us is None else last_us
        arrivals.append(_Arrival(stream.name, event, last_us, order_us))
    return arrivals


def _as_written(source: GivenEvents) -> Sequence[tuple[str, Commit] | None]:
    """The commits of one stream; None stands for one without events."""
    arrivals = _arrivals(source)
    if len(source.commits) < 2:
        return _by_arrival(arrivals)
    rest, name = iter(arrivals), source.stream.name
    return [(name, _commit([next(rest) for _ in commit])) if commit else None for commit in source.commits]


def _by_arrival(arrivals: Sequence[_Arrival]) -> list[tuple[str, Commit]]:
    """A group of commits for each arrival that an event gives; those on time in between are together."""
    gives = any(each.event.arrived_us is not None for each in arrivals)
    ordered = sorted(arrivals, key=lambda each: each.order_us) if gives else arrivals
    numbers = [0] * bool(ordered)
    for before, after in pairwise(ordered):
        on_time = before.event.arrived_us is None and after.event.arrived_us is None
        numbers.append(numbers[-1] + (before.order_us != after.order_us and not on_time))
    streams = list(dict.fromkeys(each.stream for each in arrivals))
    groups: dict[tuple[int, str], list[_Arrival]] = {}
    for number, each in zip(numbers, ordered, strict=True):
        groups.setdefault((number, each.stream), []).append(each)
    places = sorted(groups, key=lambda group: (group[0], streams.index(group[1])))
    return [(stream, _commit(groups[number, stream])) for number, stream in places]


def _commit(arrivals: Sequence[_Arrival]) -> Commit:
    arrived_us = np.array([each.arrived_us for each in arrivals], dtype=np.int64)
    return Commit(tuple(each.event.line for each in arrivals), arrived_us)


def _event_times(stream: Stream, lines: Sequence[bytes]) -> list[int | None]:
    """The event time of each good event, in microseconds."""
    if stream.event_time is None or not lines:
        return [None] * len(lines)
    format_of_tests = as_given(stream)
    parsed = parser_of(format_of_tests).parse(_frames(format_of_tests, lines), FAR_US)
    times = parsed.columns.column(stream.event_time).cast(pa.int64()).to_pylist()
    if parsed.reasons is None:
        return times
    return [time if reason is None else None for time, reason in zip(times, parsed.reasons.to_pylist(), strict=True)]


def as_given(stream: Stream) -> Stream:
    """The stream as tests give its events: mappings stand for rows of CSV."""
    return replace(stream, format=JSON) if stream.format == CSV else stream


def _frames(stream: Stream, lines: Sequence[bytes]) -> Frames:
    return frame(stream.format, b"\n".join(lines) + b"\n")
