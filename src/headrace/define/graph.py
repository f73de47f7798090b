"""The graph of a catalog: what there is, and what each reads by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from headrace.define.definitions import Catalog
from headrace.define.relation import Relation

NodeKind = Literal["stream", "derived stream", "table", "view", "logical view", "sink", "alert"]


@dataclass(frozen=True)
class Node:
    """Something that is declared; names are unique in a catalog, whatever they name."""

    name: str
    kind: NodeKind
    reads: tuple[str, ...] = ()
    detail: str | None = None  # the connector of a stream or a sink, the windows of a view


def graph_of(catalog: Catalog) -> tuple[Node, ...]:
    """All nodes, each after those that it reads."""
    nodes = {node.name: node for node in _nodes(catalog)}
    ordered: dict[str, Node] = {}

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


def _nodes(catalog: Catalog) -> Iterator[Node]:
    for name, stream in catalog.streams.items():
        if name in catalog.tables:
            continue
        source = stream.source.connector if stream.source else None
        kind: NodeKind = "stream" if stream.relation is None else "derived stream"
        yield Node(name, kind, _reads(catalog, name, (), stream.relation), source)
    for name, table in catalog.tables.items():
        source = table.source.connector if table.source else None
        yield Node(name, "table", _reads(catalog, name, (), table.relation), source)
    for name, view in catalog.views.items():
        if name not in catalog.tables:
            reads = _reads(catalog, name, view.streams, view.relation)
            yield Node(name, "view", reads, view.window.words if view.window else None)
    for name, logical in catalog.logical.items():
        yield Node(name, "logical view", logical.reads)
    for name, sink in catalog.sinks.items():
        yield Node(name, "sink", (sink.source,), sink.connector)
    for name, alert in catalog.alerts.items():
        yield Node(name, "alert", (alert.source,))


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
