"""A test of the law: a product with one subtle error must not pass it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace.maintain import partials_job
from headrace.store.duckdb import snapshot

from .timeline import Timeline

VIEWS = [f"v{number}" for number in range(6)]
Break = Callable[[pytest.MonkeyPatch], None]


def drop_late_events(patch: pytest.MonkeyPatch) -> None:
    """As stream processors do; and the batch layer with it, so that the two agree."""
    right = partials_job.partials

    def wrong(events: Any, stream: Any, view: Any, patience_ms: int, *more: Any, **options: Any) -> Any:
        timely = events.where(f"NOT {partials_job.settled_when(stream, view, patience_ms)}")
        return right(timely, stream, view, patience_ms, *more, **options)

    patch.setattr(partials_job, "partials", wrong)


def lose_the_last_commit_of_a_slice(patch: pytest.MonkeyPatch) -> None:
    """In the batch layer alone."""
    right = partials_job.read_events

    def wrong(spark: Any, folder: Any, stream: Any, files: Any, commits: tuple[int, int], *read: Any) -> Any:
        last = max(commits[0], commits[1] - 1)
        return right(spark, folder, stream, files, commits, *read).where(f"_commit < {last}")

    patch.setattr(partials_job, "read_events", wrong)


def forget_what_came_during_a_beat(patch: pytest.MonkeyPatch) -> None:
    """In answers; the rows are there."""
    right = snapshot.speed_tables
    patch.setattr(snapshot, "speed_tables", lambda version: right(version)[:1])


def forget_the_batch_tables_but_one(patch: pytest.MonkeyPatch) -> None:
    """In answers; the rows are there."""
    right = snapshot.DuckSnapshot._sources

    def wrong(self: Any, version: Any, **options: Any) -> Any:
        sources = right(self, version, **options)
        return [source for source in sources if not source.batch or source is sources[0]]

    patch.setattr(snapshot.DuckSnapshot, "_sources", wrong)


def add_a_batch_table_twice(patch: pytest.MonkeyPatch) -> None:
    """In answers: as if a swap left the rows that it replaced."""
    right = snapshot.DuckSnapshot._sources

    def wrong(self: Any, version: Any, **options: Any) -> Any:
        sources = right(self, version, **options)
        return [*sources[:1], *sources] if version.batch else sources

    patch.setattr(snapshot.DuckSnapshot, "_sources", wrong)


@pytest.mark.parametrize(
    ("spoil", "seed"),  # of a stream whose first cases meet it
    [
        (drop_late_events, 3),
        (lose_the_last_commit_of_a_slice, 0),
        (forget_what_came_during_a_beat, 2),
        (forget_the_batch_tables_but_one, 0),
        (add_a_batch_table_twice, 0),
    ],
)
def test_a_broken_product_fails(spark: Any, tmp_path: Path, spoil: Break, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        spoil(patch)
        timeline = Timeline(spark, tmp_path, seed, VIEWS)
        try:
            with pytest.raises(AssertionError, match="disagrees"):
                timeline.run()
        finally:
            timeline.close()
