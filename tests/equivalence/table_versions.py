"""Tables in plain Python: the rows of every version, also by time, as data frames for batch queries."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from .chains import LOGS

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
END = datetime(2100, 1, 1, tzinfo=UTC)
IDS = ["", "a", "b", "bea", "to", "be", "ä", "A", "x"]
KEYS = {"users": ("id",), "codes": ("code",), "pairs": ("a", "b"), "seen": ("who",), "worn": ("tag",)}
SCHEMAS = {
    "users": "id STRING, plan STRING, least INT",
    "codes": "code DECIMAL(6,1), label STRING",
    "pairs": "a STRING, b BIGINT, grade INT",
    "seen": "who STRING, what STRING, many INT",
    "worn": "tag STRING, wearer BIGINT",
}
Change = tuple[datetime, int, dict[str, Any]]  # its time, its number among all, and the row


def make_change(chance: random.Random, table: str) -> dict[str, Any]:
    """A change of a declared table: late or not, and a deletion now and then."""
    match table:
        case "users":
            key: dict[str, Any] = {"id": chance.choice(IDS)}
            rest: dict[str, Any] = {
                "plan": chance.choice(["free", "pro", "a", None]),
                "least": chance.choice([0, 2, None]),
            }
        case "codes":
            key, rest = {"code": chance.choice([0, 1, 2, 2.5, 5])}, {"label": chance.choice(["a", "b c", None])}
        case _:
            key = {"a": chance.choice(IDS), "b": chance.choice([1, 2, 5])}
            rest = {"grade": chance.choice([1, 2, None])}
    time = {"at": (START + timedelta(seconds=chance.randrange(300))).isoformat()} if table == "users" else {}
    return {**key, **({"_deleted": True} if chance.random() < 0.2 else rest), **time}


def changes_in(table: str, event: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows that an event of its log makes for a table, as its SELECT says."""
    match table:
        case "seen":
            row = {"who": event["who"], "what": event["note"], "many": event["n"], "at": event["ts"]}
            return [] if event["n"] == 8 else [row]
        case "worn":
            return [{"tag": tag, "wearer": event["id"], "at": event["at"]} for tag in event["tags"] or []]
        case _:
            return [event]


class TableVersions:
    """What was sent to each base stream, commit by commit, and the tables that this makes."""

    def __init__(self) -> None:
        self.commits: dict[str, list[list[dict[str, Any]]]] = {}

    def note(self, stream: str, events: list[dict[str, Any]]) -> None:
        """A commit of a stream."""
        self.commits.setdefault(stream, []).append(events)

    def _changes(self, table: str, version: int) -> dict[tuple[Any, ...], list[Change]]:
        """The changes of each key in the commits before a version, the latest last."""
        changes: dict[tuple[Any, ...], list[Change]] = {}
        events = [event for commit in self.commits.get(LOGS[table], [])[:version] for event in commit]
        rows = [row for event in events for row in changes_in(table, event)]
        for number, row in enumerate(rows):
            key = tuple(row[column] for column in KEYS[table])
            time = datetime.fromisoformat(row["at"]) if "at" in row else START
            if None not in key:  # a primary key has no NULL
                changes.setdefault(key, []).append((time, number, row))
        return {key: sorted(own, key=lambda change: change[:2]) for key, own in changes.items()}

    def give(self, session: Any) -> None:
        """Make the tables those of a session: each with `_version`, its history also with the times of a row."""
        for table, schema in SCHEMAS.items():
            rows, history = [], []
            for version in range(len(self.commits.get(LOGS[table], [])) + 1):
                for own in self._changes(table, version).values():
                    ends = [time for time, _, _ in own[1:]] + [END]
                    values = [(version, *_values(row, schema)) for _, _, row in own]
                    rows += values[-1:] if not own[-1][2].get("_deleted") else []
                    history += [
                        (*value, time, end)
                        for value, (time, _, row), end in zip(values, own, ends, strict=True)
                        if not row.get("_deleted")
                    ]
            whole = f"_version BIGINT, {schema}"
            session.createDataFrame(rows, whole).createOrReplaceTempView(table)
            timed = f"{whole}, _from TIMESTAMP, _to TIMESTAMP"
            session.createDataFrame(history, timed).createOrReplaceTempView(f"{table}_history")


def _values(row: dict[str, Any], schema: str) -> list[Any]:
    values = {column.split()[0]: row.get(column.split()[0]) for column in schema.split(", ")}
    return [Decimal(str(value)) if name == "code" else value for name, value in values.items()]
