"""The services themselves: they keep their port and data over stops and kills."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest

from .running import ANSWER_S, SCRIPT, Kafka, Postgres, Service


def _end(service: Service, how: str) -> None:
    service.stop() if how == "stop" else service.kill()


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_broker_keeps_its_messages(kafka: Kafka, how: str) -> None:
    servers, topic = kafka.bootstrap_servers, kafka.create_topic(partitions=2)
    assert kafka.produce(topic, [{"n": n} for n in range(100)]) == 100
    _end(kafka, how)
    kafka.start()
    assert kafka.bootstrap_servers == servers
    assert len(kafka.messages(topic)) == 100


def test_a_topic_that_exists_is_a_one_line_error(kafka: Kafka) -> None:
    command = [sys.executable, SCRIPT, "topic", kafka.create_topic(), "--folder", kafka.folder]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ANSWER_S)
    assert ended.returncode == 1
    assert re.fullmatch(r"kafka: topic '.*' was not created: .* already exists.\n", ended.stderr), ended.stderr


def test_a_broker_has_transactions(kafka: Kafka) -> None:
    topic = kafka.create_topic()
    producer = kafka.producer(transactional_id="of this test")
    producer.init_transactions(ANSWER_S)
    for value, commits in ((b"kept", True), (b"aborted", False)):
        producer.begin_transaction()
        kafka.produce(topic, [value], producer=producer)
        producer.commit_transaction(ANSWER_S) if commits else producer.abort_transaction(ANSWER_S)
    assert [message.value() for message in kafka.messages(topic)] == [b"kept"]


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_database_keeps_its_rows(postgres: Postgres, how: str) -> None:
    url = postgres.url
    postgres.execute(f"CREATE TABLE kept_{how} AS SELECT 1 AS n")
    _end(postgres, how)
    with pytest.raises(psycopg.OperationalError):
        postgres.connect()
    postgres.start()
    assert postgres.url == url
    assert postgres.rows(f"SELECT n FROM kept_{how}") == [(1,)]


def test_the_lines_that_status_prints_connect(postgres: Postgres) -> None:
    status = [sys.executable, SCRIPT, "status", "postgres", "--folder", postgres.folder]
    printed = subprocess.run(status, capture_output=True, text=True, check=True).stdout
    export, ask = re.findall(r'export PG_URL=.*$|psql "\$PG_URL"$', printed, re.MULTILINE)
    assert postgres.password not in printed
    command = ["bash", "-ec", f"{export}\n{ask} -Atc 'SELECT current_user'"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "headrace\n"
    postgres.stop()
    printed = subprocess.run(status, capture_output=True, text=True, check=True).stdout
    assert ("`make services-up` starts it again" in printed, "psql" in printed) == (True, False)


def test_a_broker_that_fails_is_not_one_that_cannot_be_installed(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_OPTS", "-no-such-option")
    command = [sys.executable, SCRIPT, "up", "kafka", "--folder", tmp_path / "another"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=ANSWER_S)
    assert (ended.returncode, "formatting the data folder failed" in ended.stderr) == (1, True), ended.stderr
