"""An event loop answers from memory only what takes a bounded time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace.define.catalog import load
from headrace.define.model import View
from headrace.serve.evaluate import answer, answer_cached
from headrace.serve.freshness import Fresh
from headrace.serve.question import Question
from headrace.store.store_contract import Store
from headrace.store.version import Version
from tests.contracts.store.layers import merge
from tests.own_code import write_definitions
from tests.unit.store.partial_files import make_view, simple_event

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = 60_000
EVERY = make_view("traffic")
VIEW = replace(EVERY, columns=tuple(c for c in EVERY.columns if c.name in ("count_all", "sum_bigint", "max_string")))
LOOKUP: dict[str, Any] = {"key": {"k0": "/a"}}


def freshness(version: Version) -> Fresh:
    return Fresh(sum(version.commits.values()))


def fill(store: Store, folder: Path, view: View) -> None:
    version = store.register(view, "f1", {"events": 5})
    merge(store, folder, version, [simple_event(key, n * MINUTE, n) for n, key in enumerate(["/a", "/b", "/a"] * 5)])


def ask_until_held(store: Store, **question: Any) -> bool:
    """Whether a question is answered from memory once it was asked often; if it is, the answer is that of the store."""
    asked = Question.of("traffic", **question)
    for _ in range(20):
        whole = answer(store, asked, freshness, NOW)
        held = answer_cached(store, asked, freshness, NOW)
        if held is not None:
            assert held[1].as_dict() == whole.as_dict()
            return True
    return False


def test_a_lookup_of_a_key_is_answered_from_memory(store: Store, tmp_path: Path) -> None:
    fill(store, tmp_path, VIEW)
    assert answer_cached(store, Question.of("traffic", **LOOKUP), freshness, NOW) is None, "nothing is held yet"
    assert ask_until_held(store, **LOOKUP)
    assert ask_until_held(store, **LOOKUP, window="5m")


@pytest.mark.parametrize(
    "question",
    [{}, {**LOOKUP, "window": "1h", "every": "1m"}, {**LOOKUP, "having": "count_all > 1"}],
    ids=["all keys", "windows that overlap", "a condition"],
)
def test_other_questions_are_left_to_a_thread(store: Store, tmp_path: Path, question: dict[str, Any]) -> None:
    fill(store, tmp_path, VIEW)
    assert ask_until_held(store, **LOOKUP)
    assert not ask_until_held(store, **question)


def test_code_of_a_workspace_is_left_to_a_thread(store: Store, tmp_path: Path) -> None:
    heat = load(write_definitions(tmp_path / "definitions")).views["heat"]
    own = next(column for column in heat.columns if column.name == "mean")
    fill(store, tmp_path, replace(VIEW, columns=(*VIEW.columns, own)))
    assert not ask_until_held(store, **LOOKUP)
