"""An expected answer, and what its computation in plain Python needs."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Event = dict[str, Any]
Cells = tuple[Any, ...]


@dataclass(frozen=True)
class Answer:
    """All rows of a question, as the values of some columns."""

    view: str
    columns: tuple[str, ...]
    rows: list[Cells]
    question: dict[str, Any] = field(default_factory=dict)
    in_order: bool = False
    tolerance: float = 0.0  # of columns in which floats are expected


def read(path: Path) -> list[Event]:
    """The events of a file of NDJSON or CSV, their times as such."""
    if path.suffix == ".csv":
        with path.open() as file:
            events: list[Event] = list(csv.DictReader(file))
    else:
        events = [json.loads(line) for line in path.read_text().splitlines()]
    return [{**event, "at": datetime.fromisoformat(event["at"])} if "at" in event else event for event in events]


def floor(at: datetime, minutes: int) -> datetime:
    """The begin of the window of a time."""
    return datetime.fromtimestamp(at.timestamp() // (60 * minutes) * 60 * minutes, UTC)


def grouped(events: Iterable[Event], key: Callable[[Event], Cells]) -> dict[Cells, list[Event]]:
    groups: dict[Cells, list[Event]] = defaultdict(list)
    for event in events:
        groups[key(event)].append(event)
    return groups
