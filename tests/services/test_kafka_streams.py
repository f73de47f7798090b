"""A real server over a real broker: fields of records, formats, lag, lost ranges and the way on, changed options."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.server import COMMAND, UpServer
from tests.waiting import wait_until

from .running import ANSWER_S, Kafka


@pytest.fixture
def workspace(tmp_path: Path, kafka: Kafka) -> Iterator[Path]:
    (tmp_path / "definitions").mkdir()
    (tmp_path / "headrace.toml").write_text(f'port = 0\n[kafka]\nbootstrap.servers = "{kafka.bootstrap_servers}"\n')
    yield tmp_path
    UpServer.kill_all()


def define(workspace: Path, sql: str) -> None:
    (workspace / "definitions" / "all.sql").write_text(sql)


def headrace(workspace: Path, *arguments: str) -> str:
    ended = subprocess.run(
        [*COMMAND, *arguments], cwd=workspace, capture_output=True, text=True, check=False, timeout=120
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def rows(server: UpServer, view: str) -> list[dict[str, Any]]:
    """The rows of a view without the columns that all have."""
    try:
        reply = server.get(f"/v1/views/{view}")
    except httpx2.HTTPError:  # it is being built
        return []
    hidden = ("settled", "window_start", "window_end")
    return [{name: value for name, value in row.items() if name not in hidden} for row in reply.get("rows", [])]


def test_fields_of_records_and_formats(workspace: Path, kafka: Kafka) -> None:
    topics = {name: kafka.create_topic(partitions=2) for name in ("json", "csv", "text")}
    base = f"""
        CREATE STREAM visits (page STRING, k STRING KEY, trace STRING FROM HEADER 'trace', p INT FROM PARTITION,
            at TIMESTAMP FROM TIMESTAMP, WATERMARK FOR at AS at) WITH (connector = 'kafka', topic = '{topics["json"]}');
        CREATE STREAM orders (id BIGINT, item STRING, price DECIMAL(10,2))
            WITH (KAFKA_TOPIC = '{topics["csv"]}', VALUE_FORMAT = 'DELIMITED');
        CREATE STREAM lines (value STRING) WITH (connector = 'kafka', topic = '{topics["text"]}', format = 'raw');
        CREATE MATERIALIZED VIEW by_key AS SELECT k, trace, p, count(*) AS n FROM visits GROUP BY k, trace, p;
        CREATE MATERIALIZED VIEW sold AS SELECT item, sum(price) AS price FROM orders GROUP BY item;
        CREATE MATERIALIZED VIEW words AS SELECT value, count(*) AS n FROM lines GROUP BY value;
    """
    define(workspace, base)
    values = [{"page": "/a"}] * 3
    kafka.produce(topics["json"], values, key="me", partition=1, headers=[("trace", b"x")])
    kafka.produce(topics["json"], [b"not json"], partition=0)
    kafka.produce(topics["csv"], ['1,"a, b",1.50', "2,c,2", "3,c,0.25", "4,c,none"])
    kafka.produce(topics["text"], ["one", "two", "one"])
    server = UpServer(workspace).wait_until_ready()
    wait_until(lambda: rows(server, "by_key") == [{"k": "me", "trace": "x", "p": 1, "n": 3}])
    sold = [{"item": "a, b", "price": "1.50"}, {"item": "c", "price": "2.25"}]
    wait_until(lambda: rows(server, "sold") == sold, details=lambda: rows(server, "sold"))
    wait_until(lambda: rows(server, "words") == [{"value": "one", "n": 2}, {"value": "two", "n": 1}])
    no_lag = {"events": 0, "partitions": {f"{topics['json']}-0": 0, f"{topics['json']}-1": 0}}

    def visits() -> dict[str, Any]:
        status = server.status_of("visits")
        return {name: status[name] for name in ("events", "dead_letters", "error", "lag")}

    expected = {"events": 3, "dead_letters": 1, "error": None, "lag": no_lag}
    wait_until(lambda: visits() == expected, details=visits)
    wait_until(lambda: server.status_of("orders")["dead_letters"] == 1)
    # What was not declared is in the lake nevertheless: a field that is added later reads it from old events.
    define(workspace, base.replace("p INT FROM PARTITION,", "p INT FROM PARTITION, o BIGINT FROM OFFSET,").replace(
        "count(*) AS n FROM visits", "count(*) AS n, max(o) AS last FROM visits"
    ))  # fmt: skip
    headrace(workspace, "apply", "--yes")
    wait_until(lambda: rows(server, "by_key") == [{"k": "me", "trace": "x", "p": 1, "n": 3, "last": 2}])
    wait_until(lambda: visits()["lag"] == no_lag, details=visits)
    metrics = server.http.get(f"{server.url}/metrics").text
    assert 'headrace_kafka_lag_events{stream="visits"} 0.0' in metrics
    assert f'headrace_kafka_partition_lag_events{{partition="{topics["json"]}-1",stream="visits"}} 0.0' in metrics
    assert "0 events" in headrace(workspace, "streams")
    server.stop()
    parts = headrace(
        workspace, "sql", "--events", "SELECT _key, _partition, _offset, page FROM visits WHERE o = 2", "--json"
    )
    assert json.loads(parts)["rows"] == [{"_key": "me", "_partition": 1, "_offset": 2, "page": "/a"}]


def test_a_message_without_a_value_deletes_the_row_of_its_key(workspace: Path, kafka: Kafka) -> None:
    topics = {name: kafka.create_topic() for name in ("users", "places", "stock")}
    base = f"""
        CREATE TABLE users (id STRING FROM KEY PRIMARY KEY, plan STRING)
            WITH (connector = 'kafka', topic = '{topics["users"]}');
        CREATE TABLE places (id INT PRIMARY KEY, name STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at)
            WITH (connector = 'kafka', topic = '{topics["places"]}');
        CREATE TABLE stock (shop STRING, sku INT, n INT, PRIMARY KEY (shop, sku))
            WITH (connector = 'kafka', topic = '{topics["stock"]}');
        CREATE MATERIALIZED VIEW plans AS SELECT plan, count(*) AS n FROM users GROUP BY plan;
    """
    define(workspace, base)
    for key in ("u1", "u2", "u3"):
        kafka.produce(topics["users"], [{"plan": "pro"}], key=key)
    kafka.produce(topics["users"], [None], key="u2")
    kafka.produce(topics["users"], [{"plan": "free"}, None, {"plan": "free"}], key="u3")  # deleted, and there again
    kafka.produce(topics["users"], [None], key="nobody")
    kafka.produce(topics["users"], [None])
    kafka.produce(topics["places"], [{"id": n, "name": f"p{n}", "at": "2026-01-01T00:00:00Z"} for n in (1, 2)])
    kafka.produce(topics["places"], [None], key="1")
    kafka.produce(topics["places"], [{"id": 1, "name": "late", "at": "2026-01-02T00:00:00Z"}], key="1")
    kafka.produce(topics["stock"], [{"shop": "a", "sku": n, "n": n} for n in (1, 2, 3)])
    kafka.produce(topics["stock"], [None], key='{"shop": "a", "sku": 2}')
    kafka.produce(topics["stock"], [None], key="a-3")
    server = UpServer(workspace).wait_until_ready()
    expected = [{"id": "u1", "plan": "pro"}, {"id": "u3", "plan": "free"}]
    wait_until(lambda: rows(server, "users") == expected)
    wait_until(lambda: rows(server, "plans") == [{"plan": "free", "n": 1}, {"plan": "pro", "n": 1}])
    # The delete is as of the message's timestamp, which is now: a change of an earlier time does not undo it.
    wait_until(lambda: [row["id"] for row in rows(server, "places")] == [2])
    wait_until(lambda: [row["sku"] for row in rows(server, "stock")] == [1, 3])

    def reasons(table: str) -> str:
        return str(server.get(f"/v1/streams/{table}/dead-letters/reasons")["reasons"])

    wait_until(lambda: "it has no key that says which row to delete" in reasons("users"))
    wait_until(lambda: "its key is not a JSON object with shop, sku" in reasons("stock"))
    assert reasons("places") == "[]"


def test_offsets_are_committed_to_a_group_for_monitoring_tools(workspace: Path, kafka: Kafka) -> None:
    topic = kafka.create_topic()
    define(
        workspace,
        f"""CREATE STREAM visits (n INT) WITH (connector = 'kafka', topic = '{topic}', commit.offsets = true,
            properties.group.id = 'monitored-{topic}');""",
    )
    kafka.produce(topic, [{"n": 1}] * 3)
    UpServer(workspace, HEADRACE_UPKEEP_EVERY_S="0.5").wait_until_ready()
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": f"monitored-{topic}"}
    consumer = Consumer(settings)
    try:
        wait_until(lambda: consumer.committed([TopicPartition(topic, 0)], ANSWER_S)[0].offset == 3)
    finally:
        consumer.close()


def test_a_lost_range_stops_the_stream_until_it_is_skipped(workspace: Path, kafka: Kafka) -> None:
    topic = kafka.create_topic()
    define(
        workspace,
        f"CREATE STREAM visits (n INT) WITH (connector = 'kafka', topic = '{topic}');"
        "CREATE MATERIALIZED VIEW total AS SELECT count(*) AS hits, sum(n) AS n FROM visits;",
    )
    kafka.produce(topic, [{"n": 1}] * 5)
    server = UpServer(workspace).wait_until_ready()
    wait_until(lambda: rows(server, "total") == [{"hits": 5, "n": 5}])
    server.stop()
    kafka.produce(topic, [{"n": 100}] * 4)
    kafka.delete_before(topic, 0, 7)  # offsets 5 and 6 are lost before they were read
    server = UpServer(workspace).wait_for_http()
    wait_until(lambda: "headrace skip" in str(server.status_of("visits")["error"]))
    error = server.status_of("visits")["error"]
    assert "no longer has offsets 5 to 6" in error
    assert rows(server, "total") == [{"hits": 5, "n": 5}]
    refused = subprocess.run(
        [*COMMAND, "skip", "visits", "--to", "0:3", "--yes"],
        cwd=workspace, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert refused.returncode == 2
    assert "expected an offset from 7 to 9" in refused.stderr
    skipped = headrace(workspace, "skip", "visits", "--to", "earliest", "--yes")
    assert f"offsets [5, 7) of partition 0 of topic '{topic}'" in skipped
    assert re.search(r"commit \d+ of its log records it", skipped)
    wait_until(lambda: rows(server, "total") == [{"hits": 7, "n": 205}])
    wait_until(lambda: server.status_of("visits")["error"] is None)
    assert "Nothing to skip" in headrace(workspace, "skip", "visits", "--to", "earliest", "--yes")


def test_changed_options_take_effect_without_a_restart(workspace: Path, kafka: Kafka) -> None:
    topic, other = kafka.create_topic(), kafka.create_topic()
    sql = f"""CREATE STREAM visits (n INT) WITH (connector = 'kafka', topic = '{topic}'
              , properties.bootstrap.servers = 'localhost:1', properties.sasl.password = 'hunter2');
              CREATE MATERIALIZED VIEW total AS SELECT count(*) AS hits FROM visits;"""
    define(workspace, sql)
    kafka.produce(topic, [{"n": 1}] * 2)
    kafka.produce(other, [{"n": 1}] * 3)
    server = UpServer(workspace).wait_for_http()
    wait_until(lambda: "localhost:1" in str(server.status_of("visits")["error"]))
    assert "hunter2" not in headrace(workspace, "status", "--json") + headrace(workspace, "streams", "--json")
    right = sql.replace("localhost:1", kafka.bootstrap_servers).replace(f"'{topic}'", f"'{topic};{other}'")
    define(workspace, right)
    plan = headrace(workspace, "apply", "--yes")
    assert "properties.bootstrap.servers: localhost:1" in plan
    assert "hunter2" not in plan
    wait_until(lambda: rows(server, "total") == [{"hits": 5}])
    assert "hunter2" not in server.http.get(f"{server.url}/").text + server.log.read_text()
