"""Test files: what their values are, and what is said of mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.tools.testing.written_tests import read_text
from headrace.tools.testing.yaml_file import Items, parse_document
from tests.unit.tools.testing.shop import EXAMPLE, HOME, run_one


def test_values_are_as_written() -> None:
    text = "- [1, -2.50, .5, +7, 1e3, true, no, null, ~, '1', 12:30:00, 2026-01-01, 0x1f, 1_000, on, 007]"
    document = parse_document(text, "t")
    assert isinstance(document, Items)
    values = document.items[0].json()
    expected = '[1,-2.50,0.5,7,1e3,true,"no",null,null,"1","12:30:00","2026-01-01","0x1f","1_000","on",7]'
    assert values == expected


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\t\x00\x1b"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner),
    max_leaves=8,
)


@given(JSON)
def test_json_is_read_as_it_is(value: object) -> None:
    document = parse_document(f"- {json.dumps(value, ensure_ascii=False)}", "t")
    assert isinstance(document, Items)
    assert json.loads(document.items[0].json()) == value


def test_an_event_may_be_copied_from_another() -> None:
    text = "- &a {x: 1, y: 2}\n- {<<: *a, y: 3}\n- {<<: [{x: 5}, *a]}"
    document = parse_document(text, "t")
    assert document is not None
    assert document.json() == '[{"x":1,"y":2},{"x":1,"y":3},{"x":5,"y":2}]'


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("- name: a: b", 1, 10, "needs quotes"),
        ("- name: x\n\texpect: 1", 2, 1, "spaces, not tabs"),
        ("- name: [x", 1, 9, "not YAML: this bracket is not closed"),
        ("- name: x\n  given: {visits: [{a: 1}, {a: 2}}\n", 2, 19, "not YAML: this bracket is not closed"),
        (r'- "\ud83d\ude00"', 1, 6, "write a character that JSON escapes as two"),
        ("- *x", 1, 3, "undefined alias"),
        ("- &a [*a]", 1, 3, "contains itself"),
        ("- {name: x, name: y}", 1, 13, "'name' is given twice"),
        ("name: x", 1, 1, "a test file is a list of tests"),
        ("- x", 1, 3, "a test is a mapping"),
        ("- expect: {rows: []}", 1, 3, "a test has no name"),
        ("- name: x", 1, 3, "expects nothing"),
        ("- {name: x, gven: {}, expect: {rows: []}}", 1, 13, "did you mean 'given'?"),
        ("- {name: x, expect: {row: []}}", 1, 22, "did you mean 'rows'?"),
        ("- {name: x, expect: {}}", 1, 21, "nothing is expected"),
        ("- {name: x, expect: {rows: []}}", 1, 13, "add ask"),
        ("- {name: x, ask: v, expect: {dead_letters: []}}", 1, 13, "add rows"),
        ("- {name: x, ask: [v], expect: {rows: []}}", 1, 18, "one query"),
        ("- {name: x, ask: v, expect: {rows: 5}}", 1, 36, "rows are a list"),
        ("- {name: x, ask: v, expect: {rows: [5]}}", 1, 37, "a row is a mapping"),
        ("- {name: x, ask: v, expect: {rows: [], exact: 1}}", 1, 47, "true or false"),
        ("- {name: x, ask: v, expect: {rows: [], tolerance: some}}", 1, 51, "such as 0.01 or 2%"),
        ("- {name: x, ask: v, expect: {corrections: -1}}", 1, 43, "a whole number"),
        ("- {name: x, expect: {changes: {v: free}}}", 1, 13, "add definitions"),
        ("- {name: x, definitions: a, expect: {changes: {v: fre}}}", 1, 51, "did you mean 'free'?"),
        ("- {name: x, definitions: [a], expect: {errors: []}}", 1, 26, "definitions are SQL"),
        ("- {name: x, given: [], expect: {errors: []}}", 1, 20, "given is a mapping"),
        ("- {name: x, expect: {dead_letters: [{because: x}]}}", 1, 38, "no 'because'"),
    ],
)
def test_a_mistake_has_its_place_and_a_caret(text: str, line: int, column: int, says: str) -> None:
    tests, (error,) = read_text(text, "tests/a.yaml")
    assert not tests
    assert error.where is not None
    assert (error.where.line, error.where.column) == (line, column), error
    assert says in str(error)
    if error.where.excerpt is not None:
        assert error.where.excerpt == f"{text.splitlines()[line - 1]}\n{' ' * (column - 1)}^"


def test_the_other_tests_of_a_file_are_read() -> None:
    tests, errors = read_text("- name: x\n- {name: y, expect: {errors: []}}\n- {name: y, expect: {errors: []}}\n")
    assert [test.name for test in tests] == ["y"]
    assert ["expects nothing" in str(errors[0]), "two tests have the name 'y'" in str(errors[1])] == [True, True]


def test_an_empty_file_has_no_tests() -> None:
    assert read_text("") == ([], []) == read_text("# nothing\n")


GIVEN = f"given: {{visits: [{{{HOME}, at: 2026-01-01T00:00:05Z}}]}}"


@pytest.mark.parametrize(
    ("rest", "says"),
    [
        (f"{GIVEN}\n  ask: trafic\n  expect: {{rows: []}}", "t.yaml:3:8: view 'trafic' does not exist"),
        (f"{GIVEN}\n  ask: visits\n  expect: {{rows: []}}", "'visits' is a stream; ask a view that reads it"),
        (f"{GIVEN}\n  ask: {{view: traffic, windw: 1h}}\n  expect: {{rows: []}}", "did you mean 'window'?"),
        (f"{GIVEN}\n  ask: {{view: traffic, cursor: x}}\n  expect: {{rows: []}}", "a query has no 'cursor'"),
        (f"{GIVEN}\n  ask: {{window: 1h}}\n  expect: {{rows: []}}", "a query names a view"),
        (
            f"{GIVEN}\n  ask: {{view: traffic, window: 90s}}\n  expect: {{rows: []}}",
            "not a multiple of the view's pane",
        ),
        (f"{GIVEN}\n  ask: {{view: traffic, key: {{pge: /home}}}}\n  expect: {{rows: []}}", "has no key 'pge'"),
        (
            f"{GIVEN}\n  ask: traffic\n  expect: {{rows: [{{hit: 1}}]}}",
            "t.yaml:4:20: view 'traffic' has no column 'hit'",
        ),
        (f"{GIVEN}\n  ask: traffic\n  expect: {{rows: [{{hits: one}}]}}", "the column has the type BIGINT"),
        (f"{GIVEN}\n  ask: traffic\n  expect: {{rows: [{{window_start: soon}}]}}", "expected a time such as"),
        (f"{GIVEN}\n  ask: traffic\n  expect: {{rows: [{{hits: [1]}}]}}", "found a list"),
        (f"{GIVEN}\n  ask: traffic\n  expect: {{exact: true, rows: [{{hits: 1}}]}}", "a row without page, errors"),
        ("given: {visit: []}\n  ask: traffic\n  expect: {rows: []}", "did you mean 'visits'?"),
        ("given: {traffic: []}\n  ask: traffic\n  expect: {rows: []}", "'traffic' is a view; give events of visits"),
        ("given: {visits: nosuch.ndjson}\n  expect: {dead_letters: []}", "t.yaml:2:19: file"),
        ("given: {visits: {a: 1}}\n  expect: {dead_letters: []}", "the events of stream 'visits' are a list"),
        ("given: {visits: [[1]]}\n  expect: {dead_letters: []}", "a mapping or a line"),
        ("given: {visits: [' ']}\n  expect: {dead_letters: []}", "one line of text"),
        ("given: {visits: [{visitor: a, _arrived: later}]}\n  expect: {dead_letters: []}", "_arrived is a time"),
    ],
)
def test_what_does_not_exist_is_a_mistake_of_the_test(tmp_path: Path, rest: str, says: str) -> None:
    result = run_one(tmp_path, f"- name: x\n  {rest}\n")
    assert result.state == "bad"
    assert says in str(result.error)


def test_a_logical_view_is_asked(tmp_path: Path) -> None:
    definitions = f"{EXAMPLE}\nCREATE VIEW top AS SELECT page, hits FROM traffic;"
    text = f"- name: x\n  {GIVEN}\n  ask: {{view: top, by: page}}\n  expect: {{errors: [cannot answer by]}}\n"
    assert run_one(tmp_path, text, definitions).state == "passed"
    (tmp_path / "again").mkdir()
    text = f"- name: x\n  {GIVEN}\n  ask: top\n  expect: {{exact: true, rows: [{{page: /home, hits: 1}}]}}\n"
    assert run_one(tmp_path / "again", text, definitions).state == "passed"
