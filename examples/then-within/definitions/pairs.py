"""An aggregate of the workspace: how often one thing is followed by another within ten minutes."""

from bisect import bisect_right
from datetime import timedelta

import pyarrow as pa

import headrace as hr

WITHIN = timedelta(minutes=10)


def is_followed(time, others):
    """Whether the next of the others, which are in order, comes soon enough."""
    later = bisect_right(others, time)
    return later < len(others) and others[later] - time <= WITHIN


@hr.udaf(
    "is_first BOOLEAN, is_second BOOLEAN, at TIMESTAMP",
    partial="STRUCT<first: ARRAY<TIMESTAMP>, second: ARRAY<TIMESTAMP>>",
    gives="BIGINT",
)
class followed:
    """The number of first events that a second one follows within ten minutes."""

    def lift(self, is_first, is_second, at):
        """Return the time of each event, as one of the first kind, of the second, or of none."""
        events = zip(is_first.to_pylist(), is_second.to_pylist(), at.to_pylist(), strict=True)
        return pa.array([{"first": [t] if a else [], "second": [t] if b else []} for a, b, t in events])

    def merge(self, a, b):
        """Return the times of both, in order."""
        pairs = zip(a.to_pylist(), b.to_pylist(), strict=True)
        return pa.array([{kind: sorted(x[kind] + y[kind]) for kind in ("first", "second")} for x, y in pairs])

    def present(self, partials):
        """Return the number of first times that have a second one soon enough after them."""
        return pa.array([sum(is_followed(t, each["second"]) for t in each["first"]) for each in partials.to_pylist()])
