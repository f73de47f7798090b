"""The graph as a picture: nodes in layers from left to right, so that few of their arrows cross."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from headrace.format import count, freshness, plural
from headrace.html import Html, plain, tag
from headrace.server.status import GraphStatus, NodeStatus
from headrace.web.page.page_frame import asset
from headrace.web.page.page_selection import view_path

SWEEPS = 16


@dataclass(frozen=True)
class GraphLayout:
    """The layer of each node and its height in it, and the heights at which an edge passes the layers between."""

    layers: Mapping[str, int]
    heights: Mapping[str, float]  # in units of a node's height
    passes: Mapping[tuple[str, str], tuple[float, ...]]  # by the ends of the edge
    width: int  # the number of layers
    height: float


def layout(nodes: Iterable[tuple[str, Sequence[str]]]) -> GraphLayout:
    """The layout of nodes, each given after those that it reads."""
    reads = dict(nodes)
    layers: dict[str, int] = {}
    for name, sources in reads.items():
        layers[name] = 1 + max((layers[source] for source in sources), default=-1)
    columns, before = _columns(reads, layers)
    after: dict[str, list[str]] = {}
    for name, sources in before.items():
        for source in sources:
            after.setdefault(source, []).append(name)
    best, fewest = [list(column) for column in columns], _crossings(columns, before)
    for sweep in range(SWEEPS):
        forward = sweep % 2 == 0
        for column in columns if forward else reversed(columns):
            _order(column, before if forward else after, columns)
        crossings = _crossings(columns, before)
        if crossings < fewest:
            best, fewest = [list(column) for column in columns], crossings
    columns = best
    heights = _heights(columns, before, after)
    heights = _closed(heights)
    passes = {
        (source, name): tuple(
            heights[_passing(source, name, layer)] for layer in range(layers[source] + 1, layers[name])
        )
        for name, sources in reads.items()
        for source in sources
    }
    own = {name: heights[name] for name in reads}
    return GraphLayout(layers, own, passes, len(columns), 1 + max(heights.values(), default=0.0))


def _passing(source: str, name: str, layer: int) -> str:
    return f"{source}\n{name}\n{layer}"  # a name has no line break


def _columns(
    reads: Mapping[str, Sequence[str]], layers: Mapping[str, int]
) -> tuple[list[list[str]], dict[str, list[str]]]:
    """The contents of each layer, with a place for each edge that passes it, and the neighbours on the left of each."""
    columns: list[list[str]] = [[] for _ in range(1 + max(layers.values(), default=-1))]
    before: dict[str, list[str]] = {}
    for name, sources in reads.items():
        columns[layers[name]].append(name)
        for source in sources:
            left = source
            for layer in range(layers[source] + 1, layers[name]):
                place = _passing(source, name, layer)
                columns[layer].append(place)
                before[place] = [left]
                left = place
            before.setdefault(name, []).append(left)
    return columns, before


def _crossings(columns: Sequence[Sequence[str]], before: Mapping[str, Sequence[str]]) -> int:
    """The number of pairs of edges that cross."""
    places = {name: at for column in columns for at, name in enumerate(column)}
    crossings = 0
    for column in columns:
        edges = sorted((at, places[left]) for at, name in enumerate(column) for left in before.get(name, ()))
        lefts: list[int] = []
        for _, left in edges:  # those before it that begin further below
            place = bisect_right(lefts, left)
            crossings += len(lefts) - place
            lefts.insert(place, left)
    return crossings


def _order(column: list[str], neighbours: Mapping[str, Sequence[str]], columns: Sequence[Sequence[str]]) -> None:
    """Order a layer by the mean place of what each is connected to; what has none keeps its place."""
    places = {name: at for other in columns for at, name in enumerate(other)}

    def mean(name: str) -> float:
        near = [places[each] for each in neighbours.get(name, ())]
        return sum(near) / len(near) if near else float(places[name])

    column.sort(key=mean)


def _heights(
    columns: Sequence[Sequence[str]], before: Mapping[str, Sequence[str]], after: Mapping[str, Sequence[str]]
) -> dict[str, float]:
    """Heights in each layer at least one apart, near those of what each is connected to."""
    heights = {name: float(at) for column in columns for at, name in enumerate(column)}
    for sweep in range(SWEEPS):
        neighbours = before if sweep % 2 == 0 else after
        for column in columns if sweep % 2 == 0 else reversed(columns):
            wishes = []
            for name in column:
                near = [heights[each] for each in neighbours.get(name, ())]
                wishes.append(sum(near) / len(near) if near else heights[name])
            heights |= dict(zip(column, _apart(wishes), strict=True))
    return heights


def _closed(heights: Mapping[str, float]) -> dict[str, float]:
    """The heights from 0 on, without the bands in which no layer has anything."""
    closed: dict[str, float] = {}
    last, shift = None, 0.0
    for name, height in sorted(heights.items(), key=lambda item: item[1]):
        shift += height if last is None else max(0.0, height - last - 1)
        last, closed[name] = height, height - shift
    return closed


def _apart(wishes: Sequence[float]) -> list[float]:
    """The heights nearest to these in their order, at least one apart: blocks of neighbours share their mean."""
    blocks: list[tuple[float, int]] = []  # the height of the first of a block, and how many are in it
    for wish in wishes:
        blocks.append((wish, 1))
        while len(blocks) > 1 and blocks[-2][0] + blocks[-2][1] > blocks[-1][0]:
            (second, more), (first, count) = blocks.pop(), blocks.pop()
            total = count + more
            blocks.append(((first * count + (second - count) * more) / total, total))
    return [first + at for first, count in blocks for at in range(count)]


WIDTH, HEIGHT = 264, 46  # of a box
GAP_X, GAP_Y, EDGE = 70, 18, 10
PADDING = 12  # between the side of a box and its text
NAME_PX, LINE_PX = 13 * 1.12, 11  # sizes of text, as in graph.css; a name is bold, which is wider
WIDTHS = (("ijlI.,:;|!' ·", 0.34), ("frt()[]/-", 0.43), ("mwMWOQ@%&—…~+=<>", 1.02))  # of characters; others: 0.65
COLOURS = (
    ":root{color-scheme:light dark;--ground:#fff;--surface:#fff;--text:#1a222d;--quiet:#566171;--line:#c3cad3;"
    "--accent:#0b5e86;--good:#17653a;--bad:#a4211a;--bad-ground:#fdeeed;--soft:#eef0f3;--warn:#7a5200}"
    "@media(prefers-color-scheme:dark){:root{--ground:#11151b;--surface:#181e26;--text:#e3e8ef;--quiet:#9aa7b8;"
    "--line:#445063;--accent:#6cc0e8;--good:#7fd49c;--bad:#ff9a91;--bad-ground:#3a1d1c;--soft:#202833;--warn:#f0bf63}}"
)


def graph_svg(graph: GraphStatus, *, alone: bool = False) -> Html:
    """The picture; `alone` with its own colours, for a file."""
    places = layout((node.name, node.reads) for node in graph.nodes)
    width = 2 * EDGE + places.width * WIDTH + max(0, places.width - 1) * GAP_X
    height = 2 * EDGE + places.height * (HEIGHT + GAP_Y) - GAP_Y
    edges = [_edge(places, source, node.name) for node in graph.nodes for source in node.reads]
    boxes = [_box(places, node, linked=not alone) for node in graph.nodes]
    arrow = tag(
        "marker", tag("path", d="M0 0 8 4 0 8z", class_="head"), id="arrow", viewBox="0 0 8 8", refX=8, refY=4,
        markerWidth=7, markerHeight=7, orient="auto",
    )  # fmt: skip
    style = tag("style", Html(COLOURS + asset("graph.css").decode())) if alone else None
    ground = tag("rect", width="100%", height="100%", class_="ground") if alone else None
    title = f"{len(graph.nodes)} streams, tables, views, sinks and alerts, and what each reads"
    return tag(
        "svg", style, tag("title", title), tag("defs", arrow), ground, edges, boxes, class_="graph", role="img",
        aria_label=title, viewBox=f"0 0 {width} {height:.0f}", width=width, height=f"{height:.0f}",
        **({"xmlns": "http://www.w3.org/2000/svg"} if alone else {}),
    )  # fmt: skip


def node_path(node: NodeStatus) -> str:
    """The page, or the part of the first page, that shows a node."""
    if node.kind in ("view", "logical view", "table"):
        return view_path(node.name)
    return f"/#{node.kind.removeprefix('derived ')}-{node.name}"


def node_line(node: NodeStatus) -> str:
    """The most important fact about a node, in a line."""
    parts = [node.kind]
    if node.detail:
        parts.append(node.detail)
    if node.events_per_second is not None:
        parts.append(f"{count(node.events_per_second)} events/s")
    if node.rows is not None:
        parts.append(plural(node.rows, "row"))
    if node.problem:
        parts.append(node.problem)
    elif node.kind != "alert" and (node.freshness_ms is not None or node.freshness_reason):
        parts.append(freshness(node.freshness_ms, node.freshness_reason))
    return " · ".join(parts)


def _x(places: GraphLayout, layer: int) -> int:
    return EDGE + layer * (WIDTH + GAP_X)


def _y(height: float) -> float:
    return EDGE + height * (HEIGHT + GAP_Y)


def _edge(places: GraphLayout, source: str, name: str) -> Html:
    """A curve from the right side of a box to the left side of another, through the gaps of the layers between."""
    x, y = _x(places, places.layers[source]) + WIDTH, _y(places.heights[source]) + HEIGHT / 2
    path = f"M{x} {y:.1f}"
    for at, height in enumerate((*places.passes[source, name], places.heights[name]), places.layers[source] + 1):
        left, middle, level = _x(places, at), GAP_X / 2, _y(height) + HEIGHT / 2
        path += f"C{left - middle} {y:.1f} {left - middle} {level:.1f} {left} {level:.1f}"
        if at < places.layers[name]:
            path += f"L{left + WIDTH} {level:.1f}"
        y = level
    return tag("path", d=path, class_="edge", marker_end="url(#arrow)")


def _box(places: GraphLayout, node: NodeStatus, *, linked: bool) -> Html:
    x, y = _x(places, places.layers[node.name]), _y(places.heights[node.name])
    kind = f"node {node.kind.split()[0]}{' trouble' if node.problem else ''}"
    line = node_line(node)
    inside = [
        tag("title", f"{node.name}: {plain(line, 400)}"),
        tag("rect", x=x, y=f"{y:.1f}", width=WIDTH, height=HEIGHT, rx=8),
        tag("text", _cut(node.name, NAME_PX), x=x + PADDING, y=f"{y + 19:.1f}", class_="name"),
        tag("text", _cut(line, LINE_PX), x=x + PADDING, y=f"{y + 36:.1f}", class_="line"),
    ]
    return tag("a", inside, href=node_path(node), class_=kind) if linked else tag("g", inside, class_=kind)


def _cut(text: str, size_px: float) -> str:
    """Cut a text to fit into a box, in any font for screens."""
    text = plain(text, 400)
    room = (WIDTH - 2 * PADDING) / size_px
    widths = [*accumulate(map(_width, text), initial=0.0)]
    if widths[-1] <= room:
        return text
    return f"{text[: bisect_right(widths, room - _width('…')) - 1]}…"


def _width(character: str) -> float:
    """The width of a character in a wide font, DejaVu Sans, as a share of the size of the text."""
    if unicodedata.east_asian_width(character) in "WF" or ord(character) > 0xFFFF:
        return 1.3
    return next(
        (width for characters, width in WIDTHS if character in characters), 0.8 if character.isupper() else 0.65
    )
