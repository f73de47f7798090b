"""Compares the ratios of a fresh run with their limits and the committed ones: rates differ between machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bench.record import Results
from bench.sizes import FullSizes, Sizes

CHECKED = ("compare", "throughput", "late", "sliding", "kafka")
RATIOS = ("x", "%")
ROUNDS = 2
VIEWS = (1, 5, 20)


def check_sizes(committed: Results) -> FullSizes:
    """Files as large as those of the committed results, since ratios depend on the size, but fewer rounds and views."""
    sizes = next(committed.parts[part]["sizes"] for part in CHECKED if part in committed.parts)
    ours = replace(Sizes(), events=sizes["ours"]["events"], rounds=ROUNDS, views=VIEWS)
    return replace(FullSizes(), events=sizes["events"], files=sizes["files"], rounds=ROUNDS, ours=ours)


def differences(
    committed: Results, fresh: Results, tolerance: float, parts: Sequence[str]
) -> Iterator[tuple[str, bool]]:
    """A line per ratio, and whether it misses its limit or is worse than the committed one by more than tolerated."""
    for part in parts:
        before = {figure.name: figure for figure in committed.figures(part) if figure.unit in RATIOS}
        for figure in fresh.figures(part):
            if figure.unit not in RATIOS:
                continue
            limit = f", limit {figure.bar_text}" if figure.bar is not None else ""
            old = before.get(figure.name)
            if old is None:
                yield f"{figure.name}: {figure.text}{limit}, not committed", figure.passes is False
                continue
            change = figure.value / old.value if figure.higher_is_better else old.value / figure.value
            compared = f"committed {old.text}, {change - 1:+.0%} of {-tolerance:.0%} allowed"
            yield f"{figure.name}: {figure.text}{limit}, {compared}", change < 1 - tolerance or figure.passes is False
        missing = before.keys() - {figure.name for figure in fresh.figures(part)}
        for name in sorted(missing):
            yield f"{name}: not measured in this run", False
