"""A small chart as SVG, made here: bars from zero, gaps where there is nothing, words for those who do not see it."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

from headrace.readable import number
from headrace.web.page.cells import clock, short
from headrace.web.page.html import Html, plain, tag
from headrace.web.page.look import Point, Series

PLACE, BAR, HEIGHT = 10, 8, 100
LEAST = 0.8  # height of a bar that would not be seen


def chart(series: Series, name: str) -> Html:
    """The chart; `name` makes its ids unique on the page."""
    drawn = [(point, size) for point in series.points if (size := _size(point.value)) is not None]
    if not drawn:
        return tag("p", f"No chart: {series.column} has no number to draw.", class_="quiet")
    draw = _over_time if series.start is not None else _over_keys
    return tag("figure", tag("figcaption", _caption(series, drawn)), draw(series, drawn, name), class_="chart")


Drawn = list[tuple[Point, float]]


def _caption(series: Series, drawn: Drawn) -> str:
    missing = len(series.points) - len(drawn)
    parts = [series.title]
    if missing:
        parts.append(f"{missing} without a number to draw")
    if any(not point.settled for point, _ in drawn):
        parts.append("paler: provisional")
    return "; ".join(parts)


def _over_time(series: Series, drawn: Drawn, name: str) -> Html:
    largest = max(abs(size) for _, size in drawn) or 1.0
    # Fractions of the largest first: differences of huge numbers would not be finite.
    top = max(max(size / largest for _, size in drawn), 0.0)
    bottom = min(min(size / largest for _, size in drawn), 0.0)
    height = top - bottom or 1.0
    bars = [_bar(point, (top - size / largest) / height, top / height) for point, size in drawn]
    picture = tag(
        "svg",
        tag("title", series.title, id=f"{name}-title"),
        tag("desc", _describe(series, drawn), id=f"{name}-desc"),
        bars,
        viewBox=f"0 0 {series.places * PLACE} {HEIGHT}",
        preserveAspectRatio="none",
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )
    assert series.start is not None, "it is over time"
    assert series.end is not None, "it is over time"
    levels = [tag("span", short(largest * top)), tag("span", short(largest * bottom))]
    return tag(
        "div",
        tag("div", levels, class_="levels", aria_hidden="true"),
        picture,
        tag("div", [tag("span", text) for text in _times(series.start, series.end)], class_="times"),
        class_="plot",
    )


def _bar(point: Point, tip: float, zero: float) -> Html:
    """One bar between its tip and zero, both as fractions from the top."""
    y, height = min(tip, zero) * HEIGHT, abs(tip - zero) * HEIGHT
    if height < LEAST:
        y, height = min(y, HEIGHT - LEAST), LEAST
    said = f"{point.label} UTC: {number(point.value)}{'' if point.settled else ', provisional'}"
    return tag(
        "rect",
        tag("title", said),
        x=point.at * PLACE + (PLACE - BAR) // 2,
        y=f"{y:.2f}",
        width=BAR,
        height=f"{height:.2f}",
        class_=None if point.settled else "provisional",
    )


def _times(start: datetime, end: datetime) -> list[str]:
    """First, middle and last time of the axis; the date where the axis is short enough to leave it out elsewhere."""
    span_s = (end - start).total_seconds()
    middle = start + (end - start) / 2
    first = clock(start, span_s)
    dated = first if span_s >= 2 * 86_400 else f"{start.date().isoformat()} {first}"
    return [dated, clock(middle, span_s), f"{clock(end, span_s)} UTC"]


def _describe(series: Series, drawn: Drawn) -> str:
    sizes = [size for _, size in drawn]
    last = drawn[-1][0]
    missing = len(series.points) - len(drawn)
    parts = [
        f"{len(drawn)} bars",
        f"lowest {short(min(sizes))}",
        f"highest {short(max(sizes))}",
        f"last {number(last.value)}{'' if last.settled else ', provisional'}",
    ]
    if missing:
        parts.append(f"{missing} without a number")
    return "; ".join(parts)


def _over_keys(series: Series, drawn: Drawn, name: str) -> Html:
    """Bars that lie, each with its key and number beside it."""
    largest = max(abs(size) for _, size in drawn) or 1.0
    rows = []
    for point, size in drawn:
        bar = tag(
            "svg",
            tag("rect", x=0, y=0, width=f"{abs(size) / largest * 100:.2f}", height=10),
            viewBox="0 0 100 10",
            preserveAspectRatio="none",
            aria_hidden="true",
        )
        label = tag("bdi", plain(point.label, 40))
        rows.append(tag("li", tag("span", label, class_="label"), bar, tag("span", number(point.value))))
    return tag("ol", rows, class_="lying", aria_label=series.title)


def _size(value: Any) -> float | None:
    """A value as the length of a bar; None for NULL, NaN, infinities and what no bar can hold."""
    if value is None:
        return None
    try:
        size = float(value)
    except OverflowError:
        return None
    return size if math.isfinite(size) else None
