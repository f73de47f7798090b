"""Functions and aggregates of the workspace in tests of definitions: they run, and their laws are tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.tools.testing.direct_engine import QuickEngine
from headrace.tools.testing.run_tests import Runner, RunResult
from headrace.tools.testing.written_tests import read_text
from tests.own_code import PYTHON, write_definitions
from tests.unit.tools.testing.shop import messages

TEST = """
- name: heat
  given:
    readings:
      - {sensor: a1, c: 10.0, k: 1, at: 2026-01-01T00:00:00Z}
      - {sensor: a2, c: 40.0, k: 2, at: 2026-01-01T00:00:01Z}
      - {sensor: a2, c: 20.0, k: 2, at: 2026-01-01T00:00:01Z}
  ask: heat
  expect: [{room: a, n: 3, most: 104, hot: 1, mean: 20}]
"""
ERRORS = TEST.replace("expect: [{room: a, n: 3, most: 104, hot: 1, mean: 20}]", "expect: {errors: [geometric_mean]}")


def run(folder: Path, python: str, text: str = TEST) -> RunResult:
    definitions = write_definitions(folder / "definitions", python)
    (test,), errors = read_text(text)
    assert not errors
    engine = QuickEngine()
    try:
        return Runner(definitions, engine).run(test, folder)
    finally:
        engine.close()


def test_own_functions_and_aggregates_are_computed(tmp_path: Path) -> None:
    result = run(tmp_path, PYTHON)
    assert (result.state, messages(result)) == ("passed", [])


@pytest.mark.parametrize(
    ("sound", "broken"),
    [
        ('pc.add(a.field("n"), b.field("n"))', 'pc.subtract(a.field("n"), b.field("n"))'),
        ('pc.add(a.field("logs"), b.field("logs"))', 'pc.divide(pc.add(a.field("logs"), b.field("logs")), 2.0)'),
    ],
)
def test_a_broken_law_is_shown_with_its_counter_example(tmp_path: Path, sound: str, broken: str) -> None:
    result = run(tmp_path / "a", PYTHON.replace(sound, broken))
    assert result.state == "failed"
    assert "geometric_mean" in messages(result)[0]
    assert run(tmp_path / "b", PYTHON.replace(sound, broken), ERRORS).state == "passed"


def test_code_that_raises_fails_the_test(tmp_path: Path) -> None:
    result = run(tmp_path, PYTHON.replace("return pc.add(pc.multiply(celsius, RATE), 32.0)", "return 1 // 0"))
    assert result.state == "failed"
    assert "fahrenheit" in messages(result)[0]


def test_a_change_of_the_code_is_used_by_the_next_run(tmp_path: Path) -> None:
    assert run(tmp_path / "a", PYTHON).state == "passed"
    assert run(tmp_path / "b", PYTHON.replace("RATE = 1.8", "RATE = 2.0")).state == "failed"


def test_a_function_is_called_for_columns_of_a_joined_table(tmp_path: Path) -> None:
    python = "import headrace as hr\nimport pyarrow.compute as pc\n\n\n"
    python += '@hr.udf("plan STRING", gives="STRING")\ndef shout(plan):\n    return pc.utf8_upper(plan)\n'
    sql = """
    CREATE TABLE users (id STRING PRIMARY KEY, plan STRING);
    CREATE STREAM clicks (who STRING);
    CREATE MATERIALIZED VIEW loud AS
    SELECT shout(u.plan) AS plan, count(*) AS hits FROM clicks c JOIN users u ON c.who = u.id GROUP BY shout(u.plan);
    """
    (tmp_path / "own.py").write_text(python)
    (tmp_path / "own.sql").write_text(sql)
    text = "- {name: x, given: {clicks: [{who: a}], users: [{id: a, plan: pro}]}, ask: loud, expect: [{plan: PRO}]}"
    (test,), errors = read_text(text)
    assert not errors
    engine = QuickEngine()
    result = Runner(tmp_path, engine).run(test, tmp_path)
    engine.close()
    assert (result.state, messages(result)) == ("passed", [])
