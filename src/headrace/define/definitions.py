"""The definitions of a workspace by name. `catalog.py` reads them from files; reading the applied ones needs no SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.define import model
from headrace.define.model import Alert, LogicalView, Sink, Stream, Table, View
from headrace.define.tables import with_parts
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
        """What was declared, each after what it reads: a table is one of them, its parts are not."""
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
