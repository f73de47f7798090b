"""For consumers of a Kafka sink: the rows of the view from its messages, with repeats dropped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from headrace.sink.kafka import HEADER_COMMIT, HEADER_VERSION

Row = dict[str, Any]


class LatestRows:
    """The rows of a view, kept up to date from the messages of its sink.

    At least once means that after a failure a sink sends the last messages again. Within a version of the view the
    commit of a row only grows, so a message with a lower commit than its row has is such a repeat, and dropped.
    """

    def __init__(self) -> None:
        self._rows: dict[bytes, Row] = {}
        self._places: dict[bytes, tuple[int, int]] = {}  # version and commit, of deleted rows too

    def apply(
        self,
        key: str | bytes | None,
        value: str | bytes | None,
        headers: Iterable[tuple[str, str | bytes | None]] | None,
    ) -> bool:
        """Take a message; whether it changed a row. Messages of one partition must come in their order."""
        if key is None:
            raise ValueError("a message without a key is not a row of a view; FORMAT UPSERT sends keys")
        row_key = key.encode() if isinstance(key, str) else key
        values = dict(headers or ())
        version, commit = int(values.get(HEADER_VERSION) or 0), int(values.get(HEADER_COMMIT) or 0)
        known = self._places.get(row_key)
        if known is not None and known[0] == version and commit < known[1]:
            return False
        row = None if value is None else orjson.loads(value)
        self._places[row_key] = (version, commit)
        if row == self._rows.get(row_key):
            return False
        if row is None:
            del self._rows[row_key]
        else:
            self._rows[row_key] = row
        return True

    def rows(self) -> list[Row]:
        """The rows as they are now, with `_version` and `_commit`."""
        return list(self._rows.values())
