"""The definitions of a workspace by name, and what each reads. `catalog.py` reads them from files; the applied ones
need no SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from headrace.define import model
from headrace.define.model import Alert, LogicalView, Sink, Stream, Table, View
from headrace.define.relation import Relation
from headrace.define.table_parts import with_parts
from headrace.errors import Location


@dataclass(frozen=True)
class Catalog:
    """Definitions by name; `locations` says where each is declared and is no part of equality."""

    streams: Mapping[str, Stream] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)
    locations: Mapping[str, Location] = field(default_factory=dict, compare=False)
    sinks: Mapping[str, Sink] = field(default_factory=dict)
    alerts: Mapping[str, Alert] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)  # `streams` and `views` hold their two parts too
    logical: Mapping[str, LogicalView] = field(default_factory=dict)  # each after those that it reads
    # What streams and views name in their definitions, where that is known: a composed relation names base streams.
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, definitions: Iterable[model.Definition], locations: Mapping[str, Location] | None = None) -> Catalog:
        """The catalog of these definitions, with the parts of its tables."""
        every = list(definitions)
        tables = {each.name: each for each in every if isinstance(each, Table)}
        streams, views = with_parts(
            tables,
            {each.name: each for each in every if isinstance(each, Stream)},
            {each.name: each for each in every if isinstance(each, View)},
        )
        sinks = {each.name: each for each in every if isinstance(each, Sink)}
        alerts = {each.name: each for each in every if isinstance(each, Alert)}
        logical = {each.name: each for each in every if isinstance(each, LogicalView)}
        return cls(streams, views, locations or {}, sinks, alerts, tables, logical)

    @property
    def base_streams(self) -> dict[str, Stream]:
        """The streams that have events of their own: those of the others are made of these."""
        return {name: stream for name, stream in self.streams.items() if stream.relation is None}

    @property
    def definitions(self) -> tuple[model.Definition, ...]:
        """Return what was declared, each after what it reads: a table is one of them, its parts are not."""
        streams, views = (
            [each for name, each in parts.items() if name not in self.tables] for parts in (self.streams, self.views)
        )
        read = (*streams, *self.tables.values(), *views, *self.logical.values())
        return (*read, *self.sinks.values(), *self.alerts.values())

    def patience_ms(self, view: View) -> dict[str, int]:
        """The patience of each stream that a view reads, as far as the stream exists."""
        declared = {name: self.streams[name].patience_ms for name in view.streams if name in self.streams}
        relation = view.relation
        return {name: relation.patience_of(name, ms) if relation else ms for name, ms in declared.items()}

    def __len__(self) -> int:
        return len(self.definitions)


NodeKind = Literal["stream", "derived stream", "table", "view", "logical view", "sink", "alert"]


@dataclass(frozen=True)
class GraphNode:
    """Something that is declared; names are unique in a catalog, whatever they name."""

    name: str
    kind: NodeKind
    reads: tuple[str, ...] = ()
    detail: str | None = None  # the connector of a stream or a sink, the windows of a view


def graph_of(catalog: Catalog) -> tuple[GraphNode, ...]:
    """All nodes, each after those that it reads."""
    nodes = {node.name: node for node in _nodes(catalog)}
    ordered: dict[str, GraphNode] = {}

    def add(name: str) -> None:
        if name not in ordered:
            for read in nodes[name].reads:
                add(read)
            ordered[name] = nodes[name]

    for name in nodes:
        add(name)
    return tuple(ordered.values())


def views_reading(catalog: Catalog, name: str) -> tuple[str, ...]:
    """The materialized views and tables whose rows are made by a derived stream, also through others; a view itself."""
    if name in catalog.views:
        return (name,)
    readers = {name}
    for node in graph_of(catalog):
        streams = readers.difference(catalog.tables)  # what joins a table that reads it has its own version of that
        if node.kind in ("derived stream", "view", "table") and not streams.isdisjoint(node.reads):
            readers.add(node.name)
    return tuple(view for view in catalog.views if view in readers)


def _nodes(catalog: Catalog) -> Iterator[GraphNode]:
    for name, stream in catalog.streams.items():
        if name in catalog.tables:
            continue
        source = stream.source.connector if stream.source else None
        kind: NodeKind = "stream" if stream.relation is None else "derived stream"
        yield GraphNode(name, kind, _reads(catalog, name, (), stream.relation), source)
    for name, table in catalog.tables.items():
        source = table.source.connector if table.source else None
        yield GraphNode(name, "table", _reads(catalog, name, (), table.relation), source)
    for name, view in catalog.views.items():
        if name not in catalog.tables:
            reads = _reads(catalog, name, view.streams, view.relation)
            yield GraphNode(name, "view", reads, view.window.words if view.window else None)
    for name, logical in catalog.logical.items():
        yield GraphNode(name, "logical view", logical.reads)
    for name, sink in catalog.sinks.items():
        yield GraphNode(name, "sink", (sink.source,), sink.connector)
    for name, alert in catalog.alerts.items():
        yield GraphNode(name, "alert", (alert.source,))


def _reads(catalog: Catalog, name: str, streams: tuple[str, ...], relation: Relation | None) -> tuple[str, ...]:
    """The names that a definition was written with, where they are known; else the base streams.

    A relation holds the whole chain, so that tables that a stream before it is joined to are not its own.
    """
    bases = relation.streams if relation else streams
    known = {*catalog.streams, *catalog.tables}
    own = tuple(read for read in catalog.reads.get(name, bases) if read in known) or bases
    before: set[str] = set()
    for read in own:
        upstream = catalog.streams[read].relation if read in catalog.streams else None
        before |= set(upstream.tables) if upstream else set()
    tables = (table for table in (relation.tables if relation else ()) if table not in before)
    return tuple(dict.fromkeys(each for each in (*own, *tables) if each in known and each != name))
