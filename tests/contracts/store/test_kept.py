"""Small texts that others keep in the store."""

from __future__ import annotations

import pytest

from headrace.errors import FencedError
from headrace.store.base import Store
from tests.contracts.store.conftest import Place
from tests.contracts.store.layers import VIEW


def kept(store: Store, kind: str = "sink") -> dict[str, str]:
    with store.snapshot() as snapshot:
        return snapshot.kept(kind)


def test_texts_are_kept_by_kind_and_name(store: Store) -> None:
    assert kept(store) == {}
    store.keep("sink", "a", "1")
    store.keep("sink", "b", "2")
    store.keep("alert", "a", "é")
    store.keep("sink", "a", "3")
    assert kept(store) == {"a": "3", "b": "2"}
    assert kept(store, "alert") == {"a": "é"}
    store.keep("sink", "a", None)
    store.keep("sink", "never", None)
    assert kept(store) == {"b": "2"}


def test_only_the_writer_keeps(place: Place) -> None:
    store = place.open(1)
    store.register(VIEW, "a", {"events": 5})
    store.keep("sink", "a", "1")
    place.take_over(2)
    with pytest.raises(FencedError, match="the sink 'a' was not recorded; found fence 2"):
        store.keep("sink", "a", "2")
    assert kept(store) == {"a": "1"}
    store.close()
