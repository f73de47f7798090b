"""The statements of the guide to BI, asked with psql over a table that a sink has written."""

from __future__ import annotations

import os
import re
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from headrace.define.catalog import parse
from headrace.define.outgoing_rules import row_keys, row_types
from headrace.deliver.sinks.postgres_sink import PostgresWriter
from headrace.deliver.sinks.sink_writer import SinkBatch, SinkChange

from .running import Postgres

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "bi.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


def test_every_statement_of_the_guide(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PG_URL", postgres.create_database())
    catalog = parse("".join(blocks("sql")))
    view, sink = catalog.views["traffic"], catalog.sinks["traffic_table"]
    start = datetime(2026, 3, 1, 12, tzinfo=UTC)
    rows = [
        {
            "page": page, "window_start": start + timedelta(minutes=n), "window_end": start + timedelta(minutes=n + 1),
            "hits": 10 * n + 1, "errors": n % 3, "bytes": 1000, "visitors": 5, "settled": n < 100,
        }
        for n in range(120)
        for page in ("/home", "/cart", None)
    ]  # fmt: skip
    changes = [SinkChange("upsert", row, 1, 1) for row in rows]
    writer = PostgresWriter(sink, "shop")
    writer.resume()
    columns = tuple(row_types(view).items())
    writer.write(SinkBatch(sink.name, columns, row_keys(view), changes, "d:1:c", snapshot=True))
    writer.close()
    postgres.execute("DROP ROLE IF EXISTS dashboards")
    answers = [psql(statement) for statement in blocks("postgresql")]
    assert len(answers) == 5
    assert answers[1].splitlines()[0] == "2026-03-01 13:39:00+00|2973|0.00"
    assert len(answers[1].splitlines()) == 10
    assert answers[2].splitlines()[0].startswith(("/home|", "/cart|", "(none)|"))
    assert len(answers[3].splitlines()) == 2
    assert answers[4].startswith("traffic_table|00:0")
    with pytest.raises(AssertionError, match="permission denied"):
        psql("SET ROLE dashboards; DELETE FROM traffic;")
    psql("DROP OWNED BY dashboards; DROP ROLE dashboards;")
    postgres.execute(f"DROP DATABASE {os.environ['PG_URL'].rpartition('/')[2]} WITH (FORCE)")


def psql(statement: str) -> str:
    """What psql prints for it."""
    ended = subprocess.run(
        ["psql", os.environ["PG_URL"], "-qAt", "-v", "ON_ERROR_STOP=1", "-c", "SET timezone = 'UTC'", "-c", statement],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    return ended.stdout
