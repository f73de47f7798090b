"""Every aggregate over every type that it accepts, and events with values of those types."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

from hypothesis import strategies as st

from headrace.aggregate import Aggregate
from headrace.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Type, decimal

TYPES = (STRING, BOOLEAN, INT, BIGINT, DOUBLE, decimal(12, 2), decimal(28, 6), decimal(38, 6), DATE, TIMESTAMP)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "STRING": TEXT,
    "BOOLEAN": st.booleans(),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "BIGINT": st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-5, 5)),
    "DOUBLE": st.one_of(
        st.floats(allow_nan=False, allow_infinity=False, width=32), st.sampled_from([0.0, -0.0, 1e300, -1e300, 0.1])
    ),
    "DATE": st.dates(date(1970, 1, 1), date(2100, 1, 1)),
    "TIMESTAMP": st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
}


def values(of: Type) -> st.SearchStrategy[Any]:
    """Values of a type, sometimes NULL."""
    if of.name == "DECIMAL":
        most = 10 ** (of.precision - of.scale) - 1
        plain: st.SearchStrategy[Any] = st.decimals(-most, most, places=of.scale, allow_nan=False)
    else:
        plain = VALUES[of.name]
    return st.one_of(st.none(), plain)


@st.composite
def events(draw: st.DrawFn, aggregate: Aggregate, most: int, first: int = 0) -> list[tuple[Any, ...]]:
    """Events, each as the arguments of `lift`; positions are unique and begin at `first`."""
    strategies = [values(argument.type) for argument in aggregate.arguments]
    times = [st.integers(0, 2)] if aggregate.ordered else []
    rows = draw(st.lists(st.tuples(*strategies, *times), max_size=most))
    return [(*event, first + at) for at, event in enumerate(rows)] if aggregate.ordered else rows
