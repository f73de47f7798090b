"""How many times, and where, servers are to die: `make test` says nothing, `make test-faults` does."""

from __future__ import annotations

import os

_GIVEN = os.environ.get("HEADRACE_FAULT_SEEDS", "")  # how many, or from-to
MANY = bool(_GIVEN)  # else each thing is tried once
CHOSEN = tuple(os.environ.get("HEADRACE_FAULT_POINTS", "").split())  # points, or how their names begin; else all


def _seeds(given: str) -> range:
    first, dash, last = given.partition("-")
    return range(int(first), int(last) + 1) if dash else range(int(first))


SEEDS = _seeds(_GIVEN or "1")
