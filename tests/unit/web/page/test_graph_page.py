"""The layout of a graph: layers, no two boxes on one place, edges that pass between boxes."""

from __future__ import annotations

from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from headrace.web.page.graph_page import layout


@st.composite
def graphs(draw: st.DrawFn) -> list[tuple[str, tuple[str, ...]]]:
    """Nodes, each after those that it reads."""
    nodes: list[tuple[str, tuple[str, ...]]] = []
    for number in range(draw(st.integers(0, 40))):
        earlier = [name for name, _ in nodes]
        reads = draw(st.lists(st.sampled_from(earlier), max_size=3, unique=True)) if earlier else []
        nodes.append((f"n{number}", tuple(reads)))
    return nodes


@given(graphs())
def test_boxes_and_passing_edges_never_share_a_place(nodes):
    places = layout(nodes)
    assert set(places.layers) == set(places.heights) == {name for name, _ in nodes}
    taken: dict[int, list[float]] = {}
    for name, reads in nodes:
        taken.setdefault(places.layers[name], []).append(places.heights[name])
        for source in reads:
            assert places.layers[source] < places.layers[name]
            passes = places.passes[source, name]
            assert len(passes) == places.layers[name] - places.layers[source] - 1
            for at, height in enumerate(passes, places.layers[source] + 1):
                taken.setdefault(at, []).append(height)
    for heights in taken.values():
        assert min(heights) >= 0
        assert max(heights) + 1 <= places.height
        assert all(abs(one - other) > 1 - 1e-6 for one, other in combinations(heights, 2))


def test_a_chain_is_a_straight_line():
    places = layout([("a", ()), ("b", ("a",)), ("c", ("b",))])
    assert places.width == 3
    assert len(set(places.heights.values())) == 1


def test_readers_stand_beside_what_they_read():
    places = layout([("a", ()), ("b", ()), ("y", ("b",)), ("x", ("a",))])
    assert places.heights["x"] == places.heights["a"]
    assert places.heights["y"] == places.heights["b"]


def test_a_small_graph_stands_close_to_a_large_one():
    wide = [("many", ()), *((f"view{at}", ("many",)) for at in range(20))]
    nodes = [("few", ()), ("one", ("few",)), *wide]
    heights = sorted(layout(nodes).heights.values())
    assert all(below - above <= 1 + 1e-6 for above, below in pairwise(heights))
