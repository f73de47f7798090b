"""What charts over time have in common: the scale, the axes and the words around them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.cells import clock, short
from headrace.html import Html, Part, tag

PLACE, HEIGHT = 10, 100  # width of a place and height of a picture, in its own units


@dataclass(frozen=True)
class Scale:
    """Maps sizes to heights; it always includes zero."""

    largest: float
    top: float  # fractions of the largest: differences of huge numbers would not be finite
    bottom: float

    @classmethod
    def of(cls, sizes: Iterable[float]) -> Scale:
        """The scale that all of these fit on."""
        lengths = list(sizes)
        largest = max(map(abs, lengths)) or 1.0
        return cls(
            largest, max(*(size / largest for size in lengths), 0.0), min(*(size / largest for size in lengths), 0.0)
        )

    def depth(self, size: float) -> float:
        """How far below the top a size lies, as a fraction of the height."""
        return (self.top - size / self.largest) / ((self.top - self.bottom) or 1.0)


def plot(
    pictures: Part, scale: Scale, start: datetime, end: datetime, *, places: int, name: str, title: str, describe: str
) -> Html:
    """A picture with its axes; `name` makes its ids unique on the page."""
    picture = tag(
        "svg",
        tag("title", title, id=f"{name}-title"),
        tag("desc", describe, id=f"{name}-desc"),
        pictures,
        viewBox=f"0 0 {places * PLACE} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )
    levels = [tag("span", short(scale.largest * scale.top)), tag("span", short(scale.largest * scale.bottom))]
    return tag(
        "div",
        tag("div", levels, class_="levels", aria_hidden="true"),
        picture,
        tag("div", [tag("span", text) for text in _times(start, end)], class_="times"),
        class_="plot",
    )


def size_of(value: Any) -> float | None:
    """A value as a length; None for NULL, NaN, infinities and what no chart can hold."""
    if value is None:
        return None
    try:
        size = float(value)
    except OverflowError:
        return None
    return size if math.isfinite(size) else None


def _times(start: datetime, end: datetime) -> list[str]:
    """First, middle and last time of the axis; the date where the axis is short enough to leave it out elsewhere."""
    span_s = (end - start).total_seconds()
    middle = start + (end - start) / 2
    first = clock(start, span_s)
    dated = first if span_s >= 2 * 86_400 else f"{start.date().isoformat()} {first}"
    return [dated, clock(middle, span_s), f"{clock(end, span_s)} UTC"]
