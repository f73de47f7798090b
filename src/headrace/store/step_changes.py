"""The changes of a step of the speed layer, for the readers that follow a view, and the place of each reader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.lazy import pa, pq
from headrace.store.partial_columns import KEY_ID, PANE
from headrace.store.store_contract import Partials, Step
from headrace.store.version import Version, VersionId
from headrace.types import arrow_type


@dataclass(frozen=True)
class Follower:
    """A reader of the changes of a view, and its place: it has all up to this tick of a version."""

    view: str
    name: str
    version: int | None = None  # None: nowhere yet
    tick: int | None = None
    cursor: str | None = None  # its own word for where it is


@dataclass(frozen=True)
class TouchedTicks:
    """The cells that were touched at the ticks (from_tick, to_tick] of a version are known.

    A tick is the number of commits in a version, summed over its streams: each step makes it larger.
    """

    from_tick: int
    to_tick: int


@dataclass(frozen=True)
class Changes:
    """The versions that a step moved over commits [step.from_commit, step.to_commit), and what was merged into each.

    It holds only the rows of the step or the names of its files, so it costs nothing if nobody looks. Read `cells`
    before the files are removed.
    """

    step: Step
    partials: Mapping[VersionId, Partials]

    def cells(self, version: Version) -> pa.Table:
        """The cells of a version that have other numbers now, each once: KEY_ID, PANE and its keys, in any order."""
        keys = [key.name for key in version.view.keys]
        types = [pa.string(), pa.int64(), *(arrow_type(key.expression.type) for key in version.view.keys)]
        schema = pa.schema(list(zip([KEY_ID, PANE, *keys], types, strict=True)))
        rows = pa.concat_tables([schema.empty_table(), *self._parts(version, schema)])
        # Groups by the id: it is the same for NaN and NaN, and for NULL and NULL.
        cells = rows.group_by([KEY_ID, PANE], use_threads=False).aggregate([(key, "first") for key in keys])
        return cells.rename_columns(schema.names)

    def _parts(self, version: Version, schema: pa.Schema) -> list[pa.Table]:
        return [
            part.select(schema.names).cast(schema)
            if isinstance(part, pa.Table)
            else pq.read_table(part, columns=schema.names, coerce_int96_timestamp_unit="us").cast(schema)
            for part in self.partials[version.id]
        ]
