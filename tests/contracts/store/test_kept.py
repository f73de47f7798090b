"""Small texts that others keep in the store."""

from __future__ import annotations

from pathlib import Path

from headrace.errors import FencedError
from headrace.store.duckdb import store_files
from headrace.store.store_contract import Store
from tests import wording
from tests.contracts.store.conftest import Place
from tests.contracts.store.layers import VIEW


def test_texts_are_kept_by_kind_and_name(store: Store) -> None:
    assert store.stored_texts("sink") == {}
    store.keep("sink", "a", "1")
    store.keep("sink", "b", "2")
    store.keep("alert", "a", "é")
    store.keep("sink", "a", "3")
    assert store.stored_texts("sink") == {"a": "3", "b": "2"}
    assert store.stored_texts("alert") == {"a": "é"}
    store.keep("sink", "a", None)
    store.keep("sink", "never", None)
    assert store.stored_texts("sink") == {"b": "2"}


def test_the_next_process_has_them(place: Place) -> None:
    first = place.open(1)
    first.keep("sink", "a", "1")
    first.close()
    second = place.open(2)
    assert second.stored_texts("sink") == {"a": "1"}
    second.keep("sink", "a", "2")
    second.close()
    reader = place.open_to_read()
    assert reader.stored_texts("sink") == {"a": "2"}
    reader.close()


def test_a_store_that_starts_anew_has_them_and_the_numbers_of_versions(tmp_path: Path) -> None:
    paused = store_files.open_store(tmp_path, 1)
    paused.register(VIEW, "a", {"events": 5})
    paused.keep("sink", "a", "1")
    successor = store_files.DuckStore.open(
        tmp_path / "store" / "views-00000002.duckdb", 2
    )  # as it does while 1 holds its file
    assert successor.stored_texts("sink") == {"a": "1"}
    assert successor.register(VIEW, "a", {"events": 5}).number == 2
    with wording.raises(FencedError, "a", 2):
        paused.keep("sink", "a", "0")
    assert successor.stored_texts("sink") == {"a": "1"}
    successor.close()
    paused.close()
