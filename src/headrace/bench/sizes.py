"""How large each measurement is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """The sizes of the parts that measure a server. The defaults are those of `headrace bench`."""

    events: int = 2_000_000  # of one file
    warm_events: int = 500_000  # before the first time that counts
    rounds: int = 3
    views: tuple[int, ...] = (1, 5, 20, 100)  # the last is measured in the first round only
    many_views: int = 1_000  # of the part `many-views`
    many_events: int = 200_000  # that they take
    seconds: float = 25.0  # of a flow of events
    warm_s: float = 10.0
    flow: int = 10_000  # events a second
    fresh_views: tuple[int, ...] = (1, 20)
    demo_s: float = 22.0
    answers: int = 12_000  # of hot keys
    starts: int = 3
    start_events: int = 400_000  # of the file that is sent at once
    id_files: int = 5  # of the part `unique`: with `events` each
    table_rows: int = 1_000_000  # of the part `enrich`
    window_keys: int = 1_000
    window_days: int = 30
