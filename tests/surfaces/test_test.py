"""`headrace test`: what it prints and how it ends."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

import headrace.testing
from headrace.call_limits import DEFAULT_S, VARIABLE
from headrace.testing import check
from headrace.tools.testing import run_tests as testing_run
from headrace.tools.testing import workspace_tests as testing_folder
from tests.surfaces.conftest import Ran, visit, write_events

Command = Callable[..., Ran]
FAILING = """\
- name: two visits
  given: {visits: [{visitor: ann, page: "[red]", status: 200, at: 2026-01-01T00:00:05Z}]}
  ask: traffic
  expect: [{page: "[red]", hits: 2}]
"""


@pytest.fixture(autouse=True)
def _inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def test_the_first_test_passes(headrace: Command, folder: Path) -> None:
    ran = headrace("test")
    assert ran.code == 0, ran
    assert "✓ a late event still counts" in ran.out
    assert "3 passed in " in ran.out
    assert not (folder / "data").exists()


def test_a_failure_shows_rows_and_ends_with_1(headrace: Command, folder: Path) -> None:
    (folder / "tests" / "failing.yaml").write_text(FAILING)
    ran = headrace("test", "-k", "TWO")
    assert ran.code == 1
    lines = [line.split() for line in ran.out.splitlines()]
    assert ["expected", "[red]", "≠", "2"] in [[*line[:2], *line[-2:]] for line in lines]
    assert ["found", "[red]", "≠", "1"] in [[*line[:2], *line[-2:]] for line in lines]
    assert "    tests/failing.yaml:1:3" in ran.out.splitlines()
    assert not [line for line in ran.out.splitlines() if line and not line.strip()]
    assert "1 failed in " in ran.out


def test_tests_are_selected_by_file_and_name(headrace: Command, folder: Path) -> None:
    (folder / "tests" / "failing.yaml").write_text(FAILING)
    assert headrace("test", "tests/shop.yaml").code == 0
    assert headrace("test", "-k", "shop.yaml", "-k", "late").code == 0
    assert headrace("test", "-w", folder, "tests").code == 1
    ran = headrace("test", "-k", "a late event still counst")
    assert ran.code == 2
    assert "did you mean 'a late event still counts'?" in ran.err


def test_a_mistake_is_shown_with_its_line_and_ends_with_2(headrace: Command, folder: Path) -> None:
    (folder / "tests" / "bad.yaml").write_text("- name: x\n  expct: []\n")
    ran = headrace("test")
    assert ran.code == 2
    assert "error: tests/bad.yaml:2:3: a test has no 'expct'" in ran.err
    assert "    expct: []\n    ^\n" in ran.err
    assert "3 passed, 1 mistake in test files in " in ran.out


def test_a_run_in_which_all_tests_are_skipped_fails(headrace: Command, folder: Path) -> None:
    view = "CREATE MATERIALIZED VIEW times AS SELECT to_timestamp(page) AS k, count(*) AS n FROM visits GROUP BY k;"
    (folder / "definitions" / "more.sql").write_text(view)
    (folder / "tests" / "times.yaml").write_text("- {name: only Spark does it, ask: times, expect: []}\n")
    assert headrace("test").code == 0, "the others ran"
    ran = headrace("test", "tests/times.yaml")
    assert ran.code == 1
    assert "error: no test ran: all of them need Spark ('only Spark does it'); `headrace test --spark`" in ran.err
    assert "1 skipped (need --spark) in " in ran.out
    ran = headrace("test", "--json", "tests/times.yaml")
    assert (ran.code, ran.json["skipped"], ran.json["tests"][0]["state"]) == (1, 1, "skipped")
    assert ran.json["problem"].startswith("no test ran: ")
    with pytest.raises(AssertionError, match="no test ran"):
        check(folder, select=["only Spark"])


HANGING = """
import time
import headrace as hr

@hr.udf("page STRING", gives="STRING")
def hanging(page):
    time.sleep(3600)
"""


def test_a_call_has_the_time_limit_of_the_workspace(
    headrace: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(DEFAULT_S))  # so that the test restores it
    monkeypatch.setenv("HEADRACE_FUNCTION_TIMEOUT_S", "0.5")
    view = "CREATE MATERIALIZED VIEW hung AS SELECT hanging(page) AS page, count(*) AS n FROM visits GROUP BY 1;"
    (folder / "definitions" / "hanging.py").write_text(HANGING)
    (folder / "definitions" / "hung.sql").write_text(view)
    given = f"{{visits: [{json.dumps(visit())}]}}"
    (folder / "tests" / "hung.yaml").write_text(f"- {{name: it hangs, given: {given}, ask: hung, expect: []}}\n")
    ran = headrace("test", "tests/hung.yaml")
    assert ran.code == 1
    assert "function 'hanging' did not return within 0.5 s (it is at hanging.py:7)" in ran.out


def test_mistakes_of_definitions_end_with_2(headrace: Command, folder: Path) -> None:
    (folder / "definitions" / "more.sql").write_text("CREATE MATERIALIZED VIEW v AS SELECT nosuch FROM visits")
    ran = headrace("test")
    assert (ran.code, ran.out) == (2, "")
    assert "has no field 'nosuch'" in ran.err


def test_json_has_every_difference(headrace: Command, folder: Path) -> None:
    (folder / "tests" / "failing.yaml").write_text(FAILING)
    ran = headrace("test", "--json")
    assert ran.code == 1
    assert {key: ran.json[key] for key in ("passed", "failed", "skipped", "bad", "errors")} == {
        "passed": 3, "failed": 1, "skipped": 0, "bad": 0, "errors": [],
    }  # fmt: skip
    (failed,) = [test for test in ran.json["tests"] if test["state"] == "failed"]
    assert (failed["name"], failed["file"], failed["line"]) == ("two visits", "tests/failing.yaml", 1)
    (row,) = failed["differences"][0]["rows"]["rows"]
    assert (row["mark"], row["differing"], row["expected"]["hits"], row["found"]["hits"]) == ("differs", ["hits"], 2, 1)
    assert row["found"]["window_start"] == "2026-01-01T00:00:00Z"


def test_junit_has_every_test(headrace: Command, folder: Path) -> None:
    (folder / "tests" / "failing.yaml").write_text(FAILING)
    (folder / "tests" / "bad.yaml").write_text("- [\n")
    assert headrace("test", "--junit", "results.xml").code == 2
    (suite,) = ElementTree.parse("results.xml").getroot()
    assert [suite.get(name) for name in ("tests", "failures", "errors", "skipped")] == ["5", "1", "1", "0"]
    failure = suite.find("testcase[@name='two visits']/failure")
    assert failure is not None
    assert "≠ 2" in (failure.text or "")


def test_python_raises_what_is_not_as_expected(folder: Path) -> None:
    headrace.testing.check(folder)
    (folder / "tests" / "failing.yaml").write_text(FAILING)
    headrace.testing.check(folder, select=["late"])
    with pytest.raises(AssertionError) as failure:
        headrace.testing.check()
    assert "tests/failing.yaml:1:3: two visits: failed\n  rows of view 'traffic': 1 differ" in str(failure.value)
    (folder / "tests" / "bad.yaml").write_text("- [\n")
    with pytest.raises(AssertionError, match="not YAML"):
        headrace.testing.check(folder, ["tests/bad.yaml"])


@pytest.mark.parametrize("name", ["visits.ndjson", "visits.csv", "access.log"])
def test_init_from_a_file_writes_a_test_that_passes(headrace: Command, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    match file.suffix:
        case ".ndjson":
            write_events(file, *(visit(i, page=f"/{i % 3}", comment='it\'s: "x" #1 {} 😀\n\\u00e9') for i in range(9)))
        case ".csv":
            file.write_text("day,shop,amount\n" + "".join(f"2026-01-0{1 + i % 3},s{i % 2},{i}.50\n" for i in range(9)))
        case _:
            line = '127.0.0.1 - - [01/Jan/2026:12:00:0{} +0000] "GET /it\'s HTTP/1.1" 200 {} "-" "curl"\n'
            file.write_text("".join(line.format(i, i * 100) for i in range(9)))
    assert headrace("init", "new", "--from", file).code == 0
    assert len(list(Path("new/tests").glob("*.yaml"))) == 1
    ran = headrace("test", "-w", "new")
    assert (ran.code, "1 passed" in ran.out) == (0, True), ran
    assert (
        headrace("init", "new", "--from", write_events(tmp_path / "more.ndjson", *[{"a": i} for i in range(5)])).code
        == 0
    )
    assert len(list(Path("new/tests").glob("*.yaml"))) == 2


def test_many_tests_start_one_engine_and_read_the_definitions_once(
    headrace: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: Counter[str] = Counter()

    def count(module: ModuleType, name: str) -> None:
        make = getattr(module, name)

        def counted(*arguments: Any) -> Any:
            started[name] += 1
            return make(*arguments)

        monkeypatch.setattr(module, name, counted)

    count(testing_folder, "QuickEngine")
    count(testing_run, "load")
    example = (folder / "tests" / "shop.yaml").read_text()
    for i in range(7):
        (folder / "tests" / f"copy{i}.yaml").write_text(example)
    ran = headrace("test")
    assert (ran.code, "24 passed in " in ran.out) == (0, True), ran
    assert started == {"QuickEngine": 1, "load": 1}
