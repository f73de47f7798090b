"""Tables, joins, derived streams, samples, once-per-id and logical views in tests of definitions, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.define.catalog import parse
from headrace.tools.testing.given_events import in_order
from tests import wording
from tests.unit.tools.testing.joined import CHANGING, ONLY_SPARK, ROWS, SQL, file_of
from tests.unit.tools.testing.shop import messages, run, run_one


def test_every_kind_of_view_is_computed(tmp_path: Path) -> None:
    results = run(tmp_path, file_of(*ROWS), SQL)
    told = {result.test.name: (result.state, messages(result)) for result in results}
    skipped = {view: told.pop(view) for view in ONLY_SPARK}
    assert told == {view: ("passed", []) for view in ROWS if view not in ONLY_SPARK}
    assert {state for state, _ in skipped.values()} == {"skipped"}


def test_a_join_that_only_spark_computes_is_named(tmp_path: Path) -> None:
    result = run_one(tmp_path, file_of("nested"), SQL)
    wording.check(result.error, "nested", "payer_plans", "SELECT", "headrace test --spark")


def test_tables_change_between_events(tmp_path: Path) -> None:
    assert [(r.state, messages(r)) for r in run(tmp_path, CHANGING, SQL)] == [("passed", [])] * 3


def test_events_without_a_row_of_a_table_are_no_dead_letters(tmp_path: Path) -> None:
    test = """
- name: x
  given: {clicks: [{user_id: ann, n: 1, ts: 2026-03-01T10:00:00Z}, {user_id: 5, ts: 2026-03-01T10:00:00Z}]}
  ask: inners
  expect: {rows: [], dead_letters: ["field 'user_id'", missing key]}
"""
    assert messages(run_one(tmp_path, test, SQL)) == ["a dead letter is missing: 'missing key'"]


def test_logs_of_tables_come_before_what_is_joined_to_them() -> None:
    catalog = parse(SQL)
    given = ["clicks", "payments", "prices", "users"]
    assert in_order(catalog, given) == ["prices", "users", "payments", "clicks"]
    assert in_order(catalog, reversed(given)) == ["users", "prices", "payments", "clicks"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("paid: []", "table 'paid' is derived: its rows are made of those of payments; give events of payments"),
        ("planned: []", "stream 'planned' is derived: its events are made of those of clicks; give events of clicks"),
        ("user: []", "stream 'user' does not exist; expected clicks, payments, users, prices; did you mean 'users'?"),
        ("shares: []", "stream 'shares' does not exist; expected clicks, payments, users, prices"),
    ],
)
def test_what_has_no_events_is_not_given(tmp_path: Path, given: str, told: str) -> None:
    result = run_one(tmp_path, f"- {{name: x, given: {{{given}}}, ask: inners, expect: []}}\n", SQL)
    assert result.state == "bad"
    assert told in str(result.error)
