"""The same test files pass by the real jobs as without Spark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.init_command import EXAMPLE, EXAMPLE_TEST
from headrace.tools.testing.direct_engine import QuickEngine
from headrace.tools.testing.run_tests import Runner
from headrace.tools.testing.spark_engine import SparkEngine
from headrace.tools.testing.written_tests import read_text
from tests import wording
from tests.unit.tools.testing.joined import CHANGING, SQL, file_of

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
MORE = """
CREATE STREAM logs (value STRING NOT NULL, host STRING AS split_part(value, ' ', 1)) FORMAT TEXT;
CREATE MATERIALIZED VIEW hosts AS SELECT host, count(*) AS n FROM logs GROUP BY host, window(_arrived, '1 minute');
CREATE MATERIALIZED VIEW times AS
SELECT to_timestamp(page) AS k, count(*) AS n, sum(CAST(bytes AS DOUBLE)) AS x FROM visits GROUP BY k;
CREATE MATERIALIZED VIEW rates AS
SELECT page, count(*) AS hits, round(100.0 * count(*) FILTER (WHERE status >= 500) / count(*), 2) AS error_rate
FROM visits GROUP BY page, window(at, '1 minute') HAVING count(*) > 1 ORDER BY error_rate DESC LIMIT 2;
CREATE MATERIALIZED VIEW days AS
SELECT date_trunc('day', at) AS day, count(*) AS hits, sum(bytes) AS bytes FROM visits GROUP BY date_trunc('day', at);
CREATE STREAM cells (a STRING, n INT) WITH (KAFKA_TOPIC = 'cells', VALUE_FORMAT = 'CSV');
CREATE MATERIALIZED VIEW sums AS SELECT a, sum(n) AS n FROM cells GROUP BY a;
"""
ONLY_SPARK = """
- name: only Spark computes it
  given: {visits: [{visitor: a, page: '2026-01-01 00:00:00', bytes: 3, at: 2026-01-01T00:00:00Z}]}
  ask: times
  expect: [{k: 2026-01-01T00:00:00Z, n: 1, x: 3}]
"""
BOTH = """
- name: lines by arrival
  given:
    logs:
      - {_line: "web1 GET /", _arrived: 2026-05-01T12:00:59Z}
      - {_line: "web1 GET /", _arrived: 2026-05-01T12:01:00Z}
      - {_line: "web2 GET /", _arrived: 2026-05-01T12:00:01Z}
  ask: hosts
  expect:
    - {host: web1, window_start: 2026-05-01T12:00:00Z, n: 1}
    - {host: web2, window_start: 2026-05-01T12:00:00Z, n: 1}
    - {host: web1, window_start: 2026-05-01T12:01:00Z, n: 1}
- name: expressions over aggregates, HAVING, ORDER BY, LIMIT
  given: &visits
    visits:
      - {visitor: a, page: /a, status: 200, bytes: 1, at: 2026-01-31T23:00:05Z}
      - {visitor: a, page: /a, status: 500, bytes: 2, at: 2026-01-31T23:00:06Z}
      - {visitor: a, page: /b, status: 500, bytes: 3, at: 2026-01-31T23:00:07Z}
      - {visitor: a, page: /b, status: 500, bytes: 4, at: 2026-01-31T23:00:08Z}
      - {visitor: a, page: /c, status: 500, bytes: 5, at: 2026-02-01T00:00:08Z}
  ask: rates
  expect: {ordered: true, rows: [{page: /b, error_rate: 100}, {page: /a, error_rate: 50, hits: 2}]}
- name: days of the calendar
  given: *visits
  ask: days
  expect: [{day: 2026-01-31, hits: 4, bytes: 10}, {day: 2026-02-01, hits: 1}]
- name: rows of CSV from Kafka
  given: {cells: [{a: x, n: 1}, {a: x, n: 2}]}
  ask: sums
  expect: [{a: x, n: 3}]
- name: nothing is given
  ask: traffic
  expect: []
"""
PAGE_TESTS = "".join(re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture
def definitions(tmp_path: Path) -> Path:
    (tmp_path / "shop.sql").write_text(EXAMPLE + MORE)
    return tmp_path


def states(engine: Any, definitions: Path, text: str) -> list[tuple[str, str, list[str]]]:
    tests, errors = read_text(text)
    assert not errors
    try:
        runner = Runner(definitions, engine)
        results = [runner.run(test, definitions) for test in tests]
    finally:
        engine.close()
    return [(r.test.name, r.state, [*(d.message for d in r.differences), str(r.error or "")]) for r in results]


def test_the_same_files_pass_by_the_real_jobs(spark: Any, definitions: Path) -> None:
    text = EXAMPLE_TEST + PAGE_TESTS + BOTH
    quick, by_jobs = (states(engine, definitions, text) for engine in (QuickEngine(), SparkEngine(spark)))
    assert quick == by_jobs
    assert {state for _, state, _ in by_jobs} == {"passed"}, by_jobs
    assert len(by_jobs) > 10


def test_what_only_spark_computes_runs_by_the_jobs(spark: Any, definitions: Path) -> None:
    assert [state for _, state, _ in states(QuickEngine(), definitions, ONLY_SPARK)] == ["skipped"]
    assert [state for _, state, _ in states(SparkEngine(spark), definitions, ONLY_SPARK)] == ["passed"]


def test_both_layers_are_compared(spark: Any, definitions: Path) -> None:
    text = ONLY_SPARK.replace("n: 1", "n: 2")
    ((_, state, messages),) = states(SparkEngine(spark), definitions, text)
    assert state == "failed"
    wording.check(messages[0], "times", 1)  # once: both layers say the same


def test_joins_and_tables_give_the_same_rows_by_the_jobs(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "all.sql").write_text(SQL)
    text = file_of("lefts", "nested", "payers", "by_payer_plan", "sampled", "top_shares") + CHANGING
    assert states(SparkEngine(spark), tmp_path, text) == [
        (name, "passed", [""]) for name, _, _ in states(QuickEngine(), tmp_path, text)
    ]
