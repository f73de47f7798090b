"""How many examples property tests try, from the profile of Hypothesis."""

from __future__ import annotations

from hypothesis import settings

USUAL = 12  # examples of `make test`


def examples(usual: int) -> int:
    """So many in `make test`; fewer in `make test-fast`, and more in a search."""
    return max(2, usual * settings().max_examples // USUAL)
