"""The stores that have to pass this suite. A new one is one more class here; the tests know only the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from headrace.store.duckdb.database import open_database
from headrace.store.duckdb.duckdb_reader import open_file
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.store_contract import Store, StoreReader


class Place(Protocol):
    """Where a store is kept: what one process wrote, the next one finds."""

    def open(self, fence: int = 7) -> Store: ...

    def open_to_read(self) -> StoreReader: ...

    def take_over(self, fence: int) -> None:
        """What another process does that opens the store with a higher fence, while this one has it open."""


@dataclass(frozen=True)
class DuckPlace:
    folder: Path

    def open(self, fence: int = 7) -> Store:
        return DuckStore.open(self.folder / "store", fence)

    def open_to_read(self) -> StoreReader:
        return open_file(self.folder / "store")

    def take_over(self, fence: int) -> None:
        # No other process can open the file meanwhile: it is the fence that has to be found.
        with open_database(self.folder / "store") as connection:
            connection.execute("UPDATE versions SET fence = ?", [fence])


PLACES = {"duckdb": DuckPlace}


@pytest.fixture(scope="module", params=PLACES)
def new_place(request: pytest.FixtureRequest) -> type[DuckPlace]:
    """Makes places in empty folders."""
    return PLACES[request.param]


@pytest.fixture
def place(new_place: type[DuckPlace], tmp_path: Path) -> Place:
    return new_place(tmp_path)


@pytest.fixture
def store(place: Place) -> Iterator[Store]:
    opened = place.open()
    yield opened
    opened.close()
