"""The sinks of the example `stock`: reorders in a topic of Kafka, prices to adjust in files."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from headrace.deliver.sinks.kafka_sink import LatestRows
from tests.examples.answers import stock
from tests.server import UpServer
from tests.waiting import wait_until
from tests.warm import Java

from .running import Kafka

EXAMPLE = Path(__file__).parents[2] / "examples" / "stock"
LAST_WEEK = datetime.fromisoformat("2026-03-23T00:00:00Z")  # not settled: no event is after it


@pytest.fixture
def topic(kafka: Kafka) -> str:
    return kafka.create_topic()


@pytest.fixture
def server(kafka: Kafka, topic: str, java: Java, tmp_path: Path) -> Iterator[UpServer]:
    folder = tmp_path / "stock"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("data", "events", "adjustments"))
    sinks = folder / "definitions" / "sinks.sql"
    sinks.write_text(sinks.read_text().replace("topic = 'reorders'", f"topic = '{topic}'"))
    (folder / "headrace.toml").write_text(f'[kafka]\nbootstrap.servers = "{kafka.bootstrap_servers}"\n')
    subprocess.run([sys.executable, "events.py"], cwd=folder, check=True)
    yield java.server(folder).wait_until_ready()
    UpServer.kill_all()


def test_reorders_are_in_kafka_and_prices_in_files(server: UpServer, kafka: Kafka, topic: str) -> None:
    events = server.folder / "events"
    expected = {answer.view: answer.rows for answer in stock(events)}
    for stream, file in (("sales", "sales.ndjson"), ("shipments", "shipments.csv")):
        server.wait_for_token(send(server, stream, events / file))
    wait_until(lambda: reordered(kafka, topic) == set(expected["reorders"]), 120, server.log_tail)
    prices = {
        (item, week, sold, percent) for item, week, sold, percent in expected["demand"] if percent and week < LAST_WEEK
    }
    assert prices
    wait_until(lambda: adjusted(server.folder) == prices, 120, server.log_tail)


def send(server: UpServer, stream: str, file: Path) -> str:
    kind = "text/csv" if file.suffix == ".csv" else "application/x-ndjson"
    reply = server.http.post(
        f"{server.url}/v1/streams/{stream}/events", content=file.read_bytes(), headers={"Content-Type": kind}
    )
    assert reply.json()["refused"] == [], reply.text
    return str(reply.json()["token"])


def reordered(kafka: Kafka, topic: str) -> set[tuple[Any, ...]]:
    """The rows of the topic, as a consumer has them."""
    rows = LatestRows()
    for message in kafka.messages(topic):
        rows.apply(message.key(), message.value(), message.headers())
    return {(row["item"], row["in_stock"], row["order_quantity"]) for row in rows.rows()}


def adjusted(folder: Path) -> set[tuple[Any, ...]]:
    """The latest row of each item and week in the files."""
    rows = {}
    for file in sorted((folder / "adjustments").glob("*.json")):
        for row in map(json.loads, file.read_text().splitlines()):
            week = datetime.fromisoformat(row["window_start"])
            rows[row["item"], week] = None if row["_op"] == "delete" else (row["sold"], row["price_percent"])
    return {(*key, *cells) for key, cells in rows.items() if cells}
