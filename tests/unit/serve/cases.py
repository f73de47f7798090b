"""Generated views, events and questions, for every type of key."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from headrace.define.model import View, Window
from tests.unit.store.partial_files import TYPES, Event, make_view

PANE = 60_000
BIG = 2**63 - 1
VALUES: dict[str, list[Any]] = {
    "STRING": [None, "", "a", "b", "é", "\U0001f600", "\\N", "Z", "null"],
    "BOOLEAN": [None, True, False],
    "INT": [None, 0, 1, -1, 2**31 - 1, -(2**31)],
    "BIGINT": [None, 0, 1, 2**53 + 1, BIG, -BIG - 1],
    "DOUBLE": [None, 0.0, 1.5, -2.25, 1e6, float("nan"), float("inf")],
    "DECIMAL": [None, Decimal("0.00"), Decimal("1.10"), Decimal("-99999999.99")],
    "DATE": [None, date(1970, 1, 1), date(2026, 2, 28), date(1969, 12, 31)],
    "TIMESTAMP": [None, datetime(1970, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 1, 2, 3, 456789, tzinfo=UTC)],
}

minutes = st.integers(0, 12)
spans = st.none() | st.integers(1, 7)


@st.composite
def cases(draw: st.DrawFn) -> tuple[View, list[list[Event]], dict[str, Any], int]:
    windowed = draw(st.integers(0, 5)) > 0
    declared = draw(st.sampled_from([(1, 1), (3, 3), (4, 2), (3, 2)]))
    window = Window(declared[0] * PANE, declared[1] * PANE) if windowed else None
    view = make_view(keys=draw(st.lists(st.sampled_from(TYPES), max_size=2)), window=window)
    pools = [draw(st.lists(st.sampled_from(VALUES[k.expression.type.name]), min_size=1, max_size=3)) for k in view.keys]
    event = st.builds(
        Event,
        keys=st.tuples(*(st.sampled_from(pool) for pool in pools)),
        at_ms=st.integers(0, 12 * PANE - 1),
        values=st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()}),
        correction=st.booleans(),
    )
    batches = draw(st.lists(st.lists(event, max_size=8), min_size=1, max_size=4))
    question: dict[str, Any] = {}
    names = [key.name for key in view.keys]
    if draw(st.booleans()):
        question["by"] = draw(st.permutations(names).map(lambda n: n[:1])) if names else []
    if names and draw(st.booleans()):
        question["key"] = [
            {names[0]: draw(st.sampled_from(VALUES[view.keys[0].expression.type.name]))} for _ in range(2)
        ]
    if window:
        pane = window.pane_ms
        if draw(st.booleans()):
            question["start"] = draw(minutes) * pane
        if draw(st.booleans()):
            question["end"] = question.get("start", 0) + draw(st.integers(1, 10)) * pane
        question["window"], question["every"] = (n and n * pane for n in (draw(spans), draw(spans)))
        if draw(st.integers(0, 4)) == 0:
            question["window"], question["every"] = "all", None
        if question["window"] != "all" or "end" in question:
            question["settled_only"] = draw(st.booleans())
    question["corrections"] = draw(st.booleans())
    question["order"] = draw(st.sampled_from(["oldest", "newest"]))
    return view, batches, question, draw(st.integers(1, 4))
