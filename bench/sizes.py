"""How large each measurement is: of Headrace alone, and of the whole benchmark."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Sizes:
    """The sizes of the parts that measure a server. The defaults are those of `python -m bench ours`."""

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


@dataclass(frozen=True)
class FullSizes:
    """The defaults keep `make bench-full` below half an hour on two cores."""

    events: int = 4_000_000  # of the comparison
    warm_events: int = 1_000_000
    files: int = 8
    rounds: int = 5
    ours: Sizes = field(default_factory=Sizes)
    nexmark_events: int = 500_000
    growth_events: tuple[int, ...] = (1_000_000, 2_000_000, 4_000_000)
    growth_keys: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000)
    growth_bytes: tuple[int, ...] = (90, 300, 1000)
    growth_commits: tuple[int, ...] = (100, 300, 1_000, 3_000, 10_000)
    growth_rounds: int = 2
    subscribers: int = 1_000


TINY_OURS = Sizes(
    events=20_000,
    warm_events=2_000,
    rounds=1,
    views=(1, 2),
    many_views=8,
    many_events=5_000,
    seconds=2,
    warm_s=1,
    flow=2_000,
    fresh_views=(2,),
    demo_s=3,
    answers=400,
    starts=1,
    start_events=2_000,
    window_keys=10,
    window_days=1,
)
TINY = FullSizes(
    events=20_000,
    warm_events=2_000,
    files=2,
    rounds=1,
    ours=TINY_OURS,
    nexmark_events=20_000,
    growth_events=(5_000, 10_000, 20_000),
    growth_keys=(100, 1_000),
    growth_bytes=(90, 300),
    growth_commits=(20, 50),
    growth_rounds=1,
    subscribers=20,
)
