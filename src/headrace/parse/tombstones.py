"""Messages of Kafka without a value, tombstones: in a table each of them deletes the row of its key.

Such a message is read as if its value were the change `{"id": "u1", "_deleted": true}`, so that all that reads changes
reads this one. What cannot be read so stays without a value, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from headrace.define.model import Field, Stream
from headrace.define.table_parts import DELETED
from headrace.format import EPOCH, iso
from headrace.types import STRING

NO_VALUE = "the message has no value: it is a tombstone"
_MISSING = object()


def has_deletes(stream: Stream) -> bool:
    """Return whether the events of a stream are the changes of a table."""
    return stream.relation is None and any(field.name == DELETED for field in stream.fields)


def read_deletes(
    stream: Stream,
    values: Sequence[bytes],
    reasons: pa.Array,
    keys: pa.Array,
    arrived_us: npt.NDArray[np.int64],
) -> tuple[list[bytes], pa.Array]:
    """The values and reasons, where the message of a key is read as the delete of its row."""
    changes = RowDeletes(stream)
    new_values, new_reasons = list(values), reasons.to_pylist()
    for at, reason in enumerate(new_reasons):
        if reason is not None and reason.startswith(NO_VALUE):
            value, new_reasons[at] = changes.delete(keys[at].as_py(), int(arrived_us[at]))
            new_values[at] = value
    return new_values, pa.array(new_reasons, pa.string())


class RowDeletes:
    """The values of the deletes of a table, by the keys of their messages."""

    def __init__(self, stream: Stream) -> None:
        # Of the columns of a table only those of its key are NOT NULL, and its event time.
        needed = [field for field in stream.fields if not field.nullable and field.name != stream.event_time]
        self._key = [field for field in needed if field.is_sent]
        self._time = next((field for field in stream.fields if field.name == stream.event_time), None)

    def delete(self, key: bytes | None, arrived_us: int) -> tuple[bytes, str | None]:
        """The value of the delete, or an empty one and the reason why the row is not known."""
        if key is None:
            return b"", f"{NO_VALUE}, and it has no key that says which row to delete"
        parts = _as_object(key)
        columns = self._columns(key, parts)
        if columns is None:
            return b"", f"{NO_VALUE}, and its key {self._expected()}"
        if self._time is not None and self._time.computed is not None:
            return b"", (
                f"{NO_VALUE}, so that the event time '{self._time.name}' cannot be computed; "
                f'send {{"{DELETED}": true}} with what it is computed from'
            )
        value: dict[str, Any] = {}
        for field, column in columns.items():
            _put(value, field.steps, column)
        if self._time is not None and self._time.is_sent:
            at = (parts or {}).get(self._time.name, iso(EPOCH + timedelta(microseconds=arrived_us)))
            _put(value, self._time.steps, at)
        value[DELETED] = True
        return orjson.dumps(value), None

    def _columns(self, key: bytes, parts: Mapping[str, Any] | None) -> dict[Field, Any] | None:
        """The columns of the primary key that are not parts of the record; None if the key does not have them."""
        if parts is not None and all(field.name in parts for field in self._key):
            return {field: parts[field.name] for field in self._key}
        if not self._key:
            return {}
        if parts is None and len(self._key) == 1:
            value = _as_value(self._key[0], key)
            return None if value is _MISSING else {self._key[0]: value}
        return None

    def _expected(self) -> str:
        names = ", ".join(field.name for field in self._key)
        text = f" or the text of '{names}'" if len(self._key) == 1 else ""
        return f"is not a JSON object with {names}{text}, so it does not identify the row to delete"


def _as_object(key: bytes) -> dict[str, Any] | None:
    """The JSON object that a key is, with numbers as they are written; None if it is none."""
    if not key.lstrip().startswith(b"{"):
        return None
    try:
        content = json.loads(key, parse_int=orjson.Fragment, parse_float=orjson.Fragment, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _as_value(field: Field, key: bytes) -> Any:
    """The value of a column that is all of a key: as JSON, or as text."""
    try:
        content = orjson.loads(key)
    except orjson.JSONDecodeError:
        content = None
    if isinstance(content, str):
        return content
    if field.type != STRING and isinstance(content, bool | int | float):
        return orjson.Fragment(key.strip())
    try:
        return key.decode()
    except UnicodeDecodeError:
        return _MISSING


def _put(value: dict[str, Any], steps: Sequence[str | int], column: Any) -> None:
    """Put a column where it is in the value."""
    *outer, last = map(str, steps)
    for step in outer:
        value = value.setdefault(step, {})
    value[last] = column
