"""Recent answers as JSON, given again without a read of the store for as long as their view has not changed."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from headrace.format import iso
from headrace.serve.answer import Answer, states_as_dict
from headrace.serve.evaluate import Freshness, answer_cached, answer_serving
from headrace.serve.freshness import Fresh, stream_states
from headrace.serve.question import Question
from headrace.store.store_contract import Store
from headrace.store.version import Version

MOST_BYTES = 32 << 20
LARGEST_SHARE = 16  # an answer of more than MOST_BYTES / LARGEST_SHARE is not kept
ENTRY_BYTES = 4 << 10  # of memory for an entry, in addition to its JSON


@dataclass(frozen=True)
class _Entry:
    """An answer, and the version that it was read from: an equal version has the same rows."""

    version: Version
    parts: dict[str, Any]  # the JSON of each field of the answer that depends on the version alone
    as_of: dict[str, Any]
    size: int


class RecentAnswers:
    """Answers by the text of their questions. What an answer says about the present is computed for each reply."""

    def __init__(self, store: Store, freshness: Freshness, most_bytes: int = MOST_BYTES) -> None:
        self._store = store
        self._freshness = freshness
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._entries: OrderedDict[tuple[str, bytes], _Entry] = OrderedDict()  # the one that was used last is last
        self._size = 0

    def find(self, view: str, text: bytes, now: datetime) -> bytes | None:
        """The answer to a question that was asked before, if no newer one is possible. It never waits for the store."""
        key = view, text
        entry = self._entries.get(key)
        if entry is None or entry.version != self._store.serving_now(view):
            return None
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
        return _json(entry, now, self._freshness(entry.version))

    def ask(self, question: Question, text: bytes, now: datetime) -> bytes:
        """Answer from the store, and keep the answer under the text of the question."""
        return self._reply(*answer_serving(self._store, question, self._freshness, now), question, text, now)

    def ask_cached(self, question: Question, text: bytes, now: datetime) -> bytes | None:
        """The same if the rows are in memory; else None. It never waits for the store."""
        answered = answer_cached(self._store, question, self._freshness, now)
        return self._reply(*answered, question, text, now) if answered else None

    def _reply(self, version: Version, answer: Answer, question: Question, text: bytes, now: datetime) -> bytes:
        ages = {name: (state.freshness_ms, state.freshness_reason) for name, state in answer.streams.items()}
        entry = _make_entry(version, answer, text)
        if entry.size <= self._most_bytes // LARGEST_SHARE:
            self._keep((question.view, text), entry)
        return _json(entry, now, Fresh(answer.freshness_ms, answer.freshness_reason, ages))

    def _keep(self, key: tuple[str, bytes], entry: _Entry) -> None:
        with self._lock:
            before = self._entries.pop(key, None)
            self._entries[key] = entry
            self._size += entry.size - (before.size if before else 0)
            while self._size > self._most_bytes:
                self._size -= self._entries.popitem(last=False)[1].size


def _make_entry(version: Version, answer: Answer, text: bytes) -> _Entry:
    fields = answer.as_dict()
    as_of = fields["as_of"]
    encoded = {name: orjson.dumps(value) for name, value in fields.items()}
    size = ENTRY_BYTES + len(text) + sum(map(len, encoded.values()))
    return _Entry(version, {name: orjson.Fragment(json) for name, json in encoded.items()}, as_of, size)


def _json(entry: _Entry, now: datetime, fresh: Fresh) -> bytes:
    streams = states_as_dict(stream_states(entry.version, fresh))
    present = {
        "as_of": {**entry.as_of, "at": iso(now), "streams": streams},
        "freshness_ms": fresh.ms,
        "freshness_reason": fresh.reason,
    }
    return orjson.dumps({**entry.parts, **present})
