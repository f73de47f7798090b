"""How many times, and where, servers are killed: set by `make test-faults`, not by `make test`."""

from __future__ import annotations

import os

_SEED_RANGE = os.environ.get("HEADRACE_FAULT_SEEDS", "")  # how many, or from-to
MANY = bool(_SEED_RANGE)  # else each thing is tried once
POINT_PREFIXES = tuple(os.environ.get("HEADRACE_FAULT_POINTS", "").split())  # of points to test; none: all


def _seeds(text: str) -> range:
    first, dash, last = text.partition("-")
    return range(int(first), int(last) + 1) if dash else range(int(first))


SEEDS = _seeds(_SEED_RANGE or "1")
