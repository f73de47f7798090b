"""A chart of several keys over time as SVG: a line each, gaps where there is nothing, and a legend."""

from __future__ import annotations

from collections.abc import Callable

from headrace.cells import short
from headrace.format import number
from headrace.html import Html, plain, tag
from headrace.web.page.plot import HEIGHT, PLACE, Scale, plot, size_of
from headrace.web.page.series import Line, Lines

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
        describe="; ".join(_describe(line, sizes) for line, sizes in zip(chart.lines, sizes_of_lines, strict=True)),
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


def _describe(line: Line, sizes: Sizes) -> str:
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
