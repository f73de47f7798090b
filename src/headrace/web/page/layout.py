"""Places the nodes of a graph in layers, from left to right, so that few edges cross and none lies on a node."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

SWEEPS = 16


@dataclass(frozen=True)
class Layout:
    """The layer of each node and its height in it, and the heights at which an edge passes the layers between."""

    layers: Mapping[str, int]
    heights: Mapping[str, float]  # in units of a node's height
    passes: Mapping[tuple[str, str], tuple[float, ...]]  # by the ends of the edge
    width: int  # the number of layers
    height: float


def layout(nodes: Iterable[tuple[str, Sequence[str]]]) -> Layout:
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
    return Layout(layers, own, passes, len(columns), 1 + max(heights.values(), default=0.0))


def _passing(source: str, name: str, layer: int) -> str:
    return f"{source}\n{name}\n{layer}"  # a name has no line break


def _columns(
    reads: Mapping[str, Sequence[str]], layers: Mapping[str, int]
) -> tuple[list[list[str]], dict[str, list[str]]]:
    """What is in each layer, with a place for each edge that passes it; and what each is connected to on its left."""
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
    """How many pairs of edges cross."""
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
