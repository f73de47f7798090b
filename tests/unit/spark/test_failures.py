"""Failures of Spark jobs as one line."""

from __future__ import annotations

from headrace.spark.failures import one_line
from tests import wording

WORKER = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 1, in main
    raise ValueError("no")
ValueError: no
 SQLSTATE: 38000
"""


def test_the_error_of_a_python_worker_is_its_last_line() -> None:
    assert one_line(RuntimeError(WORKER)) == "ValueError: no"


def test_a_class_of_any_name_is_shown() -> None:
    arrow = WORKER.replace("ValueError: no", "pyarrow.lib.ArrowInvalid: 300 is too large")
    wording.check(one_line(RuntimeError(arrow)), 300)
    again = arrow.replace(" SQLSTATE", "\nDuring handling of it, another exception occurred:\n\n  x\nCellsError\n S")
    assert one_line(RuntimeError(again)) == "CellsError"
    job = f"An error occurred while calling o1.save.\n: org.apache.spark.SparkException: no.\nCaused by: {arrow}"
    wording.check(one_line(RuntimeError(job)), 300)


def test_other_errors_are_their_first_line() -> None:
    assert one_line(RuntimeError("one\ntwo")) == "one"
