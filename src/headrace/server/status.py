"""The state of a workspace as values: streams, views, versions, audits, health.

Near and far give the same values. Their JSON, with the fields in this order, is what HTTP and `--json` show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from headrace.deliver.delivery_status import AlertStatus, SubscriptionStatus
from headrace.format import Shown
from headrace.transport.transport_contract import Skipped


@dataclass(frozen=True)
class FieldStatus(Shown):
    """A field of a stream."""

    name: str
    type: str
    nullable: bool
    computed: str | None  # the expression, if it is computed
    path: str | None = None  # what FROM says: where its value is in an event
    record: str | None = None  # the part of a Kafka record that it is: key, timestamp, header:NAME, …


@dataclass(frozen=True)
class SourceStatus(Shown):
    """Where the events of a stream come from; secrets among the options are not shown."""

    connector: str
    options: Mapping[str, str]


@dataclass(frozen=True)
class UniqueStatus(Shown):
    """Which fields of events are their id, and how far apart in event time repeats are not counted."""

    columns: tuple[str, ...]
    within_ms: int


@dataclass(frozen=True)
class StreamDefinition(Shown):
    """The declaration of a stream."""

    holds: ClassVar[Mapping[str, type[Shown]]] = {
        "fields": FieldStatus,
        "unique": UniqueStatus,
        "source": SourceStatus,
    }

    name: str
    format: str
    fields: tuple[FieldStatus, ...]
    event_time: str | None
    patience_ms: int
    idle_timeout_ms: int | None
    unique: UniqueStatus | None  # None: every event counts
    source: SourceStatus | None
    derived_from: tuple[str, ...] = field(default=(), kw_only=True)  # base streams and tables; none: it has a log


@dataclass(frozen=True)
class LatenessStatus(Shown):
    """How late the events of the last days were; `on_time` + `late` are all `events`."""

    since: str  # the first day, by time of commit
    events: int
    on_time: int
    late: int  # behind the newest event of earlier commits
    lateness_ms: Mapping[str, float]  # how far behind: p50, p90, p99, p99_9, max
    delay_ms: Mapping[str, float]  # arrival minus event time: the same
    advice: str


@dataclass(frozen=True)
class LagStatus(Shown):
    """How many events in Kafka the lake does not have, by offsets: those of markers and aborted events count too."""

    events: int
    partitions: Mapping[str, int]  # by `topic-partition`


@dataclass(frozen=True)
class StreamStatus(StreamDefinition):
    """A stream with its numbers; of one whose files are damaged, and of a derived one, they are None."""

    holds: ClassVar[Mapping[str, type[Shown]]] = {
        "fields": FieldStatus,
        "unique": UniqueStatus,
        "source": SourceStatus,
        "lateness": LatenessStatus,
        "lag": LagStatus,
    }

    events: int | None
    dead_letters: int | None
    commits: int | None
    backlog_bytes: int | None
    newest_event: str | None
    lateness: LatenessStatus | None
    freshness_ms: int | None
    events_per_second: int | None
    commit_ms: float | None
    maintain_ms: float | None
    lake_files: int | None
    lake_bytes: int | None
    small_files: int | None
    last_upkeep: str | None
    upkeep_error: str | None
    error: str | None
    lag: LagStatus | None = None  # of a stream in Kafka; None while the broker is away
    duplicates: int | None = None  # events that repeated others when they came: dead letters since then
    table: bool = False  # whether it is a part of a table


@dataclass(frozen=True)
class SkipStatus(Shown):
    """Offsets that a stream leaves out; `commit` is the one of its log that says so, None if nothing was done."""

    holds: ClassVar[Mapping[str, type[Shown]]] = {"skipped": Skipped}

    stream: str
    skipped: tuple[Skipped, ...]
    commit: int | None


@dataclass(frozen=True)
class ColumnStatus(Shown):
    """A column of a view."""

    name: str
    aggregate: str
    type: str


@dataclass(frozen=True)
class DriftStatus(Shown):
    """Rows of one column for which the two layers do not agree."""

    column: str
    rows: int
    example: str


@dataclass(frozen=True)
class AuditStatus(Shown):
    """The result of comparing the two layers over commits [from_commit, to_commit)."""

    holds: ClassVar[Mapping[str, type[Shown]]] = {"drift": DriftStatus}

    version: int
    at: str
    from_commit: int
    to_commit: int
    events: int
    rows: int
    took_ms: int
    agreed: bool
    drift: tuple[DriftStatus, ...]


@dataclass(frozen=True)
class BuildStatus(Shown):
    """How far the build of a version is."""

    version: int
    state: str
    applied_to: int
    commits_done: int
    commits: int
    events_done: int | None
    events: int | None
    eta_s: float | None
    stalled: str | None
    error: str | None


@dataclass(frozen=True)
class TypedColumn(Shown):
    """A column of a table or of a logical view."""

    name: str
    type: str


@dataclass(frozen=True)
class TableStatus(Shown):
    """A table: its declaration and its content."""

    holds: ClassVar[Mapping[str, type[Shown]]] = {"columns": TypedColumn}

    name: str
    key: tuple[str, ...]
    columns: tuple[TypedColumn, ...]
    latest_by: str | None  # the column by which the latest change of a key counts; None: by arrival
    derived_from: tuple[str, ...]  # the streams that its changes are made from; none: rows are sent to it
    rows: int | None  # that are not deleted
    version: int | None  # how many commits of its log are in it
    changes: int | None
    dead_letters: int | None
    newest_change: str | None
    freshness_ms: int | None
    freshness_reason: str | None
    problem: str | None


@dataclass(frozen=True)
class ViewStatus(Shown):
    """A view, the version that serves, what each layer holds, and the version that is being built."""

    holds: ClassVar[Mapping[str, type[Shown]]] = {
        "columns": ColumnStatus,
        "last_audit": AuditStatus,
        "audits": AuditStatus,
        "building": BuildStatus,
    }

    name: str
    stream: str
    keys: tuple[str, ...]
    columns: tuple[ColumnStatus, ...]
    window_ms: int | None  # of a calendar, and of windows that grow: that of its panes
    every_ms: int | None
    window_text: str | None  # its windows in words; None: it is over all time
    calendar: bool  # whether its windows are of the calendar
    sessions: bool  # whether its windows are sessions; window_ms is their gap, or the shortest one
    where: str | None
    having: str | None
    order_by: str | None
    limit: int | None
    version: int | None
    applied_to: int | None
    rows: int | None  # each key and pane once; of more than 50,000, one in both layers twice; of a table, its rows
    batch_rows: int | None
    speed_rows: int | None
    batch_events: int | None
    speed_events: int | None
    on_time: int | None  # of these events; the others are corrections
    corrections: int | None
    batch_tables: int | None
    horizon: int | None
    newest_event: str | None
    settled_until: str | None
    commits: int | None
    lag_bytes: int | None
    freshness_ms: int | None
    freshness_reason: str | None
    lane: str | None  # that updates it, "fused" or "spark"; None while nothing does
    lane_reason: str | None  # why it is "spark"
    stalled: str | None
    alarm: str | None
    last_audit: AuditStatus | None
    drift: Mapping[str, int] | None  # rows of the last audit for which the layers disagree, by column
    audits: tuple[AuditStatus, ...]
    audits_run: int
    versions: Mapping[str, int]  # how many there are, by state
    building: BuildStatus | None
    table: bool = False  # whether it is a part of a table
    over: str | None = None  # the table whose rows it aggregates

    @property
    def window(self) -> tuple[int, int] | None:
        """The size of its windows and how far apart they start, in ms; None: it is over all time."""
        return None if self.window_ms is None or self.every_ms is None else (self.window_ms, self.every_ms)


@dataclass(frozen=True)
class VersionStatus(Shown):
    """A version of a view, and what it changed."""

    version: int
    state: str
    since: str
    fingerprint: str
    replaces: int | None
    changed_from: int | None  # the version that it replaced, if that is still kept
    changes: tuple[str, ...]
    horizon: int
    next_horizon: int | None
    built_to: int
    applied_to: int
    batch_tables: int
    batch_events: int
    speed_events: int
    batch_rows: int
    speed_rows: int
    has_rows: bool
    lane: str | None  # that updates it, "fused" or "spark"; None if nothing does
    lane_reason: str | None  # why it is "spark"
    stalled: str | None
    alarm: str | None
    error: str | None


@dataclass(frozen=True)
class RefreshStatus(Shown):
    """A refresh that has begun: up to which commit the version will be taken over."""

    view: str
    version: int
    horizon: int
    applied_to: int
    over: str | None = None  # the table whose rows the view aggregates: it is compared with them


@dataclass(frozen=True)
class Health(Shown):
    """Whether events flow, why not, and warnings that need attention."""

    status: str
    reason: str | None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class SinkStatus(Shown):
    """A sink, what it does, and how far it has come."""

    name: str
    source: str
    connector: str
    options: Mapping[str, str]  # secrets are not shown
    where: str | None
    mode: str
    on_close: bool
    corrections: bool
    state: str  # running, waiting, stalled, paused or stopped
    reason: str | None
    retry_in_s: float | None
    rows: int
    batches: int
    errors: int
    lag_s: float | None  # for how long the destination has not had all changes
    behind_commits: int | None
    last_sent: str | None


@dataclass(frozen=True)
class LogicalStatus(Shown):
    """A logical view, what it reads, and how fresh the stalest view is that it is computed from."""

    holds: ClassVar[Mapping[str, type[Shown]]] = {"columns": TypedColumn}

    name: str
    sql: str
    columns: tuple[TypedColumn, ...]
    reads: tuple[str, ...]
    parts: tuple[str, ...]  # the materialized views that it is computed from, also through other logical views
    freshness_ms: int | None
    freshness_reason: str | None
    stalled: str | None


@dataclass(frozen=True)
class NodeStatus(Shown):
    """A stream, table, view, sink or alert in the graph: what it reads, and the number that matters most."""

    name: str
    kind: str
    reads: tuple[str, ...]
    detail: str | None  # the connector of a stream or a sink, the windows of a view
    events_per_second: int | None
    rows: int | None  # of a view; of a sink: those that it has sent
    freshness_ms: int | None
    freshness_reason: str | None
    problem: str | None


@dataclass(frozen=True)
class GraphStatus(Shown):
    """What there is in a workspace, each after what it reads."""

    holds: ClassVar[Mapping[str, type[Shown]]] = {"nodes": NodeStatus}

    nodes: tuple[NodeStatus, ...]


@dataclass(frozen=True)
class WorkspaceStatus(Shown):
    """The whole workspace at one moment."""

    holds: ClassVar[Mapping[str, type[Shown]]] = {
        "streams": StreamStatus,
        "views": ViewStatus,
        "sinks": SinkStatus,
        "subscriptions": SubscriptionStatus,
        "alerts": AlertStatus,
        "logical": LogicalStatus,
    }

    workspace: str
    folder: str
    url: str | None
    pid: int | None
    state: str
    warnings: tuple[str, ...]
    heartbeat_ms: int | None
    memory_mb: int | None
    streams: tuple[StreamStatus, ...]
    views: tuple[ViewStatus, ...]
    sinks: tuple[SinkStatus, ...] = ()
    subscriptions: tuple[SubscriptionStatus, ...] = ()
    alerts: tuple[AlertStatus, ...] = ()
    logical: tuple[LogicalStatus, ...] = ()
