"""Failures of Spark jobs as one line."""

from __future__ import annotations

from headrace.spark.failures import one_line

WORKER = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "worker.py", line 1, in main
    raise ValueError("no")
ValueError: no
 SQLSTATE: 38000
"""


def test_the_error_of_a_python_worker_is_its_last_line() -> None:
    assert one_line(RuntimeError(WORKER)) == "ValueError: no"


def test_other_errors_are_their_first_line() -> None:
    assert one_line(RuntimeError("one\ntwo")) == "one"
