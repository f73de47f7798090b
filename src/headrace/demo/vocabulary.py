"""The values in events of the shop, each with its weight."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

Word = TypeVar("Word")

MISSING = "\0missing"  # the field is missing in the event, which means the same as null

PAGES: dict[str | None, float] = {
    "/": 22,
    "/search": 18,
    "/checkout": 6,
    "/basket": 9,
    "/p/kettle": 12,
    "/p/teapot": 10,
    "/p/mug": 9,
    "/p/地球儀": 3,
    "/p/crème-brûlée-set": 4,
    "/p/🎁": 2,
    "/help": 2,
    '/p/19" rack': 1,
    "/p/back\\slash": 0.5,
    "": 0.3,
    None: 1,
    MISSING: 0.2,
}
STATUSES: dict[int | None, float] = {200: 88, 304: 5, 301: 2, 404: 3, 500: 1, 503: 0.7, None: 0.3}
REFERRERS: dict[str | None, float] = {
    "Search": 20,
    "search": 8,
    "SEARCH": 2,
    "Newsletter": 12,
    "newsletter": 6,
    "Météo": 3,
    "météo": 2,
    "Straße 12": 2,
    "Friend": 9,
    None: 26,
    MISSING: 10,
}
CATEGORIES: dict[str | None, float] = {
    "kitchen": 30,
    "books": 22,
    "garden": 14,
    "toys": 12,
    "Möbel": 8,
    "お茶": 6,
    "gifts 🎁": 5,
    "a, b; 'c'": 1,
    None: 2,
}
COUNTRIES: dict[str | None, float] = {
    "DE": 30,
    "FR": 18,
    "GB": 16,
    "JP": 10,
    "BR": 8,
    "Côte d’Ivoire": 3,
    "中国": 5,
    None: 3,
    MISSING: 1,
}


class Draw(Generic[Word]):
    """Draws words by their weights."""

    def __init__(self, words: dict[Word, float]) -> None:
        self._words: Sequence[Word] = list(words)
        weights = np.array(list(words.values()), dtype=np.float64)
        self._edges: npt.NDArray[np.float64] = np.cumsum(weights) / weights.sum()

    def draw(self, rng: np.random.Generator, count: int) -> list[Word]:
        """That many words."""
        indexes = np.minimum(np.searchsorted(self._edges, rng.random(count), side="right"), len(self._words) - 1)
        return [self._words[index] for index in indexes.tolist()]
