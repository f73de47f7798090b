"""Changes of a table from what clients send: rows to upsert, and keys to delete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from headrace.define.table_parts import DELETED
from headrace.errors import RequestError
from headrace.format import iso


def deletions(
    table: str, key: Sequence[str], event_time: str | None, keys: Any, *, may_repeat: bool = False
) -> list[dict[str, Any]]:
    """The changes that delete these keys: mappings, or plain values if the key has one column.

    A table with an event time takes the latest change by it: a key without that time is deleted now. A request
    that `may_repeat` has to say the time: each repetition must be the same.
    """
    rows = keys if isinstance(keys, Iterable) and not isinstance(keys, str | bytes | Mapping) else [keys]
    at = iso(datetime.now(UTC))
    changes = []
    for index, row in enumerate(rows):
        values = dict(row) if isinstance(row, Mapping) else {key[0]: row} if len(key) == 1 else None
        missing = [name for name in key if values is None or values.get(name) is None]
        if values is None or missing:
            raise RequestError(
                f"table '{table}': key {index} does not name a row",
                found=repr(row)[:80],
                expected=f"{', '.join(key)}, as in {{{', '.join(f'{name!r}: …' for name in key)}}}",
                fix="nothing was deleted",
            )
        change = {name: values[name] for name in key}
        if may_repeat and event_time is not None and values.get(event_time) is None:
            raise RequestError(
                f"table '{table}': key {index} has no '{event_time}', and the request has an idempotency key",
                expected=f"'{event_time}' beside the key: a repeated request has the same body",
                fix="nothing was deleted",
            )
        if event_time is not None and event_time not in change:
            change[event_time] = values.get(event_time) or at
        changes.append({**change, DELETED: True})
    return changes
