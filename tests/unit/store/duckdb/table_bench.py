"""A store with a table and views over it, fed in memory, and the same in plain Python."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from headrace.define.catalog import Catalog, parse
from headrace.define.fingerprint import fingerprint
from headrace.define.model import Stream, View
from headrace.maintain.lift import lift_view
from headrace.maintain.table_view_audits import TableAudits
from headrace.serve.evaluate import answer
from headrace.serve.freshness import up_to_date
from headrace.serve.question import Question
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.store_contract import Audit, Step, Store
from headrace.store.version import START, Version
from headrace.transport.position import Position
from headrace.types import arrow_type

DEFINITIONS = """
CREATE TABLE people (id INT PRIMARY KEY, place STRING, age INT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
CREATE MATERIALIZED VIEW headcount AS SELECT place, count(*) AS people, sum(age) AS ages, max(age) AS oldest
  FROM people GROUP BY place;
CREATE MATERIALIZED VIEW adults AS SELECT upper(place) AS place, count(DISTINCT age) AS ages, last(id) AS newest
  FROM people WHERE age >= 18 GROUP BY 1;
CREATE MATERIALIZED VIEW arrivals AS SELECT count(*) AS people FROM people GROUP BY window(at, '10 seconds');
"""
NUMBERS = """
CREATE TABLE people (id INT PRIMARY KEY, place STRING, age INT, at TIMESTAMP NOT NULL, pay DECIMAL(28,2),
  wide DECIMAL(38,0), weight DOUBLE, WATERMARK FOR at AS at);
CREATE MATERIALIZED VIEW totals AS SELECT place, count(*) AS people, count(*) FILTER (WHERE age > 20) AS adults,
  count_if(age < 20) AS young, sum(age) AS ages, avg(age) AS mean, sum(pay) AS pay,
  histogram(weight, array(0, 2)) AS ranges
  FROM people WHERE weight IS NULL OR weight < 1e6 GROUP BY place HAVING count(*) > 1;
CREATE MATERIALIZED VIEW extremes AS SELECT place, count(*) AS people, max(weight) AS heaviest, min(weight) AS lightest,
  bool_or(weight > 1) AS heavy, max_by(id, weight) AS who, sum(weight) AS weights FROM people GROUP BY place;
CREATE MATERIALIZED VIEW wides AS SELECT sum(wide) AS wide, stddev(age) AS spread FROM people;
"""
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 6, 1, tzinfo=UTC)
Row = dict[str, Any]


class Table:
    """A store with a table and views over it, and the same in plain Python."""

    def __init__(self, folder: Path, text: str = DEFINITIONS, name: str = "people") -> None:
        self.name = name
        self.path = folder / "store.duckdb"
        self.fence = 1
        self.store: Store = DuckStore.open(self.path, self.fence)
        self.catalog = parse(text)
        self.commits = 0
        self.positions = 0
        self.latest: dict[int, tuple[tuple[datetime, int], Row]] = {}
        self.apply_catalog(self.catalog)

    def apply_catalog(self, catalog: Catalog) -> None:
        self.catalog = catalog
        with self.store.snapshot() as snapshot:
            known = {version.fingerprint for version in snapshot.versions() if version.live}
        for view in catalog.views.values():
            if fingerprint(view) in known:
                continue
            patience_ms = catalog.patience_ms(view) or {self.name: 0}
            self.store.register(view, fingerprint(view), patience_ms, {self.name: START})

    def reopen(self) -> None:
        self.store.close()
        self.fence += 1
        self.store = DuckStore.open(self.path, self.fence)

    def send(self, rows: list[Row]) -> None:
        events = [{**row, "_position": self.positions + at} for at, row in enumerate(rows)]
        self.positions += len(rows)
        for event in events:
            order = (event["at"], event["_position"])
            if event["id"] not in self.latest or self.latest[event["id"]][0] < order:
                self.latest[event["id"]] = order, event
        with self.store.snapshot() as snapshot:
            tables = [version for version in snapshot.versions() if version.view.name == self.name and version.moves]
        stream = self.catalog.streams[self.name]
        partials = {version.id: [lifted(stream, version.view, events)] for version in tables}
        newest = max((event["at"] for event in events), default=EPOCH)
        newest_us = (newest - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        step = Step(self.name, self.commits, self.commits + 1, Position((self.positions,)), newest_us, 0)
        self.commits += 1
        self.store.apply(step, partials)

    def present(self) -> list[Row]:
        return [row for _, row in self.latest.values() if not row["_deleted"]]

    def ask(self, view: str) -> list[Row]:
        rows = answer(self.store, Question(view), up_to_date, NOW).rows()
        hidden = {"window_end", "settled", *([] if view == "arrivals" else ["window_start"])}
        return [{name: value for name, value in row.items() if name not in hidden} for row in rows]


def lifted(stream: Stream, view: View, events: list[Row]) -> pa.Table:
    schema = pa.schema([(field.name, arrow_type(field.type)) for field in stream.fields] + [("_position", pa.int64())])
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("events", pa.Table.from_pylist(events, schema))
        return connection.sql(lift_view(stream, view, 1, 0, None).sql).to_arrow_table()


def numbered(chance: random.Random) -> Row:
    return {
        "id": chance.randrange(6),
        "place": chance.choice(["Rome", "Oslo", None]),
        "age": chance.choice([None, *range(15, 25)]),
        "at": EPOCH + timedelta(seconds=chance.randrange(10)),
        "pay": chance.choice([None, Decimal("0.01"), Decimal("-7.50"), Decimal(10**25)]),
        "wide": chance.choice([None, Decimal(1), Decimal(10**38 - 1), Decimal(1 - 10**38)]),
        "weight": chance.choice([None, math.nan, -0.0, 0.0, 0.1, 2.5, 1e300, -1e300, math.inf]),
        "_deleted": chance.random() < 0.2,
    }


def serving(table: Table, view: str) -> Version:
    with table.store.snapshot() as snapshot:
        version = snapshot.serving(view)
    assert version is not None
    return version


def audit(table: Table, view: str, folder: Path) -> Audit:
    return TableAudits(table.store, lambda: 1e9).run(serving(table, view), folder / "audit", lambda: False)
