"""A database whose disk is full stalls its sink with a sentence; with room again the sink catches up by itself."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from tests.server import UpServer
from tests.waiting import wait_until

from .feeding import VIEW, event, expected, make_workspace, sink_rows, stream, total
from .running import Kafka, Postgres

EVENTS = 100_000


@pytest.fixture
def small_database(postgres: Postgres) -> Iterator[str]:
    """The URL of a database whose tables are on a file system of 8 MB."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-disk-"))
    command = ["mount", "-t", "tmpfs", "-o", "size=8m,mode=755", "headrace-test", str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        folder.rmdir()
        pytest.skip(f"mounting a file system is not permitted here: {ended.stderr.strip()}")
    folder.chmod(0o755)
    place = folder / "tables"
    place.mkdir()
    shutil.chown(place, (Path(postgres.state["folder"]) / "data").owner())
    url = postgres.create_database()
    name = url.rpartition("/")[2]
    postgres.execute(f"CREATE TABLESPACE small_{name} LOCATION '{place}'")
    postgres.execute(f"ALTER DATABASE {name} SET default_tablespace = 'small_{name}'")
    yield url
    UpServer.kill_all()
    postgres.execute(f"DROP DATABASE {name} WITH (FORCE)")
    postgres.execute(f"DROP TABLESPACE small_{name}")
    subprocess.run(["umount", "-l", str(folder)], check=False)
    folder.rmdir()


def fill(url: str) -> None:
    """Until nothing more fits."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE filler (x TEXT)")
        with suppress(psycopg.errors.DiskFull):
            while True:
                connection.execute("INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, 100)")


def test_a_full_disk_of_the_database(
    kafka: Kafka, postgres: Postgres, small_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = small_database
    fill(url)
    monkeypatch.setenv("PG_URL", url)
    topic = kafka.create_topic()
    kafka.produce(topic, map(event, range(EVENTS)))
    sink = "CREATE SINK s FROM buckets WITH (connector = 'postgres', url = 'secret:PG_URL', table = 'sunk');\n"
    server = UpServer(make_workspace(tmp_path / "workspace", stream(kafka, topic) + VIEW + sink)).wait_until_ready()
    wait_until(lambda: total(server) == EVENTS, details=server.log_tail)

    def sinks() -> str:
        return json.dumps(server.get("/v1/sinks"))

    wait_until(lambda: "No space left" in sinks(), details=sinks)
    assert "Traceback" not in sinks()
    assert postgres.password not in sinks() + server.log.read_text()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE filler")
        connection.execute("CHECKPOINT")  # frees the file at once
    wait_until(lambda: sink_rows(url) == expected(EVENTS), details=sinks)
    wait_until(lambda: "No space left" not in sinks(), details=sinks)
