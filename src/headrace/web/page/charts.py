"""Charts as SVG: bars, or a line for each key over time, with scale, axes, legend, and a text for screen readers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.format import number
from headrace.html import Html, Part, clock, plain, short, tag
from headrace.web.page.chart_series import ChartPoint, Line, Lines, Series

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
        """The distance of a size from the top, as a fraction of the height."""
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


MOST_LABEL = 60  # characters of a key in the legend

Sizes = dict[int, float]  # size by place


def lines_chart(chart: Lines, name: str, link: Callable[[Line], str] | None = None) -> Html:
    """The chart with its legend, whose entries link to a single line."""
    sizes_of_lines = [_sizes(line) for line in chart.lines]
    scale = Scale.of(size for sizes in sizes_of_lines for size in sizes.values()) if any(sizes_of_lines) else None
    if scale is None:
        return tag("p", f"No chart: {chart.column} has no number to draw.", class_="quiet")
    provisional = {at for line in chart.lines for at, point in line.points.items() if not point.settled}
    columns = [_place(chart, at, at in provisional) for at in range(len(chart.windows))]
    paths = [_paths(sizes, scale, place) for place, sizes in enumerate(sizes_of_lines, 1)]
    caption = f"{chart.title}{'; shaded: provisional' if provisional else ''}"
    picture = plot(
        [columns, paths],
        scale,
        chart.start,
        chart.end,
        places=len(chart.windows),
        name=name,
        title=chart.title,
        describe="; ".join(
            _describe_lines(line, sizes) for line, sizes in zip(chart.lines, sizes_of_lines, strict=True)
        ),
    )
    return tag("figure", tag("figcaption", caption), picture, _legend(chart, link), class_="chart lines")


def _sizes(line: Line) -> Sizes:
    return {at: size for at, point in line.points.items() if (size := size_of(point.value)) is not None}


def _place(chart: Lines, at: int, provisional: bool) -> Html:
    """The background of one place; its title gives the values."""
    points = [(line.label, line.points.get(at)) for line in chart.lines]
    values = [f"{plain(label, MOST_LABEL)} {number(p.value)}" for label, p in points if p and p.value is not None]
    text = f"{chart.windows[at]} UTC: {', '.join(values) or 'none'}{', provisional' if provisional else ''}"
    kind = "provisional" if provisional else None
    return tag("rect", tag("title", text), x=at * PLACE, y=0, width=PLACE, height=HEIGHT, class_=kind)


def _paths(sizes: Sizes, scale: Scale, place: int) -> list[Html]:
    """A line through neighbouring places, and dots for those without neighbours."""
    line, dots = [], []
    for at, size in sorted(sizes.items()):
        spot = f"{at * PLACE + PLACE // 2} {scale.depth(size) * HEIGHT:.2f}"
        if not {at - 1, at + 1} & sizes.keys():
            dots.append(f"M{spot}h0")
        else:
            line.append(f"{'L' if at - 1 in sizes else 'M'}{spot}")
    parts = [("line", line), ("dots", dots)]
    return [tag("path", d="".join(steps), class_=f"{kind} s{place}") for kind, steps in parts if steps]


def _describe_lines(line: Line, sizes: Sizes) -> str:
    label = plain(line.label, MOST_LABEL)
    if not sizes:
        return f"{label}: no number"
    last = sizes[max(sizes)]
    return f"{label}: lowest {short(min(sizes.values()))}, highest {short(max(sizes.values()))}, last {short(last)}"


def _legend(chart: Lines, link: Callable[[Line], str] | None) -> Html:
    items = []
    for place, line in enumerate(chart.lines, 1):
        swatch = tag("svg", tag("path", d="M1 5H29", class_=f"line s{place}"), viewBox="0 0 30 10", aria_hidden="true")
        label = tag("bdi", plain(line.label, MOST_LABEL))
        if link:
            label = tag("a", label, href=link(line), data_stay=True, title="show this key alone")
        items.append(tag("li", swatch, label, " ", tag("span", number(line.total), class_="quiet")))
    return tag("ul", items, class_="legend", aria_label=f"keys, with {chart.column} of the whole range")


BAR = 8  # width, of a place
LEAST = 0.8  # minimum height, so that every bar is visible

Bars = list[tuple[ChartPoint, float]]


def chart(data: Series | Lines, name: str, link: Callable[[Line], str] | None = None) -> Html:
    """The chart; `name` makes its ids unique on the page, `link` gives the page of a single line."""
    if isinstance(data, Lines):
        return lines_chart(data, name, link)
    bars = [(point, size) for point in data.points if (size := size_of(point.value)) is not None]
    if not bars:
        return tag("p", f"No chart: {data.column} has no number to draw.", class_="quiet")
    draw = _over_time if data.start is not None else _over_keys
    return tag("figure", tag("figcaption", _caption(data, bars)), draw(data, bars, name), class_="chart")


def _caption(series: Series, bars: Bars) -> str:
    missing = len(series.points) - len(bars)
    parts = [series.title]
    if missing:
        parts.append(f"{missing} without a number to draw")
    if any(not point.settled for point, _ in bars):
        parts.append("paler: provisional")
    return "; ".join(parts)


def _over_time(series: Series, bars: Bars, name: str) -> Html:
    scale = Scale.of(size for _, size in bars)
    pictures = [_bar(point, scale.depth(size), scale.depth(0)) for point, size in bars]
    assert series.start is not None, "it is over time"
    assert series.end is not None, "it is over time"
    return plot(
        pictures,
        scale,
        series.start,
        series.end,
        places=series.places,
        name=name,
        title=series.title,
        describe=_describe(series, bars),
    )


def _bar(point: ChartPoint, tip: float, zero: float) -> Html:
    """One bar between its tip and zero, both as fractions from the top."""
    y, height = min(tip, zero) * HEIGHT, abs(tip - zero) * HEIGHT
    if height < LEAST:
        y, height = min(y, HEIGHT - LEAST), LEAST
    text = f"{point.label} UTC: {number(point.value)}{'' if point.settled else ', provisional'}"
    return tag(
        "rect",
        tag("title", text),
        x=point.at * PLACE + (PLACE - BAR) // 2,
        y=f"{y:.2f}",
        width=BAR,
        height=f"{height:.2f}",
        class_=None if point.settled else "provisional",
    )


def _describe(series: Series, bars: Bars) -> str:
    sizes = [size for _, size in bars]
    last = bars[-1][0]
    missing = len(series.points) - len(bars)
    parts = [
        f"{len(bars)} bars",
        f"lowest {short(min(sizes))}",
        f"highest {short(max(sizes))}",
        f"last {number(last.value)}{'' if last.settled else ', provisional'}",
    ]
    if missing:
        parts.append(f"{missing} without a number")
    return "; ".join(parts)


def _over_keys(series: Series, bars: Bars, name: str) -> Html:
    """Horizontal bars, each with its key and number."""
    largest = max(abs(size) for _, size in bars) or 1.0
    rows = []
    for point, size in bars:
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
