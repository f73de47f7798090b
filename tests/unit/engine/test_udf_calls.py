"""Calls for rows: the rows that fail are found, with function, line and value; the others have their values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.define.catalog import load
from headrace.engine.udf_calls import run_outcomes
from headrace.language.user_functions import UserFunction, find_function
from tests import wording

CODE = """
import pyarrow as pa
import pyarrow.compute as pc
import headrace as hr

s = hr.Stream("s", "x BIGINT, t STRING")

@hr.udf("x BIGINT", gives="BIGINT")
def inverse(x):
    return pa.array([100 // each for each in x.to_pylist()])

@hr.udf("x BIGINT", gives="BIGINT")
def shorter(x):
    return x.filter(pc.greater(x, 2))

@hr.udf("x BIGINT", gives="BIGINT")
def texts(x):
    return pa.array(["n" if each == 7 else str(each) for each in x.to_pylist()])

@hr.udf("x BIGINT, t STRING", gives="a BIGINT, b STRING")
def pair(x, t):
    return pa.table({"a": x}) if pc.any(pc.equal(x, 3)).as_py() else pa.table({"a": x, "b": t})

@hr.udf("x BIGINT", gives="BIGINT")
def nothing(x):
    return None

hr.Stream("d", s.select("x", a="inverse(x)", b="shorter(x)", c="texts(x)", d="pair(x, t)", e="nothing(x)"))
"""


@pytest.fixture
def functions(tmp_path: Path) -> dict[str, UserFunction]:
    (tmp_path / "code.py").write_text(CODE)
    relation = load(tmp_path).streams["d"].relation
    assert relation is not None
    found = [find_function(getattr(step, "function", "")) for step in relation.branches[0].steps]
    return {each.name: each for each in found if each}


def outcomes(function: UserFunction, *arrays: pa.Array) -> tuple[dict[int, str], list[Any]]:
    rows = run_outcomes(function, *arrays).to_pylist()
    return {at: row["error"] for at, row in enumerate(rows) if row["error"]}, [row["value"] for row in rows]


def test_rows_that_fail_are_named_with_function_line_and_value(functions: dict[str, UserFunction]) -> None:
    errors, values = outcomes(functions["inverse"], pa.array([1, 0, 5, None, 20, 0]))
    assert values == [100, None, 20, None, 5, None]
    wording.check(errors[1], "inverse", 10)
    assert "TypeError" in errors[3]
    assert set(errors) == {1, 3, 5}


def test_results_of_another_length_or_type_fail_for_the_rows_that_cause_them(
    functions: dict[str, UserFunction],
) -> None:
    errors, values = outcomes(functions["shorter"], pa.array([1, 2, 3, 4]))
    assert values == [None, None, 3, 4]
    wording.check(errors[0], "shorter", 0, 12)
    errors, values = outcomes(functions["texts"], pa.array([6, 7]))
    assert (values, list(errors)) == ([6, None], [1])
    errors, values = outcomes(functions["pair"], pa.array([2, 3]), pa.array(["b", "c" * 200]))
    assert values == [{"a": 2, "b": "b"}, None]
    assert "returned no column 'b'" in errors[1]
    assert "… (202 characters)" in errors[1]
    errors, _ = outcomes(functions["nothing"], pa.array([1]))
    wording.check(errors[0])


def test_no_rows_call_nothing(functions: dict[str, UserFunction]) -> None:
    assert len(run_outcomes(functions["nothing"], pa.array([], pa.int64()))) == 0
