"""Streams, tables, views, sinks and alerts as inert data: no Spark, no I/O. SQL and Python make equal objects."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from headrace.aggregate import Aggregate
from headrace.aggregate.sampled import scale
from headrace.define.python.query_builder import Queryable
from headrace.define.relation import Reads, Relation
from headrace.define.sampling import scaling_of
from headrace.language.calendar import UTC_NAME, Calendar
from headrace.language.durations import format_duration
from headrace.language.paths import Steps, parse_path
from headrace.language.terms import Expression, quote
from headrace.types import TIMESTAMP, Type

ARRIVED = "_arrived"  # when an event came: the event time of a stream that declares none
JSON, TEXT, CSV = "json", "text", "csv"
BOUNDS = ("window_start", "window_end")  # of the window of a row, in expressions over rows
FORMATS = (JSON, TEXT, CSV)
KAFKA = "kafka"  # the connector of streams whose events are in Kafka

Options = tuple[tuple[str, str], ...]  # of a connector, by name: canonical names in lower case, values as written


@dataclass(frozen=True)
class Field:
    """A typed field of a stream; a computed one is evaluated once, when the event is appended."""

    name: str
    type: Type
    nullable: bool = True
    computed: Expression | None = None
    path: str | None = None  # where its value is in an event; None: under the field's own name
    record: str | None = None  # its part of the Kafka record, by a name of `kafka_record.py`; None: of the value

    @property
    def is_sent(self) -> bool:
        """Return True if its value is in the event, as it was sent: not computed, and not around the event in Kafka."""
        return self.computed is None and self.record is None

    @property
    def steps(self) -> Steps:
        """Where its value is in an event."""
        return (self.name,) if self.path is None else parse_path(self.path)

    @property
    def label(self) -> str:
        """Its name in the reason for refusing an event, between quotes."""
        if self.record is not None:
            return f"{self.name}' from '{self.record}"
        return self.name if self.path is None else f"{self.name}' from '{self.path}"


@dataclass(frozen=True)
class Source:
    """Where the events of a stream come from, other than from HTTP and files. Secrets in it are references."""

    connector: str
    options: Options = field(default=(), repr=False)  # it may hold secrets

    def get(self, name: str) -> str | None:
        """The value of an option; None if it is not given."""
        return dict(self.options).get(name)


@dataclass(frozen=True)
class UniqueEvents:
    """Events with the same values of `columns`, less than `within_ms` of event time apart, count once: the first."""

    columns: tuple[str, ...]
    within_ms: int

    def __str__(self) -> str:
        return f"({', '.join(map(quote, self.columns))}) within {format_duration(self.within_ms)}"


@dataclass(frozen=True, repr=False)
class Stream(Queryable):
    """Events of one shape. Without `event_time` the time of arrival is the event time."""

    name: str
    fields: tuple[Field, ...]
    event_time: str | None = None
    patience_ms: int = 0
    format: str = JSON  # what one event is in the log: a JSON object, or a line of text as it came
    idle_timeout_ms: int | None = None  # how long no event comes before its time goes on by the clock; None: never
    source: Source | None = None  # None: events come by HTTP and from files
    relation: Relation | None = None  # of a derived stream: how its events are made; nothing is sent to it or stored
    unique: UniqueEvents | None = None  # None: every event counts

    def __repr__(self) -> str:
        return f"stream {self.name} ({_columns({field.name: field.type for field in self.fields})})"

    @property
    def time_column(self) -> str:
        """The lake's column that holds the event time."""
        return self.event_time or ARRIVED

    def key_types(self) -> dict[str, Type]:
        """The types of the fields that a row of CSV has a cell for, by the key of the event that holds the value."""
        declared = (field for field in self.fields if field.is_sent and len(field.steps) == 1)
        return {str(field.steps[0]): field.type for field in declared}

    @property
    def reads(self) -> Reads:
        """Its fields with their types."""
        return tuple((field.name, field.type) for field in self.fields)

    def types(self) -> dict[str, Type]:
        """The names that an expression over this stream may use: its fields, and the time of arrival."""
        return {**{field.name: field.type for field in self.fields}, ARRIVED: TIMESTAMP}

    def sent(self) -> dict[str, Type]:
        """The columns of an event in a sink: its fields, and its event time."""
        types = self.types()
        return {name: of for name, of in types.items() if name != ARRIVED or name == self.time_column}


@dataclass(frozen=True, repr=False)
class Table(Queryable):
    """The latest row of each key: a log of changes, and a view of it. `define/table_parts.py` makes these two of it.

    The latest is that of the greatest event time, then position in the log; without `event_time` the last to arrive.
    """

    name: str
    fields: tuple[Field, ...]  # all columns, in the order of their declaration
    key: tuple[str, ...]  # the names of the columns that are the primary key
    event_time: str | None = None
    patience_ms: int = 0
    relation: Relation | None = None  # of CREATE TABLE … AS SELECT: how its changes are made
    source: Source | None = None  # None: changes come by HTTP and from files, or from the relation
    format: str = JSON  # of the changes in Kafka

    def __repr__(self) -> str:
        return f"table {self.name} ({_columns(self.types())}), primary key {', '.join(self.key)}"

    def types(self) -> dict[str, Type]:
        """The names that an expression over its rows may use."""
        return {field.name: field.type for field in self.fields}


@dataclass(frozen=True)
class Window:
    """The default question of a view: windows of `size_ms`, one every `slide_ms`, from `offset_ms` after the epoch on.

    With a `calendar` they are its days, weeks or months, and `size_ms` is about their length. A `cumulative` window
    grows by `slide_ms` until it has its size, then the next one begins. A `session` of a key begins with an event and
    ends when none comes for the gap, which is `size_ms`, or `gap` of each event and `size_ms` at least.
    Every row has window_start and window_end; `start_name` and `end_name` are further names for them.
    """

    size_ms: int
    slide_ms: int
    start_name: str | None = None
    end_name: str | None = None
    offset_ms: int = 0
    calendar: Calendar | None = None
    cumulative: bool = False
    tile_ms: int = 0  # of a calendar: its panes. They are stored, since rules of zones may change.
    session: bool = False
    gap: Expression | None = None  # in ms, of each event; None: it is size_ms

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the view gives to the bounds of its windows, the start first."""
        return tuple(name for name in (self.start_name, self.end_name) if name is not None)

    @property
    def words(self) -> str:
        """Its size and slide in words."""
        size = format_duration(self.size_ms)
        if self.session:
            return f"sessions with a gap of {size if self.gap is None else f'{size} or more'}"
        if self.calendar:
            size = f"{self.calendar}{'' if self.calendar.zone == UTC_NAME else f' in {self.calendar.zone}'}"
        if self.cumulative:
            return f"{size}, growing by {format_duration(self.slide_ms)}"
        every = "" if self.size_ms == self.slide_ms else f" every {format_duration(self.slide_ms)}"
        return f"{size}{every}{f' from {format_duration(self.offset_ms)} on' if self.offset_ms else ''}"

    @property
    def pane_ms(self) -> int:
        """The size of the panes that tile every such window."""
        return self.tile_ms or math.gcd(self.size_ms, self.slide_ms, self.offset_ms)


@dataclass(frozen=True)
class Key:
    """A column that events are grouped by."""

    name: str
    expression: Expression


@dataclass(frozen=True)
class Column:
    """A named aggregate of a view."""

    name: str
    aggregate: Aggregate


@dataclass(frozen=True)
class Output:
    """A column of answers: an expression over aggregates (each named by its id), keys, window_start and window_end."""

    name: str
    expression: Expression


@dataclass(frozen=True)
class Order:
    """One item of ORDER BY."""

    expression: Expression
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True)
class Shape:
    """The shape of the answers to the default question. The store never sees it, so a change of it is free.

    Without `outputs` the columns of an answer are those of the view; otherwise columns without an output are hidden.
    """

    outputs: tuple[Output, ...] = ()
    having: Expression | None = None
    order: tuple[Order, ...] = ()
    limit: int | None = None
    only_keys: bool = False  # whether answers have no other columns than the keys


@dataclass(frozen=True)
class Over:
    """The table whose present rows a view is made of, in place of events."""

    table: str
    event_time: str | None = None  # the column that windows are of; None: the time of a row's last change


@dataclass(frozen=True, repr=False)
class View:
    """A keyed, paned, mergeable summary of its base streams. Without `window` it has one pane: all time.

    `reads` are the fields that it names, with their types: the same text over other types is another view. With a
    `relation` these are fields of its rows, and the relation names those of the base streams.
    """

    name: str
    streams: tuple[str, ...]  # one or more; its expressions are evaluated over the events of each
    keys: tuple[Key, ...]
    columns: tuple[Column, ...]
    window: Window | None = None
    where: Expression | None = None
    schedule_ms: int | None = None
    reads: Reads = ()
    shape: Shape | None = None
    relation: Relation | None = None  # how its rows are made from events; None: they are the events of its stream
    over: Over | None = None  # of a view over a table: `reads` are columns of it, `streams` those that make its rows

    def __post_init__(self) -> None:
        """Set what its columns take from its relation: whoever makes a view need not, and JSON does not say it."""
        # Aggregates that depend on an order also take the place of a row in its event, where there can be several.
        placed = self.relation is not None and self.relation.repeats
        if any(column.aggregate.ordered and column.aggregate.placed != placed for column in self.columns):
            columns = (replace(each, aggregate=each.aggregate.placing(placed)) for each in self.columns)
            object.__setattr__(self, "columns", tuple(columns))
        scaling = scaling_of(self.relation) if self.relation else None
        if scaling is not None:
            columns = (replace(each, aggregate=scale(each.aggregate, scaling)) for each in self.columns)
            object.__setattr__(self, "columns", tuple(columns))

    def __repr__(self) -> str:
        names = ", ".join([*(key.name for key in self.keys), *(column.name for column in self.columns)])
        window = f" per {self.window.words}" if self.window else ""
        return f"view {self.name} over {', '.join(self.streams)} ({names}){window}"

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """Its expressions over events: those of its keys, WHERE, and the arguments and FILTER of its aggregates."""
        of_columns = ((*each.aggregate.arguments, each.aggregate.where) for each in self.columns)
        gap = self.window.gap if self.window else None
        every = (*(key.expression for key in self.keys), self.where, gap, *(of for each in of_columns for of in each))
        return tuple(filter(None, every))

    @property
    def has_sessions(self) -> bool:
        """Return True if its windows are sessions."""
        return self.window is not None and self.window.session

    def reading(self, fields: Iterable[tuple[str, Type]]) -> View:
        """The view as one that reads those of these fields that it names."""
        words = frozenset[str]().union(*(expression.term.words() for expression in self.expressions))
        return replace(self, reads=tuple(field for field in fields if field[0] in words))

    def rows_of(self, stream: Stream) -> Stream:
        """Return the rows that its expressions are evaluated over: a base stream, or what its relation makes of it."""
        if self.over is not None:
            return Stream(self.over.table, tuple(Field(*read) for read in self.reads), self.over.event_time)
        if self.relation is None:
            return stream
        fields = tuple(Field(name, of) for name, of in self.relation.fields)
        return Stream(stream.name, fields, self.relation.event_time, stream.patience_ms, relation=self.relation)

    def has_own_time(self, stream: str) -> bool:
        """Whether its rows of a base stream are settled by their own event time, and not by that of the stream."""
        return self.relation is not None and self.relation.has_own_time(stream)

    def reads_of(self, stream: str) -> Reads:
        """The fields of a base stream that it needs."""
        if self.over is not None:
            return ()
        return self.reads if self.relation is None else self.relation.reads_of(stream)

    def fits(self, stream: Stream) -> bool:
        """Return True if it was made for the types that the stream has now.

        One made for narrower types must not be updated: it would round or lose wider values. It is served unchanged
        until its next version serves.
        """
        types = stream.types()
        return all(types.get(name) == of for name, of in self.reads_of(stream.name))


Mode = Literal["append", "update", "complete"]  # Spark's output modes


@dataclass(frozen=True)
class Sink:
    """Rows of a view or events of a stream that are sent to another system.

    In mode "append" a row is sent once, in "update" whenever it changes, in "complete" all rows at each change.
    """

    name: str
    source: str  # the name of a view or a stream
    connector: str
    options: Options = field(default=(), repr=False)  # it may hold secrets
    where: Expression | None = None  # over the columns of a row
    mode: Mode = "update"
    on_close: bool = False  # rows of windows only when these are settled
    corrections: bool = True  # of settled rows: whether later changes are sent

    def get(self, name: str) -> str | None:
        """The value of an option; None if it is not given."""
        return dict(self.options).get(name)


@dataclass(frozen=True)
class Alert:
    """A condition on the rows of a view, or the absence of events or changes."""

    name: str
    source: str  # the name of a view; of an alert for absence, also of a stream
    outputs: tuple[Output, ...] = ()  # what a notification shows, over the columns of a row; none: all of them
    where: Expression | None = None  # over the columns of a row; None: an alert for absence
    for_ms: int = 0  # how long the condition must hold before the alert fires
    absent_ms: int | None = None  # it fires when nothing came for so long
    options: Options = field(default=(), repr=False)  # it may hold secrets
    on_close: bool = False  # it looks at rows of windows only when these are settled

    def get(self, name: str) -> str | None:
        """The value of an option; None if it is not given."""
        return dict(self.options).get(name)


@dataclass(frozen=True)
class LogicalView:
    """A SELECT over views that is evaluated whenever it is asked. Nothing of it is stored."""

    name: str
    sql: str  # one SELECT, in the dialect of `headrace sql`
    columns: Reads
    reads: tuple[str, ...]  # the materialized and logical views that it names, each once
    ordered: bool = False  # whether it has an ORDER BY of its own


def _columns(types: Mapping[str, Type]) -> str:
    return ", ".join(f"{name} {of}" for name, of in types.items())


Definition = Stream | Table | View | LogicalView | Sink | Alert
