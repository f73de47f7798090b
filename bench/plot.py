"""A plot of one curve as SVG: both axes logarithmic, every point with its value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 80, 30, 50, 50
STYLE = """<style>
text { font: 12px ui-sans-serif, system-ui, sans-serif; fill: #444; }
.title { font-size: 14px; font-weight: 600; }
.grid { stroke: #ddd; }
.line { stroke: #2563eb; stroke-width: 2; fill: none; }
.point { fill: #2563eb; }
@media (prefers-color-scheme: dark) {
  text { fill: #bbb; } .grid { stroke: #444; } .line { stroke: #60a5fa; } .point { fill: #60a5fa; }
}
</style>"""


class Axis:
    """Maps values to positions by their logarithm, closely around the values."""

    def __init__(self, values: Sequence[float], first: float, last: float) -> None:
        low, high = math.log10(min(values)), math.log10(max(values))
        margin = max(0.08 * (high - low), 0.05)
        self._low, self._high = low - margin, high + margin
        self._first, self._last = first, last

    def at(self, value: float) -> float:
        """The position of a value."""
        share = (math.log10(value) - self._low) / (self._high - self._low)
        return self._first + share * (self._last - self._first)

    def ticks(self) -> list[float]:
        """Round values within the axis."""
        decades = range(math.floor(self._low) - 1, math.ceil(self._high) + 1)
        steps = (1, 2, 5) if self._high - self._low < 3 else (1,)
        values = [step * 10.0**decade for decade in decades for step in steps]
        return [value for value in values if self._low <= math.log10(value) <= self._high]


def plot(title: str, x_label: str, y_label: str, xs: Sequence[float], ys: Sequence[float]) -> str:
    """The SVG of a curve."""
    x, y = Axis(xs, LEFT, WIDTH - RIGHT), Axis(ys, HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>",
        STYLE,
        f'<text class="title" x="{LEFT}" y="20">{escape(title)}</text>',
        f'<text x="{LEFT}" y="38">{escape(y_label)}, by {escape(x_label)}; both axes logarithmic</text>',
    ]
    for tick in y.ticks():
        at = y.at(tick)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{number(tick)}</text>')
    for value in xs:
        at = x.at(value)
        parts.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{number(value)}</text>')
    points = [(x.at(a), y.at(b)) for a, b in zip(xs, ys, strict=True)]
    parts.append(f'<polyline class="line" points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in points)}"/>')
    for (a, b), value in zip(points, ys, strict=True):
        parts.append(f'<circle class="point" cx="{a:.1f}" cy="{b:.1f}" r="4"/>')
        parts.append(f'<text x="{a:.1f}" y="{b - 9:.1f}" text-anchor="middle">{number(value)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def number(value: float) -> str:
    """A short number: 3 significant digits, thousands and millions by letter."""
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
