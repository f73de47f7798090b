"""A store with views over the same six events, for tests of what shapes answers."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headrace.define.catalog import parse
from headrace.serve.answer import Answer
from headrace.serve.evaluate import answer
from headrace.serve.freshness import up_to_date
from headrace.serve.question import Question
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.store_contract import Step
from headrace.transport.position import Position
from tests.unit.store.partial_files import simple_event, write_partials

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = 60_000
STREAM = """CREATE STREAM events (k0 STRING, i INT, b BIGINT, x DOUBLE, d DECIMAL(10,2), at TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 0 SECONDS);"""
SELECT = (
    "SELECT k0, count(*) AS n, sum(b) AS b, sum(d) / count(*) AS mean FROM events GROUP BY k0, window(at, '1 minute')"
)


class Views:
    """A store with views over the same events."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = DuckStore.open(folder / "store", fence=1)

    def add(self, select: str = SELECT, name: str = "v", *, unit: int = 1) -> None:
        view = parse(f"{STREAM} CREATE MATERIALIZED VIEW {name} AS {select};").views[name]
        self.store.register(view, name + select, {"events": 0})
        events = [
            simple_event(key, at * MINUTE, n * unit)
            for key, at, n in [("a", 0, 3), ("a", 0, 4), ("b", 0, 5), ("c", 1, 1), ("a", 1, 9), (None, 1, 2)]
        ]
        file = write_partials(self.folder / f"{name}.parquet", view, events)
        with self.store.snapshot() as snapshot:
            (version,) = (each for each in snapshot.versions() if each.view.name == name)
        self.store.apply(Step("events", 0, 1, Position.at(9), 2 * MINUTE * 1000, 0), {version.id: [file]})

    def ask(self, name: str = "v", **question: Any) -> Answer:
        return answer(self.store, Question.of(name, **question), up_to_date, NOW)

    def rows(self, *columns: str, **question: Any) -> list[tuple[Any, ...]]:
        return [tuple(row[column] for column in columns) for row in self.ask(**question).rows()]
