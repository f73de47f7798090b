"""Sinks of views and streams with a real PostgreSQL and a real Kafka, over kills of the servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.rows import dict_row

from headrace.deliver.sinks.kafka_sink import LatestRows
from headrace.engine.duckdb_terms import duckdb_name
from headrace.language.source_text import escape
from headrace.language.terms import quote
from tests.names import candidates
from tests.services.running import Kafka, Postgres
from tests.unit.deliver.sinks.sink_bench import Bench, read_files


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.stop()


def read(url: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return sorted(connection.execute(query.encode()).fetchall())


def kafka_rows(kafka: Kafka, topic: str) -> dict[str, int]:
    """What a consumer has who drops repeats."""
    latest = LatestRows()
    for message in kafka.messages(topic):
        latest.apply(message.key(), message.value(), message.headers())
    return {row["k0"]: row["n"] for row in latest.rows()}


def test_postgres_has_the_rows_of_a_view_over_kills(
    bench: Bench, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.create_database()
    monkeypatch.setenv("PG_URL", url)
    sink = "CREATE SINK k FROM total WITH (connector = 'postgres', url = 'secret:PG_URL', table = 'totals');"
    bench.commit(("a", 0), ("b", 0))
    bench.run(sink)
    bench.wait_sent()
    assert read(url, "SELECT k0, n FROM totals") == [("a", 1), ("b", 1)]
    postgres.kill()
    bench.commit(("a", 0), ("c", 0))
    reason = bench.wait_stalled()
    assert postgres.password not in reason
    postgres.start()
    bench.sinks.retry("k")
    bench.wait_sent()
    assert read(url, "SELECT k0, n FROM totals") == [("a", 2), ("b", 1), ("c", 1)]
    bench.run(sink.replace("FROM total", "FROM total WHERE n > 1"))
    bench.wait_sent()
    assert read(url, "SELECT k0, n FROM totals") == [("a", 2)]


def test_postgres_has_each_event_once(bench: Bench, postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    url = postgres.create_database()
    monkeypatch.setenv("PG_URL", url)
    fault = bench.folder / "fault"
    monkeypatch.setenv("HEADRACE_FAULT", f"@{fault}")
    bench.run("CREATE SINK k FROM s WITH (connector = 'postgres', url = 'secret:PG_URL', table = 'e', batch.rows = 3);")
    for point in ("sink.before_commit", "sink.after_commit", "sink.before_progress"):
        fault.write_text(f"{point}=EIO")
        bench.append(5)
        bench.wait_stalled()
        fault.unlink()
        bench.sinks.retry("k")
        bench.wait_sent()
    assert [row[0] for row in read(url, "SELECT _position FROM e")] == list(range(15))


@pytest.mark.parametrize("guarantee", ["at-least-once", "exactly-once"])
def test_a_consumer_of_kafka_ends_with_the_rows_of_the_view(
    bench: Bench, kafka: Kafka, guarantee: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka.create_topic(cleanup_policy="compact")
    fault = bench.folder / "fault"
    monkeypatch.setenv("HEADRACE_FAULT", f"@{fault}")
    bench.run(
        f"CREATE SINK k FROM total WITH (connector = 'kafka', topic = '{topic}', delivery.guarantee = '{guarantee}', "
        f"properties.bootstrap.servers = '{kafka.bootstrap_servers}') FORMAT UPSERT ENCODE JSON;"
    )
    expected: dict[str, int] = {}
    for turn, point in enumerate(("sink.before_commit", "sink.after_commit", "sink.before_progress")):
        fault.write_text(f"{point}=EIO")
        keys = ["a", f"k{turn}", "b" if turn % 2 else "a"]
        for key in keys:
            expected[key] = expected.get(key, 0) + 1
        bench.commit(*((key, 0) for key in keys))
        bench.wait_stalled()
        fault.unlink()
        bench.sinks.retry("k")
        bench.wait_sent()
    assert kafka_rows(kafka, topic) == expected


@pytest.mark.parametrize("on_close", [False, True])
def test_a_row_that_changes_and_settles_in_one_commit_is_one_message(
    bench: Bench, kafka: Kafka, on_close: bool
) -> None:
    topic = kafka.create_topic()
    bench.run(
        f"CREATE SINK k FROM v WITH (connector = 'kafka', topic = '{topic}', "
        f"properties.bootstrap.servers = '{kafka.bootstrap_servers}') FORMAT UPSERT ENCODE JSON"
        f"{' EMIT ON WINDOW CLOSE' if on_close else ''};"
    )
    for commit in ([("a", 0)], [("a", 0), ("b", 0), ("b", 1)], [("b", 1), ("c", 2), ("c", 3)], [("d", 9)]):
        bench.commit(*commit)
        bench.wait_sent()
    rows = map(value_of, kafka.messages(topic))
    sent = [(row["k0"], row["window_start"][14:16], row["n"], row["settled"]) for row in rows]
    settled = [("a", "00", 2), ("b", "00", 1), ("b", "01", 2), ("c", "02", 1), ("c", "03", 1)]
    changed = [] if on_close else [("a", "00", 1), ("b", "01", 1), ("c", "03", 1), ("d", "09", 1)]
    assert sorted(sent) == sorted([*((*row, True) for row in settled), *((*row, False) for row in changed)])


def value_of(message: Any) -> dict[str, Any]:
    return dict(json.loads(message.value()))


def test_names_of_any_characters(
    tmp_path: Path, kafka: Kafka, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of a view, its key, its columns, its sinks and their table: each destination has the rows by these."""
    url, topic = postgres.create_database(), kafka.create_topic()
    monkeypatch.setenv("PG_URL", url)
    key, *columns = (name for name in candidates() if name != "ctid")  # a system column of every table
    view, table = "per page. \"q\" é 日 'x'", 'tables "of" . us\\ers; --'
    selected = ", ".join(f"count(*) AS {quote(name)}" for name in columns)
    base = (
        "CREATE STREAM s (id BIGINT, at TIMESTAMP); CREATE STREAM events (k0 STRING, at TIMESTAMP);"
        f"CREATE MATERIALIZED VIEW {quote(view)} AS SELECT k0 AS {quote(key)}, {selected} FROM events GROUP BY k0;"
    )
    options = {
        "a b": "connector = 'files', path = 'a', format = 'parquet'",
        "c/d": "connector = 'files', path = 'c', format = 'json'",
        "é": f"connector = 'kafka', topic = '{topic}', properties.bootstrap.servers = '{kafka.bootstrap_servers}'",
        '"': f"connector = 'postgres', url = 'secret:PG_URL', table = {escape(duckdb_name(table))}",
    }
    bench = Bench(tmp_path, base)
    try:
        bench.run("".join(f"CREATE SINK {quote(name)} FROM {quote(view)} WITH ({of});" for name, of in options.items()))
        bench.commit(("x", 0), ("x", 0), ("y", 0))
        for name in options:
            bench.wait_sent(name)
    finally:
        bench.stop()
    with psycopg.connect(url, row_factory=dict_row) as connection:
        in_table = connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(table))).fetchall()
    got = {
        "parquet": read_files(tmp_path / "a"), "json": read_files(tmp_path / "c"), "postgres": in_table,
        "kafka": [value_of(message) for message in kafka.messages(topic)],
    }  # fmt: skip
    for where, rows in got.items():
        found = {row[key]: {name: row[name] for name in columns} for row in rows}
        assert found == {"x": dict.fromkeys(columns, 2), "y": dict.fromkeys(columns, 1)}, where


def test_a_missing_topic_stalls_the_sink_until_it_is_there(bench: Bench, kafka: Kafka) -> None:
    topic = f"missing-{bench.folder.name}"
    bench.run(
        f"CREATE SINK k FROM total WITH (connector = 'kafka', topic = '{topic}', "
        f"properties.bootstrap.servers = '{kafka.bootstrap_servers}');"
    )
    bench.commit(("a", 0))
    assert topic in bench.wait_stalled()
    kafka.create_topic(topic)
    bench.sinks.retry("k")
    bench.wait_sent()
    assert kafka_rows(kafka, topic) == {"a": 1}
