"""The law for derived streams and joins: a view over a chain = the same SQL, run once by Spark over all events.

Random chains of filters, projections, explodes and unions over two base streams; random splits into commits, late
events, restarts, beats and builds at any horizon, in either lane. Columns that depend on the order of events are
compared between the lanes and layers, and with a build over all of the log.

With joins, five tables change meanwhile: some changes are late, some delete rows, and two tables are made of the base
streams themselves. Spark's query joins each event to the rows of the versions that its commit recorded.

HEADRACE_CHAINS and HEADRACE_JOINS set how many worlds are tried.
"""

from __future__ import annotations

import json
import os
import random
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the usual name

from headrace.define.catalog import Catalog, parse
from headrace.define.fingerprint import fingerprint
from headrace.define.model import Stream, View
from headrace.engine.duckdb_relations import refuse_duckdb
from headrace.lake.delta_table import LakeTable
from headrace.lake.table_schema import no_pins
from headrace.maintain.spark_joins import TableLogs
from headrace.serve.explanation import CellQuestion
from headrace.serve.freshness import up_to_date
from headrace.serve.past.past_questions import LakeQuestions
from headrace.serve.question import Question
from headrace.server.reconcile import pin_tables, point_of
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.version import Pinned, Version

from .bench import Bench
from .chains import BASES, LOGS, TABLES, Chains, ChainView, make_view
from .table_versions import START, TableVersions, make_change

WORLDS = int(os.environ.get("HEADRACE_CHAINS", "2"))
JOINED = [int(seed) for seed in os.environ.get("HEADRACE_JOINS", "22 42").split()]
VIEWS = 6
DECLARED = ("users", "codes", "pairs")  # tables that changes are sent to
NOTES = [None, "", "a", "to be or not", "A  b a", "Ab\tc", "ä ß"]


class World:
    """Two base streams with one store, and views over streams that are derived from them, and joined to tables."""

    def __init__(
        self, spark: Any, folder: Path, seed: int, *, fused: bool, joins: bool = False, definitions: str | None = None
    ) -> None:
        self.spark, self.folder, self.fused = spark, folder, fused
        chance = random.Random(seed)
        self.chains = Chains(chance, joins)
        for _ in range(7 if definitions is None else 0):
            self.chains.add()
        while joins and len(self.chains.joined) < 7:
            self.chains.add()
        self.versions = TableVersions()
        self.views = [make_view(chance, self.chains, f"v{at}") for at in range(VIEWS)] if definitions is None else []
        every = definitions or "\n".join(view.sql for view in self.views)
        self.catalog: Catalog = parse(f"{self.chains.definitions()}\n{every}")
        self.posts = 0
        folder.mkdir()
        self.open()
        for name in self.catalog.views.keys() - self.catalog.tables.keys():
            view = self.catalog.views[name]
            self.store.register(view, fingerprint(view), self.catalog.patience_ms(view))

    def open(self) -> None:
        self.store = DuckStore.open(self.folder / "views.duckdb", 1)
        definitions = {name: f"CREATE STREAM {name} ({fields})" for name, fields in BASES.items()}
        if self.chains.joins:
            definitions |= {name: f"CREATE TABLE {name} {TABLES[name]}" for name in DECLARED}
        self.benches: dict[str, Bench] = {}
        for name, sql in definitions.items():
            self.benches[name] = Bench(
                self.spark,
                self.folder / name,
                sql,
                store=self.store,
                fused=self.fused,
                end_of=self.end_of,
                logs=TableLogs(self.find),
                pins=self.pins if self.chains.joins else no_pins,
            )
        if self.fused:
            self.prepare()

    def find(self, stream: str) -> tuple[Stream, LakeTable]:
        return self.benches[stream].stream, self.benches[stream].table

    def pins(self) -> dict[str, int]:
        return {name: bench.table.state.next_commit for name, bench in self.benches.items()}

    def prepare(self) -> None:
        """Make snapshots of the tables as they are now, for the fused lane."""
        for view in self.views:
            relation = self.catalog.views[view.name].relation  # None if the view needs nothing of the chain
            for branch in relation.branches if relation else ():
                for join in branch.joins:
                    self.benches[branch.stream].states.make(join)

    def close(self) -> None:
        for bench in self.benches.values():
            bench.speed.close()
            bench.journal.close()
        self.store.close()

    def end_of(self, stream: str) -> int:
        return self.benches[stream].table.state.next_commit

    def commit(self, chance: random.Random) -> None:
        name = chance.choice(list(BASES))
        self.send(name, [make_event(chance, name) for _ in range(chance.randint(1, 25))])

    def change(self, chance: random.Random) -> None:
        """A commit of a table."""
        name = chance.choice(DECLARED)
        self.send(name, [make_change(chance, name) for _ in range(chance.randint(1, 8))])

    def send(self, name: str, events: list[dict[str, Any]]) -> None:
        self.posts += 1
        self.versions.note(name, events)
        self.benches[name].post([json.dumps(event).encode() for event in events], str(self.posts), keep_bad=False)
        self.benches[name].commit()

    def rebuild(self, view: View, tables: str = "") -> None:
        """A new version; `tables` is `now` or `recorded` as in `headrace refresh --full --tables`."""
        at = {name: point_of(self.benches[name].table.state) for name in view.streams}
        with self.store.snapshot() as snapshot:
            pinned = pin_tables(view, snapshot.versions(), self.pins())
        if tables:
            until = {name: point.commit for name, point in at.items()} if tables == "now" else {}
            pinned = Pinned(tuple(self.pins().items()), tuple(until.items()))
        self.store.register(view, fingerprint(view), self.catalog.patience_ms(view), at, pinned)

    def work(self) -> None:
        for _ in range(4):  # a build of one stream may wait for that of the other
            for bench in self.benches.values():
                bench.maintain()
                bench.work()

    def serving(self, view: str) -> Version:
        with self.store.snapshot() as snapshot:
            version = snapshot.serving(view)
        assert version is not None
        return version

    def rows(self, view: ChainView) -> dict[Any, dict[str, Any]]:
        bench = next(iter(self.benches.values()))
        rows = bench.ask(view.name, random.Random(0), start=None)
        return {(row["window_start"], *(row[key] for key in view.keys)): row for row in rows}

    def expected(self, view: ChainView) -> dict[Any, dict[str, Any]]:
        """The rows of the same SQL over the events that the version of the view has."""
        version = self.serving(view.name)
        session = self.spark.newSession()
        if self.chains.joins:
            self.versions.give(session)
        for name in BASES:
            bench = self.benches[name]
            frame = session.read.parquet(*self._files(bench)) if self._files(bench) else None
            if frame is None:
                types = BASES[name].split(", WATERMARK")[0].replace(" NOT NULL", "")
                frame = session.createDataFrame([], f"{types}, _commit BIGINT, _tables MAP<STRING, BIGINT>")
            frame = frame.where(f"_commit < {version.commits.get(name, 0)}").withColumn(
                "pins", self._pins_of(version, name)
            )
            frame.drop(*_ours(frame.columns)).createOrReplaceTempView(name)
        for name, query in self.chains.spark_queries.items():
            session.sql(query).createOrReplaceTempView(name)
        rows = session.sql(view.spark_sql).toArrow().to_pylist()
        return {(row["window_start"].astimezone(UTC), *(row[key] for key in view.keys)): row for row in rows}

    def _pins_of(self, version: Version, stream: str) -> Column:
        """The versions that events are joined to: those that their commits recorded, or those of the version."""
        until, now = dict(version.pinned.until).get(stream, 0), dict(version.pinned.versions)
        pins = [
            F.expr(f"CASE WHEN _commit < {until} THEN {now.get(log, 0)} ELSE _tables['{log}'] END").alias(log)
            for log in LOGS.values()
        ]
        return F.struct(*pins)

    def _files(self, bench: Bench) -> list[str]:
        return [str(path) for path in sorted(bench.table.folder.glob("_dead=false/*.parquet"))]

    def check(self, view: ChainView) -> None:
        rows, targets = self.rows(view), self.expected(view)
        context = (view.sql, self.chains.queries, self.serving(view.name).commits)
        assert rows.keys() == targets.keys(), context
        names = [column.rsplit(" AS ", 1)[1] for column in view.exact]
        for key, target in targets.items():
            assert {name: rows[key][name] for name in names} == {name: target[name] for name in names}, (key, context)


def _ours(columns: list[str]) -> list[str]:
    return [name for name in columns if name.startswith("_")]


def make_event(chance: random.Random, stream: str) -> dict[str, Any]:
    at = (START + timedelta(seconds=chance.randrange(300))).isoformat()
    note, n = chance.choice(NOTES), chance.choice([None, 0, 1, 2, 5, 8])
    if stream == "calls":
        return {"who": chance.choice([None, "a", "bea"]), "n": n, "note": note, "ts": at}
    items = [{"sku": chance.choice(["x", None]), "qty": chance.choice([1, None])} for _ in range(chance.randrange(3))]
    labels = {key: chance.choice([1, None]) for key in chance.sample("klm", chance.randrange(3))}
    return {
        "id": chance.randrange(9),
        "note": note,
        "n": n,
        "tags": chance.choice([None, [], ["a"], ["a", None, "b"]]),
        "items": chance.choice([None, items]),
        "labels": chance.choice([None, labels]),
        "at": at,
    }


@pytest.mark.parametrize("seed", range(WORLDS))
def test_a_view_over_a_chain_is_the_same_sql_over_all_events(spark: Any, tmp_path: Path, seed: int) -> None:
    moves = {"commit": 9, "step": 4, "beat": 3, "rebuild": 2, "restart": 1}
    try_worlds(spark, tmp_path, seed, [*moves], [*moves.values()], random.Random(f"chains {seed}"), 10)


@pytest.mark.parametrize("seed", JOINED)
def test_a_view_over_joins_is_the_same_sql_with_tables_pinned(spark: Any, tmp_path: Path, seed: int) -> None:
    moves = {"change": 6, "commit": 8, "step": 3, "beat": 2, "rebuild": 2, "restart": 1, "prepare": 1}
    try_worlds(spark, tmp_path, seed, [*moves], [*moves.values()], random.Random(f"joins {seed}"), 16, joins=True)


def try_worlds(
    spark: Any,
    tmp_path: Path,
    seed: int,
    moves: list[str],
    weights: list[int],
    chance: random.Random,
    count: int,
    *,
    joins: bool = False,
) -> None:
    """Moves of two equal worlds, one with the fused lane and one without; views are compared at any time."""
    worlds = [World(spark, tmp_path / str(lane), seed, fused=lane, joins=joins) for lane in (True, False)]
    try:
        for _ in range(count):
            move, at = chance.choices(moves, weights)[0], chance.random()
            for world in worlds:
                own = random.Random(at)
                view = own.choice(world.views)
                match move:
                    case "commit":
                        world.commit(own)
                    case "step":
                        world.benches[own.choice(list(BASES))].maintain()
                    case "beat":
                        world.benches[own.choice(world.catalog.views[view.name].streams)].beat(view.name)
                    case "change":
                        world.change(own)
                    case "prepare":
                        world.prepare()
                    case "rebuild":
                        tables = own.choice(["", "now", "recorded"]) if joins else ""
                        world.rebuild(world.catalog.views[view.name], tables)
                    case "restart":
                        world.close()
                        world.open()
            world = chance.choice(worlds)
            if not joins or chance.random() < 0.4:
                world.check(chance.choice(world.views))
        for world in worlds:
            world.work()
            assert not [v.alarm for v in (world.serving(view.name) for view in world.views) if v.alarm or v.stalled]
        for view in worlds[0].views:
            worlds[0].check(view)
            speed = [world.rows(view) for world in worlds]
            assert _without_layers(speed[0]) == _without_layers(speed[1]), (view.sql, worlds[0].chains.queries)
            worlds[1].rebuild(worlds[1].catalog.views[view.name])
        worlds[1].work()
        for view in worlds[0].views:
            built = worlds[1].rows(view)
            assert _without_layers(worlds[0].rows(view)) == _without_layers(built), (view.sql, worlds[0].chains.queries)
        failures = [failure.reason for bench in worlds[0].benches.values() for failure in bench.fused.failures.values()]
        assert not [reason for reason in failures if "special letters" not in reason], failures
    finally:
        for world in worlds:
            world.close()


def _without_layers(rows: dict[Any, dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    return {key: {name: value for name, value in row.items() if name != "corrections"} for key, row in rows.items()}


def test_most_chains_are_computed_by_the_fused_lane() -> None:
    faces = 0
    for seed in range(20):
        chance = random.Random(seed)
        chains = Chains(chance)
        for _ in range(7):
            chains.add()
        views = [make_view(chance, chains, f"v{at}") for at in range(VIEWS)]
        catalog = parse("\n".join([chains.definitions(), *(view.sql for view in views)]))
        for view in catalog.views.values():
            faces += all(refuse_duckdb(catalog.streams[name], view) is None for name in view.streams)
    assert faces > 20 * VIEWS * 0.9


WORDS = """CREATE STREAM words AS SELECT id, pos, word, at FROM visits LATERAL VIEW posexplode(split(note, ' ')) x AS pos, word;
CREATE STREAM spoken AS SELECT word, at FROM words UNION ALL SELECT note, ts FROM calls;
CREATE MATERIALIZED VIEW counts AS SELECT word, count(*) AS n, first(word) AS f FROM spoken GROUP BY word;
CREATE MATERIALIZED VIEW lines AS SELECT id, count(*) AS n, first(word) AS head, last(word, 2) AS tail,
 collect_list(word) AS words, max_by(word, pos) AS furthest, min_by(word, 1) AS same FROM words GROUP BY id;"""  # noqa: E501


@pytest.fixture
def spoken(spark: Any, tmp_path: Path) -> Any:
    """Words of visits and calls, in the fused lane."""
    world = World(spark, tmp_path / "world", 0, fused=True, definitions=WORDS)
    for stream, events in (
        ("visits", [{"id": 1, "note": "to be or not to be", "at": START.isoformat()}]),
        ("calls", [{"note": "be", "ts": START.isoformat()}]),
        (
            "visits",
            [{"id": 1, "note": "that is", "at": START.isoformat()}, {"id": 2, "note": "be", "at": START.isoformat()}],
        ),
    ):
        world.posts += 1
        world.benches[stream].post([json.dumps(event).encode() for event in events], str(world.posts), keep_bad=False)
        world.benches[stream].commit()
        world.benches[stream].fused.run_once()
    yield world
    world.close()


def test_rows_of_one_event_are_in_their_order(spoken: World) -> None:
    """In the fused lane, and after a beat that computes them by Spark."""
    bench = spoken.benches["visits"]
    rows = bench.answer("lines").rows()
    words = ["to", "be", "or", "not", "to", "be", "that", "is"]
    assert [row["words"] for row in rows] == [words, ["be"]]
    first = rows[0]
    assert (first["n"], first["head"], first["tail"]) == (8, "to", ["is", "that"])
    assert (first["furthest"], first["same"]) == ("be", "to")
    bench.beat("lines")
    assert spoken.serving("lines").base("visits").horizon == 2
    assert [dict(row) for row in bench.answer("lines").rows()] == [dict(row) for row in rows]


def test_the_events_behind_a_cell_and_the_past(spoken: World, spark: Any, tmp_path: Path) -> None:
    lakes = {name: (bench.stream, bench.table) for name, bench in spoken.benches.items()}
    questions = LakeQuestions(spoken.store, lakes.__getitem__, lambda: spark, up_to_date, tmp_path / "past")
    page = questions.explain(CellQuestion.of("counts", {"word": "be"}))
    assert (page.found, page.agrees, page.next_cursor) == (4, True, None)
    assert [(event.stream, event.commit) for event in page.events] == [("visits", 0)] * 2 + [
        ("visits", 1),
        ("calls", 0),
    ]
    assert json.loads(page.events[0].value)["note"] == "to be or not to be", "the event that the row was made of"
    assert [event.arguments["f"] for event in page.events] == ["be"] * 4
    pages, cursor = [], None
    while cursor is not None or not pages:
        pages.append(questions.explain(CellQuestion.of("counts", {"word": "be"}, limit=1, cursor=cursor)))
        cursor = pages[-1].next_cursor
    assert [len(page.events) for page in pages if page.events] == [2, 1, 1], "the rows of one event are not parted"
    past = questions.ask(Question.of("lines", version_as_of=1)).rows()
    assert [(row["id"], row["n"]) for row in past] == [(1, 6)]
    questions.close()
