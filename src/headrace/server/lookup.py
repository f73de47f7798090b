"""Finds the running streams and views by name; what does not exist, or has no log of its own, is an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.define.definitions import Catalog
from headrace.define.model import LogicalView, Stream
from headrace.errors import no_own_log, not_a_stream, not_a_view, unknown
from headrace.format import iso_us
from headrace.ingest.intake import Ingest, refuse_derived
from headrace.lake.delta_table import LakeTable
from headrace.server.composed_status import refuse_logical
from headrace.server.describe_stream import describe_definition
from headrace.server.running_stream import Running, RunningStream
from headrace.server.status import StreamDefinition


class Lookup:
    """The catalog and the pipelines that run now. Neither changes while it is looked at."""

    def __init__(self, running: Callable[[], Running]) -> None:
        self._running = running

    @property
    def catalog(self) -> Catalog:
        """The definitions that run."""
        return self._running().catalog

    @property
    def pipelines(self) -> Mapping[str, RunningStream]:
        """The pipelines of all base streams."""
        return self._running().pipelines

    @property
    def logical(self) -> Mapping[str, LogicalView]:
        """The logical views."""
        return self.catalog.logical

    def pipeline(self, stream: str) -> RunningStream:
        """The pipeline of a stream that has a log of its own."""
        derived = self.derived(stream)
        if derived is not None and derived.relation is not None:
            raise no_own_log(stream, derived.relation.streams)
        catalog, pipelines = self.catalog, self.pipelines
        if stream not in pipelines:
            known = stream in catalog.views or stream in catalog.logical
            raise not_a_stream(stream) if known else unknown("stream", stream, pipelines)
        return pipelines[stream]

    def derived(self, stream: str) -> Stream | None:
        """The stream if it is a derived one, which has no pipeline."""
        known = self.catalog.streams.get(stream)
        return known if known is not None and known.relation is not None else None

    def intake(self, stream: str) -> Ingest:
        """What takes in the events of a stream."""
        derived = self.derived(stream)
        if derived is not None:
            refuse_derived(derived)
        return self.pipeline(stream).ingest

    def definition(self, name: str) -> StreamDefinition:
        """Return what a stream is declared to be."""
        return describe_definition(self.derived(name) or self.pipeline(name).stream)

    def lake_of(self, stream: str) -> tuple[Stream, LakeTable]:
        """Return the definition and the lake of a stream."""
        pipeline = self.pipeline(stream)
        return pipeline.stream, pipeline.table

    def count_events(self, stream: str) -> tuple[int, str | None] | None:
        """How many events a stream has, and when the newest arrived; None while that is not known."""
        pipeline = self.pipelines.get(stream)
        lake = pipeline.lake if pipeline else None
        return None if pipeline is None or lake is None else (pipeline.table.rows(), iso_us(lake.newest_us))

    def refuse_logical(self, view: str, what: str) -> None:
        """Refuse what only a materialized view has."""
        refuse_logical(self.catalog.logical, view, what)

    def refuse_stream(self, name: str) -> None:
        """Refuse a stream that is asked for as a view."""
        if name in self.catalog.streams and name not in self.catalog.views:
            raise not_a_view(name)
