"""Tests of definitions, run without Spark: what passes, what fails, and what is said then."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.cli.init_command import EXAMPLE, EXAMPLE_TEST
from headrace.tools.demo.shop_server import make_workspace, shop_definitions, shop_tests
from headrace.tools.testing.comparison import match
from headrace.tools.testing.direct_engine import QuickEngine
from headrace.tools.testing.run_tests import Runner
from headrace.tools.testing.written_tests import read_file
from tests import wording
from tests.effort import examples
from tests.unit.tools.testing.shop import HOME, messages, run, run_one

AT = "at: 2026-01-01T00:00"
ONE = f"{{{HOME}, bytes: 10, {AT}:05Z}}"
LINES = """
CREATE STREAM logs (value STRING, host STRING AS split_part(value, ' ', 1)) FORMAT TEXT;
CREATE MATERIALIZED VIEW hosts AS SELECT host, count(*) AS n FROM logs GROUP BY host, window(_arrived, '1 minute');
"""


def test_the_example_passes(tmp_path: Path) -> None:
    assert [result.state for result in run(tmp_path, EXAMPLE_TEST)] == ["passed"] * 3


def test_those_of_the_demo_pass(tmp_path: Path) -> None:
    make_workspace(tmp_path, shop_definitions(), shop_tests())
    engine = QuickEngine()
    tests, errors = read_file(tmp_path / "tests" / "shop.yaml", "shop.yaml")
    results = [Runner(tmp_path / "definitions", engine).run(test, tmp_path) for test in tests]
    engine.close()
    assert (errors, [messages(result) for result in results]) == ([], [[]] * 4)


@pytest.mark.parametrize(
    "row",
    [
        "{hits: 1}",
        "{page: /home, window_start: 2026-01-01, window_end: '2026-01-01 01:01+01:00'}",
        "{bytes: 10.0, errors: 0, visitors: 1, settled: false}",
        "{page: '/home', hits: '1'}",
    ],
)
def test_rows_are_compared_by_value_in_the_columns_that_they_name(tmp_path: Path, row: str) -> None:
    text = f"- {{name: x, given: {{visits: [{ONE}]}}, ask: traffic, expect: {{rows: [{row}]}}}}"
    assert run_one(tmp_path, text).state == "passed"


def test_rows_of_a_view_without_windows_are_shown_without_them(tmp_path: Path) -> None:
    result = run_one(
        tmp_path,
        """
        - name: it fails
          definitions: CREATE MATERIALIZED VIEW total AS SELECT page, count(*) AS n FROM visits GROUP BY page;
          given:
            visits: [{visitor: ann, page: /a, at: 2026-01-01T00:00:05Z}]
          ask: total
          expect:
            rows: [{page: /a, n: 2}]
        """,
    )
    rows = result.differences[0].rows
    assert rows is not None
    assert rows.columns == ("page", "n")


def test_rows_that_differ_are_told_row_by_row(tmp_path: Path) -> None:
    result = run_one(
        tmp_path,
        f"""
        - name: x
          given:
            visits:
              - {ONE}
              - {{visitor: ann, page: /b, status: 200, {AT}:05Z}}
              - {{visitor: ann, page: /c, status: 200, {AT}:05Z}}
          ask: traffic
          expect:
            rows:
              - {{page: /nowhere, hits: 9}}
              - {{page: /b, hits: 2, bytes: null}}
              - {{page: /c, hits: 1}}
        """,
    )
    assert messages(result) == ["rows of view 'traffic': 1 differ, 1 missing, 1 unexpected"]
    rows = result.differences[0].rows
    assert rows is not None
    told = [(row.mark, (row.expected or row.found or {})["page"], row.wrong) for row in rows.rows]
    assert told == [
        ("differs", "/b", ("hits",)),
        ("same", "/c", ()),
        ("missing", "/nowhere", ()),
        ("unexpected", "/home", ()),
    ]


def test_a_row_that_names_little_leaves_others_what_only_they_agree_with(tmp_path: Path) -> None:
    text = f"""
    - name: x
      given: {{visits: [{ONE}, {{visitor: a, page: /b, status: 200, {AT}:05Z}}]}}
      ask: traffic
      expect: [{{hits: 1}}, {{page: /b, hits: 1}}]
    """
    assert run_one(tmp_path, text).state == "passed"


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.sets(st.integers(0, 6)), max_size=7))
def test_as_many_rows_agree_as_can(agreeing: list[set[int]]) -> None:
    pairs = match([sorted(each) for each in agreeing])
    assert all(at in agreeing[row] for row, at in pairs.items())
    assert len(set(pairs.values())) == len(pairs)
    most = max(
        sum(at in agreeing[row] for row, at in enumerate(order[: len(agreeing)])) for order in permutations(range(7))
    )
    assert len(pairs) == most


def test_the_order_of_rows_counts_if_the_question_gives_one(tmp_path: Path) -> None:
    text = f"""
    - name: any
      given: &two {{visits: [{ONE}, {{visitor: a, page: /b, status: 200, at: 2026-01-01T00:01:00Z}}]}}
      ask: traffic
      expect: [{{page: /b}}, {{page: /home}}]
    - {{name: newest, given: *two, ask: {{view: traffic, order: newest}}, expect: [{{page: /b}}, {{page: /home}}]}}
    - {{name: ordered, given: *two, ask: traffic, expect: {{ordered: true, rows: [{{page: /b}}, {{page: /home}}]}}}}
    - {{name: oldest, given: *two, ask: {{view: traffic, order: oldest}}, expect: [{{page: /b}}, {{page: /home}}]}}
    """
    assert [result.state for result in run(tmp_path, text)] == ["passed", "passed", "failed", "failed"]


def test_rows_beyond_the_first_page_are_compared(tmp_path: Path) -> None:
    times = [f"2026-01-0{1 + i // 1440}T{i // 60 % 24:02}:{i % 60:02}:05Z" for i in range(1500)]
    events = [{"visitor": "ann", "page": "/home", "status": 200, "at": time} for time in times]
    (tmp_path / "many.ndjson").write_text("\n".join(map(json.dumps, events)))
    result = run_one(tmp_path, "- {name: all, given: {visits: many.ndjson}, ask: traffic, expect: [{hits: 1}]}")
    assert messages(result) == ["rows of view 'traffic': 1499 unexpected"]


def test_a_tolerance_is_an_amount_or_a_share(tmp_path: Path) -> None:
    def state(tolerance: str) -> str:
        folder = tmp_path / tolerance.replace("/", "")
        folder.mkdir()
        expect = f"{{rows: [{{bytes: 11, hits: 1}}], tolerance: {tolerance}}}"
        return run_one(folder, f"- {{name: x, given: {{visits: [{ONE}]}}, ask: traffic, expect: {expect}}}").state

    assert [state(t) for t in ("1", "0.9", "10%", "9%", "{bytes: 1}", "{hits: 1}")] == [
        "passed", "failed", "passed", "failed", "passed", "failed",
    ]  # fmt: skip


def test_a_dead_letter_has_to_be_named(tmp_path: Path) -> None:
    text = """
    - {name: named, given: &bad {visits: [{page: /home}]}, expect: {dead_letters: [visitor]}}
    - {name: unnamed, given: *bad, ask: traffic, expect: {rows: []}}
    - {name: another, given: *bad, expect: {dead_letters: [status]}}
    - {name: none, given: *bad, expect: {dead_letters: []}}
    - {name: twice, given: *bad, expect: {dead_letters: [visitor, visitor]}}
    - {name: of a stream, given: *bad, expect: {dead_letters: [{stream: orders}]}}
    """
    results = run(tmp_path, text)
    assert [result.state for result in results] == ["passed", *["failed"] * 5]
    wording.check(messages(results[1])[0], "dead_letters")
    wording.check(messages(results[2])[0], "status")


def test_an_event_is_late_by_its_arrival(tmp_path: Path) -> None:
    """Each given arrival is a commit: a late event is a correction if its pane was settled."""
    late = f"{{{HOME}, {AT}:10Z, _arrived: 2026-01-01T00:09:00Z}}"
    newer = f"{{{HOME}, at: 2026-01-01T00:05:00Z}}"
    text = f"""
    - {{name: late, given: {{visits: [{late}, {ONE}, {newer}]}}, ask: traffic, expect: {{corrections: 1}}}}
    - {{name: on time, given: {{visits: [{ONE}, {newer}, {ONE}]}}, ask: traffic, expect: {{corrections: 0}}}}
    - {{name: commits, given: {{visits: [{newer}, commit: , {ONE}]}}, ask: traffic, expect: {{corrections: 1}}}}
    """
    results = run(tmp_path, text)
    assert [(result.state, messages(result)) for result in results] == [("passed", [])] * 3


def test_an_event_from_the_future_is_a_dead_letter(tmp_path: Path) -> None:
    event = f"{{{HOME}, at: 2026-01-09T00:00:00Z, _arrived: 2026-01-01T00:00:00Z}}"
    text = f"- {{name: x, given: {{visits: [{event}]}}, expect: {{dead_letters: [more than a day after arrival]}}}}"
    assert run_one(tmp_path, text).state == "passed"


def test_a_stream_without_event_time_goes_by_arrival(tmp_path: Path) -> None:
    text = """
    - name: lines
      given:
        logs:
          - web1 GET /
          - {_line: "web1 GET /", _arrived: 2026-05-01T12:00:59Z}
          - {_line: "web1 GET /", _arrived: 2026-05-01T12:01:00Z}
      ask: hosts
      expect:
        - {host: web1, window_start: 2026-01-01T00:00:00Z, n: 1}
        - {host: web1, window_start: 2026-05-01T12:00:00Z, n: 1}
        - {host: web1, window_start: 2026-05-01T12:01:00Z, n: 1}
    - name: a block
      given:
        logs: |
          web1 GET /
          web2 GET /
      ask: {view: hosts, by: ""}
      expect: [{n: 2}]
    - {name: mapping, given: {logs: [{host: web1}]}, ask: hosts, expect: []}
    """
    results = run(tmp_path, text, LINES)
    assert [result.state for result in results] == ["passed", "passed", "bad"], [messages(r) for r in results]
    wording.check(results[2].error, "FORMAT TEXT")


def test_a_field_that_is_not_declared_is_noted(tmp_path: Path) -> None:
    event = f"{{{HOME}, byts: 1, {AT}:05Z}}"
    result = run_one(tmp_path, f"- {{name: x, given: {{visits: [{event}]}}, ask: traffic, expect: [{{bytes: null}}]}}")
    assert result.state == "passed"
    assert result.notes == ("stream 'visits' has no field 'byts': it is stored and ignored; did you mean 'bytes'?",)


def test_a_field_may_come_from_anywhere_in_the_event(tmp_path: Path) -> None:
    sql = """
    CREATE STREAM s (at TIMESTAMP NOT NULL FROM '@timestamp', service STRING FROM '$.service.name',
                     WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
    CREATE MATERIALIZED VIEW v AS SELECT service, count(*) AS n FROM s GROUP BY service, window(at, '1 minute');
    """
    event = "{'@timestamp': 2026-01-01T00:00:00Z, service: {name: web}}"
    result = run_one(tmp_path, f"- {{name: x, given: {{s: [{event}]}}, ask: v, expect: [{{service: web, n: 1}}]}}", sql)
    assert (result.state, result.notes) == ("passed", ())


def test_errors_of_definitions_are_expected_by_a_part(tmp_path: Path) -> None:
    sql = "CREATE MATERIALIZED VIEW v AS SELECT sum(page) AS a, sum(nosuch) AS b FROM visits"
    text = f"""
    - {{name: both, definitions: {sql!r}, expect: {{errors: [nosuch, sum]}}}}
    - {{name: one, definitions: {sql!r}, expect: {{errors: [nosuch]}}}}
    - {{name: other, definitions: {sql!r}, expect: {{errors: [nosuch, sum, third]}}}}
    - {{name: none, definitions: {sql!r}, given: {{}}, ask: v, expect: []}}
    """
    results = run(tmp_path, text)
    assert [result.state for result in results] == ["passed", "failed", "failed", "failed"]
    wording.check(messages(results[1])[0])
    assert messages(results[2]) == ["no error says 'third'"]


def test_mistakes_of_definitions_have_their_line_in_the_test_file(tmp_path: Path) -> None:
    text = """
    - name: x
      definitions: |
        CREATE MATERIALIZED VIEW v AS
          SELECT nosuch FROM visits;
      expect: {errors: []}
    """
    (message, *_) = messages(run_one(tmp_path, text))
    assert "t.yaml:5:14: " in message


def test_a_plan_says_what_a_change_takes(tmp_path: Path) -> None:
    text = """
    - name: free
      definitions: |
        CREATE MATERIALIZED VIEW traffic AS
        SELECT page, count(*) AS visits FROM visits WHERE status <> 304 GROUP BY page, window(at, '1 minute');
      expect: {changes: {traffic: free, visits: none}}
    - name: build
      definitions: CREATE MATERIALIZED VIEW traffic AS SELECT count(*) AS hits FROM visits
      expect: {changes: {traffic: free}}
    - {name: unknown, definitions: CREATE STREAM s (a INT), expect: {changes: {trafic: none}}}
    """
    results = run(tmp_path, text)
    assert [result.state for result in results] == ["passed", "failed", "bad"], [messages(r) for r in results]
    assert messages(results[1]) == ["plan of 'traffic': expected free, found build"]


def test_a_view_that_only_spark_computes_is_skipped(tmp_path: Path) -> None:
    sql = (
        EXAMPLE + "CREATE MATERIALIZED VIEW v AS SELECT to_timestamp(page) AS k, count(*) AS n FROM visits GROUP BY k;"
    )
    result = run_one(tmp_path, f"- {{name: x, given: {{visits: [{ONE}]}}, ask: v, expect: []}}", sql)
    assert result.state == "skipped"
    wording.check(result.error, "v")
    assert "headrace test --spark" in str(result.error)


def test_one_test_leaves_nothing_for_the_next(tmp_path: Path) -> None:
    text = "\n".join(
        f"- {{name: t{i}, given: {{visits: [{ONE}]}}, ask: traffic, expect: [{{hits: 1}}]}}" for i in range(3)
    )
    assert [result.state for result in run(tmp_path, text)] == ["passed"] * 3


def test_lists_and_structs_are_compared_by_their_values(tmp_path: Path) -> None:
    sql = EXAMPLE + "CREATE MATERIALIZED VIEW top AS SELECT approx_top_k(page, 2) AS pages FROM visits;"
    top = f"given: &two {{visits: [{ONE}, {ONE}, {{visitor: a, page: /b, {AT}:07Z}}]}}"
    text = f"""
    - {{name: all, {top}, ask: top, expect: [{{pages: [{{item: /home, count: 2}}, {{item: /b, count: 1.0}}]}}]}}
    - {{name: parts, given: *two, ask: top, expect: [{{pages: [{{item: /home}}, {{count: 1}}]}}]}}
    - {{name: fewer, given: *two, ask: top, expect: [{{pages: [{{item: /home}}]}}]}}
    - {{name: another, given: *two, ask: top, expect: [{{pages: [{{item: /home}}, {{item: /c}}]}}]}}
    - {{name: no part, given: *two, ask: top, expect: [{{pages: [{{itm: /home}}]}}]}}
    - {{name: no list, given: *two, ask: top, expect: [{{pages: /home}}]}}
    """
    results = run(tmp_path, text, sql)
    assert [result.state for result in results] == ["passed", "passed", "failed", "failed", "bad", "bad"]
    wording.check(results[4].error, "item")
    wording.check(results[5].error, "ARRAY", "STRUCT", "STRING", "BIGINT")


KAFKA = """
CREATE STREAM visits (page STRING, at TIMESTAMP FROM TIMESTAMP, WATERMARK FOR at AS at)
    WITH (connector = 'kafka', topic = 'visits');
CREATE STREAM cells (a STRING, n INT) WITH (KAFKA_TOPIC = 'cells', VALUE_FORMAT = 'CSV');
CREATE MATERIALIZED VIEW pages AS SELECT page, count(*) AS n FROM visits GROUP BY page, window(at, '1 minute');
CREATE MATERIALIZED VIEW sums AS SELECT a, sum(n) AS n FROM cells GROUP BY a;
"""


def test_streams_in_kafka_need_no_kafka(tmp_path: Path) -> None:
    """The time of a record is that of arrival, and mappings stand for rows of CSV."""
    results = run(
        tmp_path,
        """
        - name: the time of a record
          given: {visits: [{page: /a, _arrived: 2026-01-01T00:00:05Z}]}
          ask: pages
          expect: {rows: [{page: /a, window_start: 2026-01-01T00:00:00Z, n: 1}]}
        - name: rows
          given: {cells: [{a: x, n: 2}, {a: x, n: 3}]}
          ask: sums
          expect: {rows: [{a: x, n: 5}]}
        """,
        KAFKA,
    )
    assert [messages(result) for result in results] == [[], []]


DERIVED = """
CREATE STREAM orders (id INT, items ARRAY<STRING>, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
CREATE STREAM sold AS SELECT id, lower(item) AS item, at FROM orders LATERAL VIEW explode(items) t AS item WHERE id > 0;
CREATE MATERIALIZED VIEW by_item AS SELECT item, count(*) AS n FROM sold GROUP BY item, window(at, '1 hour');
"""


def test_a_view_over_a_derived_stream_gets_events_of_its_base(tmp_path: Path) -> None:
    orders = [(1, "[Pen, Ink]", "05Z"), (0, "[Pen]", "06Z"), (2, "[pen]", "07Z")]
    events = ", ".join(f"{{id: {id}, items: {items}, {AT}:{seconds}}}" for id, items, seconds in orders)
    rows = "{item: pen, n: 2}, {item: ink, n: 1}"
    text = f"- {{name: x, given: {{orders: [{events}]}}, ask: by_item, expect: {{rows: [{rows}]}}}}"
    result = run_one(tmp_path, text, DERIVED)
    assert (result.state, messages(result)) == ("passed", [])


def test_a_derived_stream_is_given_no_events(tmp_path: Path) -> None:
    text = f"- {{name: x, given: {{sold: [{{id: 1, item: a, {AT}:05Z}}]}}, ask: by_item, expect: {{rows: []}}}}"
    result = run_one(tmp_path, text, DERIVED)
    assert result.state != "passed"
    wording.check(result.error, "sold")


def test_repeated_events_are_dead_letters(tmp_path: Path) -> None:
    definitions = """
    CREATE STREAM payments (id STRING, amount INT, at TIMESTAMP NOT NULL, WATERMARK FOR at, UNIQUE (id) WITHIN 1 HOUR);
    CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS n, sum(amount) AS amount FROM payments;
    """
    text = """
- name: once
  given:
    payments:
      - {id: a, amount: 1, at: 2026-01-01T00:00:00Z}
      - {id: a, amount: 2, at: 2026-01-01T00:59:59Z}
      - {id: a, amount: x, at: 2026-01-01T00:59:59Z}
      - {id: a, amount: 4, at: 2026-01-01T01:00:00Z}
      - {id: b, amount: 8, at: 2026-01-01T01:00:00Z}
  ask: totals
  expect:
    rows: [{n: 3, amount: 13}]
    dead_letters: ["duplicate, found id = 'a', first at position 32", "field 'amount'"]
"""
    make_workspace(tmp_path, definitions, text)
    engine = QuickEngine()
    tests, errors = read_file(tmp_path / "tests" / "shop.yaml", "shop.yaml")
    results = [Runner(tmp_path / "definitions", engine).run(test, tmp_path) for test in tests]
    engine.close()
    assert (errors, [messages(result) for result in results]) == ([], [[]])
