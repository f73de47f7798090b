"""Functions and aggregates that a definition file declares."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.define.catalog import load
from headrace.define.fingerprint import fingerprint, from_json, to_json
from headrace.errors import DefinitionError
from headrace.language.user_functions import plain
from headrace.plan.differences import compare
from tests import wording
from tests.own_code import PYTHON, SQL, write_definitions


def test_sql_calls_functions_and_aggregates_of_python_files(tmp_path: Path) -> None:
    view = load(write_definitions(tmp_path)).views["heat"]
    assert plain(str(view.where)) == "fahrenheit(c) > 0 OR c IS NULL"
    assert plain(view.columns[2].aggregate.sql) == "sum(fahrenheit(CAST(k AS DOUBLE)))"
    assert plain(view.columns[4].aggregate.sql) == "geometric_mean(c)"
    assert str(view.columns[4].aggregate.type) == "DOUBLE"


def test_a_view_is_read_back_with_its_code(tmp_path: Path) -> None:
    view = load(write_definitions(tmp_path)).views["heat"]
    text = json.dumps(to_json(view))
    assert from_json(json.loads(text)) == view
    assert fingerprint(load(tmp_path).views["heat"]) == fingerprint(view)


def test_changed_code_is_a_change_of_the_view(tmp_path: Path) -> None:
    before = load(write_definitions(tmp_path))
    after = load(write_definitions(tmp_path, PYTHON.replace("RATE = 1.8", "RATE = 1.9")))
    assert fingerprint(before.views["heat"]) != fingerprint(after.views["heat"])
    (change,) = compare(before, after).changes
    assert change.how == "build"
    assert change.details == ("code changed: beginning, fahrenheit, geometric_mean",)


def test_python_definitions_use_them(tmp_path: Path) -> None:
    python = PYTHON + (
        '\nreadings = hr.Stream("readings", "sensor STRING NOT NULL, c DOUBLE, k INT, at TIMESTAMP NOT NULL", '
        'event_time="at")\nhr.View("heat", readings.where("fahrenheit(c) > 0 OR c IS NULL").group_by('
        'hr.window("1 minute"), room="beginning(sensor, 1)").agg(n=hr.count(), most=hr.max("fahrenheit(c)"), '
        'total=hr.sum("fahrenheit(k)"), hot=hr.count(where="fahrenheit(c) > 100"), mean=geometric_mean("c"), '
        'other=geometric_mean("fahrenheit(k)", where="c > 0")))\n'
    )
    views = [load(write_definitions(tmp_path, python, sql)).views["heat"] for sql in ("",)]
    (tmp_path / "own.py").write_text(python.partition("\nreadings =")[0])
    (tmp_path / "heat.sql").write_text(SQL)
    in_sql = load(tmp_path).views["heat"]
    assert [plain(column.aggregate.sql) for column in views[0].columns] == [
        plain(column.aggregate.sql) for column in in_sql.columns
    ]


@pytest.mark.parametrize(
    ("python", "sql", "values"),
    [
        (PYTHON, SQL.replace("fahrenheit(c) > 0", "fahrenheit(sensor) > 0"), ("CAST(sensor AS DOUBLE)",)),
        (PYTHON, SQL.replace("fahrenheit(c) > 0", "fahrenheit(c, k) > 0"), ("fahrenheit(celsius DOUBLE)",)),
        (PYTHON, SQL.replace("geometric_mean(c)", "geometric_mean(sensor)"), ("DOUBLE",)),
        (
            PYTHON,
            SQL.replace(" AS room", ""),
            ("beginning(sensor, 1)",),
        ),
        (PYTHON, SQL.replace("k INT,", "k INT, f DOUBLE AS fahrenheit(c),"), ()),
        (PYTHON.replace("def fahrenheit", "def lower"), "", ()),
        (PYTHON.replace("def fahrenheit(celsius)", "def fahrenheit()"), "", ()),
        (PYTHON.replace("def merge(", "def join("), "", ("geometric_mean",)),
        (PYTHON.replace('gives="DOUBLE"', 'gives="DUBLE"', 1), "", ("DUBLE",)),
    ],
)
def test_mistakes_have_clear_errors(tmp_path: Path, python: str, sql: str, values: tuple[str, ...]) -> None:
    with pytest.raises(DefinitionError, match=r"own\.py|heat\.sql") as caught:
        load(write_definitions(tmp_path, python, sql))
    wording.check(caught.value, *values)


def test_a_plan_shows_calls_in_derived_streams_as_they_were_written(tmp_path: Path) -> None:
    derived = "CREATE STREAM hot AS SELECT fahrenheit(c) AS f, at FROM readings WHERE fahrenheit(c) > {};"
    written = write_definitions(tmp_path, PYTHON, SQL + derived.format(80))
    before = load(written)
    created = compare(type(before)(), before)
    (details,) = (change.details for change in created.changes if change.name == "hot")
    wording.check(details, "fahrenheit(c)", 80, "AS")
    after = load(write_definitions(tmp_path, PYTHON.replace("RATE = 1.8", "RATE = 1.9"), SQL + derived.format(90)))
    (details,) = (change.details for change in compare(before, after).changes if change.name == "hot")
    assert details == (
        "- rows of readings: where fahrenheit(c) > 80; select fahrenheit(c) AS f, at",
        "+ rows of readings: where fahrenheit(c) > 90; select fahrenheit(c) AS f, at",
        "code changed: fahrenheit",
    )
