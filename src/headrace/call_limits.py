"""Calls of a user's Python code, each within a time limit: one that hangs must not hold up anything else."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from headrace.errors import HeadraceError

# The limit in seconds. A variable of the environment, so that processes that this one starts have it, too; a task of
# Spark has its own.
VARIABLE = "HEADRACE_CALL_LIMIT_S"
DEFAULT_S = 30.0
KILL_AFTER = 2  # limits, after which a worker ends: code outside of Python is not interrupted
SETTING = "function_timeout_s"
LATE = f"; the setting {SETTING}"  # in every message about a call that took too long

is_worker = False  # whether this process runs tasks only, so that it may end with a call that does not


class LateCallError(HeadraceError):
    """A call of a user's code did not return in time."""


class _InterruptedCall(BaseException):  # not an Exception, which the code may catch
    """Raised inside the code to end it."""


def limit_calls(seconds: float) -> None:
    """Set the limit of this process, and of those that it starts from now on."""
    os.environ[VARIABLE] = str(seconds)


def call_limit_s() -> float:
    """The limit of this process."""
    return float(os.environ.get(VARIABLE) or DEFAULT_S)


def call_in_time(what: str, run: Callable[..., Any], *arguments: Any) -> Any:
    """Call the code; raises LateCallError, with the line that it is in, if it does not return in time."""
    in_time = _in_main_thread if threading.current_thread() is threading.main_thread() else _in_another_thread
    return in_time(what, run, arguments, call_limit_s())


def _in_main_thread(what: str, run: Callable[..., Any], arguments: tuple[Any, ...], limit_s: float) -> Any:
    """A signal interrupts the code wherever it is in Python, or waits."""
    lines: list[str] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        lines.append(_line(run, frame))
        raise _InterruptedCall

    before = signal.signal(signal.SIGALRM, interrupt)
    if is_worker:
        faulthandler.dump_traceback_later(limit_s * KILL_AFTER, exit=True, file=sys.__stderr__ or 2)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, limit_s)
            return run(*arguments)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _InterruptedCall:
        raise _late(what, limit_s, lines[0]) from None
    finally:
        signal.signal(signal.SIGALRM, before)
        if is_worker:
            faulthandler.cancel_dump_traceback_later()


def _in_another_thread(what: str, run: Callable[..., Any], arguments: tuple[Any, ...], limit_s: float) -> Any:
    """Signals reach the main thread only: the code runs in another thread, which is abandoned if it hangs."""
    outcome: list[tuple[Any, BaseException | None]] = []

    def call() -> None:
        try:
            outcome.append((run(*arguments), None))
        except BaseException as error:
            outcome.append((None, error))

    thread = threading.Thread(target=call, name=f"call of {what}", daemon=True)
    thread.start()
    thread.join(limit_s)
    if not outcome:
        raise _late(what, limit_s, _line(run, sys._current_frames().get(thread.ident or 0)))
    value, error = outcome[0]
    if error is not None:
        raise error
    return value


def _late(what: str, limit_s: float, line: str) -> LateCallError:
    return LateCallError(f"{what} did not return within {limit_s:g} s{line}{LATE} limits each call")


def _line(run: Callable[..., Any], frame: FrameType | None) -> str:
    """The line of the code in the file that defines it."""
    code = getattr(run, "__code__", None)
    while frame is not None and code is not None and frame.f_code.co_filename != code.co_filename:
        frame = frame.f_back
    if frame is None or code is None:
        return ""
    return f" (it is at {Path(code.co_filename).name}:{frame.f_lineno})"
