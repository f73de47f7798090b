"""Batches of a sink for tests of its writers, without a server."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.deliver.sinks.sink_writer import SinkBatch, SinkChange
from headrace.types import BIGINT, BOOLEAN, STRING, TIMESTAMP, Type

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
COLUMNS: tuple[tuple[str, Type], ...] = (
    ("page", STRING),
    ("window_start", TIMESTAMP),
    ("window_end", TIMESTAMP),
    ("hits", BIGINT),
    ("settled", BOOLEAN),
)
KEYS = ("page", "window_start")


def row(page: str | None, hits: int = 1, minute: int = 0) -> dict[str, Any]:
    start = START + timedelta(minutes=minute)
    end = start + timedelta(minutes=1)
    return {"page": page, "window_start": start, "window_end": end, "hits": hits, "settled": False}


def upserts(rows: Iterable[dict[str, Any]], commit: int = 1, version: int = 1) -> list[SinkChange]:
    return [SinkChange("upsert", each, version, commit) for each in rows]


def deletes(rows: Iterable[dict[str, Any]], commit: int = 1, version: int = 1) -> list[SinkChange]:
    keys = ({name: each[name] for name in KEYS} for each in rows)
    return [SinkChange("delete", each, version, commit) for each in keys]


def batch(changes: list[SinkChange], cursor: str, **more: Any) -> SinkBatch:
    """The cursor is one of the sink's definition `d`, unless it names another."""
    return SinkBatch("counts", COLUMNS, KEYS, changes, full(cursor), **more)


def full(cursor: str) -> str:
    return cursor if ":" in cursor else f"d:{cursor}"
