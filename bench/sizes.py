"""How large each part of the whole benchmark is."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.bench.sizes import Sizes


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
