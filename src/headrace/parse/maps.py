"""MAP columns, which pyarrow does not read: DuckDB cuts objects into keys and values, the fast parser reads those."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.parse.frames import Frames, frame_lines


class Reader(Protocol):
    """Reads the field `value` of JSON objects."""

    def read(self, frames: Frames) -> pa.Table | None: ...


class Maps:
    """Reads one outermost field that is a MAP."""

    def __init__(self, name: str, values: Reader) -> None:
        self._name = name
        self._values = values
        self._duckdb: Any = None  # opened when the first event comes

    def read(self, frames: Frames, missing: pa.ChunkedArray) -> pa.Array | None:
        """The MAPs of all frames, whose JSON is known to be good; None if one needs a closer look."""
        cut = self._cut(frames)
        if cut is None:
            return None
        keys, texts = cut
        offsets = keys.offsets
        if not offsets.equals(texts.offsets) or _has_twice(keys):
            return None
        values = self._read_values(texts.flatten())
        if values is None:
            return None
        return pa.MapArray.from_arrays(offsets, keys.flatten(), values, mask=missing.combine_chunks())

    def _cut(self, frames: Frames) -> tuple[pa.ListArray, pa.ListArray] | None:
        import duckdb  # heavy, and few streams need it

        if self._duckdb is None:
            self._duckdb = duckdb.connect(config={"threads": 1, "autoload_known_extensions": False})
        self._duckdb.register("events", pa.table({"event": frames.values().view(pa.string())}))
        path = f"'$.{self._name}'"
        try:
            cut = self._duckdb.sql(
                f"SELECT coalesce(json_keys(event, {path}), []) AS keys, "
                f"CAST(coalesce(json_extract(event, '$.{self._name}.*'), []) AS VARCHAR[]) AS texts FROM events"
            ).to_arrow_table()
        except duckdb.Error:
            return None
        keys, texts = (cut.column(name).combine_chunks() for name in ("keys", "texts"))
        return keys, texts

    def _read_values(self, texts: pa.Array) -> pa.Array | None:
        lines = pc.binary_join_element_wise('{"value":', texts, "}\n", "")
        size = pc.sum(pc.binary_length(lines)).as_py() or 0
        table = self._values.read(frame_lines(lines.buffers()[2][:size] if size else b""))
        return None if table is None or len(table) != len(texts) else table.column("value").combine_chunks()


def _has_twice(keys: pa.ListArray) -> bool:
    """Whether an object has a key twice."""
    encoded = keys.flatten().dictionary_encode()
    pairs = pc.list_parent_indices(keys).to_numpy().astype(np.int64) * max(len(encoded.dictionary), 1)
    pairs += encoded.indices.to_numpy()
    return len(np.unique(pairs)) != len(pairs)
