"""A real broker and a real database for all tests of this folder.

They are started in a scratch folder and removed at the end, unless HEADRACE_SERVICES names a folder in which
`scripts/services up` has started them. Where a service cannot be installed, its tests are skipped, with the reason.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from .running import ANSWER_S, Kafka, Postgres, Service

S = TypeVar("S", bound=Service)


def _given(name: str) -> Path | None:
    """The folder of a service that was set up before the tests."""
    folder = Path(os.environ["HEADRACE_SERVICES"]) if os.environ.get("HEADRACE_SERVICES") else None
    file = folder / "services.json" if folder else None
    return folder if file and file.exists() and name in json.loads(file.read_text()) else None


def _use(kind: type[S]) -> Iterator[S]:
    given = _given(kind.name)
    if given:
        yield kind(given)
        return
    folder = Path(tempfile.mkdtemp(prefix=f"headrace-{kind.name}-"))
    folder.chmod(0o755)  # the database runs as a user of its own
    service = None
    try:
        service = kind(folder)
        yield service
    finally:
        if service:
            service.remove()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def broker() -> Iterator[Kafka]:
    yield from _use(Kafka)


@pytest.fixture(scope="session")
def database() -> Iterator[Postgres]:
    yield from _use(Postgres)


@pytest.fixture(autouse=True)
def _wait_for_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transport of this process goes on without a broker that is slow to answer; its tests compare what that says."""
    monkeypatch.setattr("headrace.transport.kafka.kafka_transport.FIRST_LOOK_S", ANSWER_S)
    monkeypatch.setattr("headrace.transport.kafka.kafka_transport.RECOVERY_S", ANSWER_S)
    monkeypatch.setattr("headrace.transport.kafka.kafka_producer.VISIBLE_S", ANSWER_S)
    monkeypatch.setattr("headrace.transport.kafka.topic_queries.PEEK_TIMEOUT_S", ANSWER_S)


@pytest.fixture
def kafka(broker: Kafka) -> Kafka:
    """The broker, running: a test that stopped it does not stop the next one."""
    broker.start()
    return broker


@pytest.fixture
def postgres(database: Postgres) -> Postgres:
    """The server, running."""
    database.start()
    return database
