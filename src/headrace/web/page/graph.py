"""The graph as a picture: a box for each stream, table, view, sink and alert, with an arrow from each that it reads."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from itertools import accumulate

from headrace.format import count, freshness, plural
from headrace.html import Html, plain, tag
from headrace.server.status import GraphStatus, NodeStatus
from headrace.web.page.frame import asset
from headrace.web.page.layout import Layout, layout
from headrace.web.page.selection import view_path

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
    """What matters most about a node, in a line."""
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


def _x(places: Layout, layer: int) -> int:
    return EDGE + layer * (WIDTH + GAP_X)


def _y(height: float) -> float:
    return EDGE + height * (HEIGHT + GAP_Y)


def _edge(places: Layout, source: str, name: str) -> Html:
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


def _box(places: Layout, node: NodeStatus, *, linked: bool) -> Html:
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
    """As much of a text as fits into a box, in any font for screens."""
    text = plain(text, 400)
    room = (WIDTH - 2 * PADDING) / size_px
    widths = [*accumulate(map(_width, text), initial=0.0)]
    if widths[-1] <= room:
        return text
    return f"{text[: bisect_right(widths, room - _width('…')) - 1]}…"


def _width(character: str) -> float:
    """About how wide a character is in a wide font, DejaVu Sans, as a share of the size of the text."""
    if unicodedata.east_asian_width(character) in "WF" or ord(character) > 0xFFFF:
        return 1.3
    return next(
        (width for characters, width in WIDTHS if character in characters), 0.8 if character.isupper() else 0.65
    )
