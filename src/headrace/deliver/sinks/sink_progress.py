"""How far a sink has come, as it is kept in the store."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace

import orjson

from headrace.define.connectors import CONNECTORS
from headrace.define.fingerprint import from_json, to_json
from headrace.define.model import Sink
from headrace.store.store_contract import Store, StoreReader

KIND = "sink"


@dataclass(frozen=True)
class SinkPlace:
    """A cursor of a sink's source, with the number of the batch it is after.

    Destinations that record progress keep it as text. `identity` says what is sent: the place in something else is
    none.
    """

    identity: str
    batch: int
    cursor: str | None = None

    def to_text(self) -> str:
        """As a destination keeps it."""
        return f"{self.identity}:{self.batch}:{self.cursor or ''}"

    @classmethod
    def from_text(cls, text: str | None) -> SinkPlace | None:
        """What `to_text` wrote; None for anything else."""
        parts = text.split(":", 2) if text else []
        if len(parts) != 3 or not parts[1].isdigit():
            return None
        return cls(parts[0], int(parts[1]), parts[2] or None)


@dataclass(frozen=True)
class SinkProgress:
    """What is known of a sink: `sink` as it was when it last ran, its place, and what it has done so far."""

    sink: Sink
    place: SinkPlace
    rows: int = 0  # that were sent, deletes among them
    batches: int = 0
    errors: int = 0
    paused: bool = False
    sent_at_us: int | None = None  # when the last batch was written

    def with_definition(self, sink: Sink) -> SinkProgress:
        """The progress after an edit: from the same place if what it sends is the same, else from the start."""
        identity = identity_of(sink)
        if identity == self.place.identity:
            return replace(self, sink=sink)
        return replace(self, sink=sink, place=SinkPlace(identity, self.place.batch))


def new_progress(sink: Sink) -> SinkProgress:
    """Of a sink that was just created."""
    return SinkProgress(sink, SinkPlace(identity_of(sink), 0))


def identity_of(sink: Sink) -> str:
    """What a sink sends and where to: the same for definitions between which it goes on from its place."""
    connector = CONNECTORS[sink.connector]
    fixed = [(name, value) for name, value in sink.options if (option := connector.option(name)) and not option.keeps]
    content = orjson.dumps({**to_json(sink), "options": dict(fixed)}, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(content).hexdigest()[:16]


def read_progress(store: StoreReader) -> dict[str, SinkProgress]:
    """Of all sinks that the store knows, by name."""
    return {name: _from_text(text) for name, text in store.stored_texts(KIND).items()}


def write_progress(store: Store, progress: SinkProgress) -> None:
    """Keep the progress of a sink."""
    value = {**asdict(progress), "sink": to_json(progress.sink)}
    store.keep(KIND, progress.sink.name, orjson.dumps(value).decode())


def forget_progress(store: Store, name: str) -> None:
    """The sink was dropped."""
    store.keep(KIND, name, None)


def _from_text(text: str) -> SinkProgress:
    value = orjson.loads(text)
    sink = from_json(value["sink"])
    assert isinstance(sink, Sink), "written by write_progress"
    return SinkProgress(**{**value, "sink": sink, "place": SinkPlace(**value["place"])})
