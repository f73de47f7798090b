"""A bar chart as SVG, with a text description for screen readers."""

from __future__ import annotations

from collections.abc import Callable

from headrace.cells import short
from headrace.format import number
from headrace.html import Html, plain, tag
from headrace.web.page.lines import lines_chart
from headrace.web.page.plot import HEIGHT, PLACE, Scale, plot, size_of
from headrace.web.page.series import Line, Lines, Point, Series

BAR = 8  # width, of a place
LEAST = 0.8  # minimum height, so that every bar is visible

Bars = list[tuple[Point, float]]


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


def _bar(point: Point, tip: float, zero: float) -> Html:
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
    """Horizontal bars, each with its key and number beside it."""
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
