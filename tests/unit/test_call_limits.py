"""A call of a user's code that hangs ends with an error that says where it is, in any thread."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.aggregate.udaf import call_code
from headrace.call_limits import VARIABLE, LateCallError, call_in_time
from headrace.types import BIGINT

LIMIT_S = 0.5


@pytest.fixture
def _limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(LIMIT_S))


def sleeping(values: Any) -> Any:
    time.sleep(3600)


def looping(values: Any) -> Any:
    while True:
        try:
            len(values)
        except Exception:  # code that catches everything ends, too
            time.sleep(0)


def searching(values: Any) -> Any:
    return re.match(r"(a+)+$", "a" * 64 + "b")


@pytest.mark.usefixtures("_limit")
@pytest.mark.parametrize("code", [sleeping, looping, searching])
def test_in_the_main_thread_it_is_interrupted(code: Callable[..., Any]) -> None:
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(LateCallError) as failure:
        call_code("function 'f'", code, BIGINT, "events", pa.array([1]))
    message = str(failure.value)
    assert f"function 'f' did not return within {LIMIT_S} s (it is at {Path(__file__).name}:" in message
    assert "setting function_timeout_s" in message
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.usefixtures("_limit")
def test_in_another_thread_it_is_left_behind() -> None:
    ended = threading.Event()

    def waiting(values: Any) -> Any:
        ended.wait()

    with ThreadPoolExecutor(1) as thread:
        call = thread.submit(call_code, "function 'f'", waiting, BIGINT, "events", pa.array([1]))
        error = call.exception()
    ended.set()
    assert isinstance(error, LateCallError)
    assert f"it is at {Path(__file__).name}:" in str(error)


def test_code_in_time_gives_its_value_or_its_error() -> None:
    with ThreadPoolExecutor(1) as thread:
        for run in (lambda *call: call[0](*call[1:]), lambda *call: thread.submit(*call).result()):
            assert run(call_in_time, "f", len, "abc") == 3
            with pytest.raises(ZeroDivisionError):
                run(call_in_time, "f", lambda: 1 / 0)


@pytest.mark.usefixtures("_limit")
def test_a_worker_ends_with_code_that_cannot_be_interrupted() -> None:
    """Such as C code that holds the interpreter; here the signal is blocked."""
    script = (
        "import signal, time\nfrom headrace import call_limits\ncall_limits.is_worker = True\n"
        "def stuck():\n    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])\n    time.sleep(3600)\n"
        "call_limits.call_in_time('f', stuck)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 1
    assert "in stuck" in ran.stderr
