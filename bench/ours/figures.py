"""A measured figure with its spread and the limit that it must meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Figure:
    """A figure of the benchmark. `bar` is the limit that it must meet, from the side that `higher_is_better` says."""

    name: str
    value: float
    unit: str
    spread: str
    bar: float | None = None
    higher_is_better: bool = True

    @property
    def passes(self) -> bool | None:
        if self.bar is None:
            return None
        return self.value >= self.bar if self.higher_is_better else self.value <= self.bar

    @property
    def text(self) -> str:
        return f"{self.value:,.0f} {self.unit}" if self.value >= 100 else f"{self.value:,.2f} {self.unit}"

    @property
    def bar_text(self) -> str:
        if self.bar is None:
            return ""
        return f"{'≥' if self.higher_is_better else '≤'} {self.bar:,.6g} {self.unit}"

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "spread": self.spread,
            "bar": self.bar,
            "higher_is_better": self.higher_is_better,
            "passes": self.passes,
        }

    @classmethod
    def of(cls, content: dict[str, Any]) -> Figure:
        """The inverse of `as_dict`."""
        return cls(**{name: value for name, value in content.items() if name != "passes"})


def of_runs(name: str, values: Sequence[float], unit: str, bar: float | None = None, *, higher: bool = True) -> Figure:
    """The median of some runs, with their minimum and maximum."""
    spread = f"{min(values):,.0f} to {max(values):,.0f} in {len(values)} runs"
    return Figure(name, median(values), unit, spread, bar, higher)


def percentile(values: Sequence[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def of_percentile(name: str, values: Sequence[float], share: float, unit: str, bar: float | None) -> Figure:
    """A percentile of many single measurements; less is better."""
    spread = f"{min(values):,.2f} to {max(values):,.2f} over {len(values):,}"
    return Figure(f"{name}, p{share * 100:.0f}", percentile(values, share), unit, spread, bar, higher_is_better=False)
