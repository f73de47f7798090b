"""An aggregate of the workspace: the longest shift of rides that follow one another."""

from datetime import timedelta

import pyarrow as pa

import headrace as hr

BREAK = timedelta(hours=8)  # ends a shift


def join(shifts):
    """Return shifts in order, each separated from the next by a break."""
    joined = []
    for shift in sorted(shifts, key=lambda shift: shift["since"]):
        if joined and shift["since"] - joined[-1]["until"] < BREAK:
            joined[-1]["until"] = max(joined[-1]["until"], shift["until"])
        else:
            joined.append(dict(shift))
    return joined


@hr.udaf(
    "started TIMESTAMP, ended TIMESTAMP",
    partial="ARRAY<STRUCT<since: TIMESTAMP, until: TIMESTAMP>>",
    gives="BIGINT",
)
class longest_shift:
    """The minutes from the first ride of a shift to the end of its last one; of several shifts, the longest."""

    def lift(self, started, ended):
        """Return a shift of one ride for each event."""
        rides = zip(started.to_pylist(), ended.to_pylist(), strict=True)
        return pa.array([[{"since": since, "until": until}] for since, until in rides])

    def merge(self, a, b):
        """Return the shifts of both; those that a break does not separate become one."""
        return pa.array([join(left + right) for left, right in zip(a.to_pylist(), b.to_pylist(), strict=True)])

    def present(self, partials):
        """Return the minutes of the longest shift."""
        longest = [max(each["until"] - each["since"] for each in shifts) for shifts in partials.to_pylist()]
        return pa.array([each // timedelta(minutes=1) for each in longest], pa.int64())
