"""Classifies failures of Spark jobs: a Headrace error, one to retry, or any other as one line."""

from __future__ import annotations

import re

from headrace import errors
from headrace.errors import HeadraceError, chain

_HEADRACE_ERROR = re.compile(r"headrace\.errors\.(\w+): (.+)")
_CALL = "An error occurred while calling "  # Py4J's first line, which has no information
_CAUSE = re.compile(r"(?:^Caused by: |^: |executor \w+\): )([\w.$]+(?:Error|Exception)\b[^\n]*)", re.MULTILINE)
_WORKER = "An exception was thrown from the Python worker"  # as empty: what follows is a traceback
# The last line of a traceback follows an indented one; the class may have any name, such as pyarrow.lib.ArrowInvalid.
_RAISED = re.compile(r"^ +[^\n]*\n(?:[\w.]+\.)?([A-Za-z_]\w*(?::[^\n]*)?)$", re.MULTILINE)
_UNREADABLE = re.compile(r"while reading file (?:file://)?(\S+?\.parquet)")
# On a busy machine a Python worker may start after Spark's timeout; the next one usually does not.
_TRANSIENT = re.compile(r"Python worker failed to connect back|waiting for the Python worker to connect back")

_ENDED = "Python worker exited unexpectedly"


def is_transient(error: BaseException) -> bool:
    """Whether a job failed only because a worker did not start in time; it is then retried silently."""
    return any(_TRANSIENT.search(str(each)) for each in chain(error))


def worker_ended(error: BaseException) -> bool:
    """Whether a Python worker ended during a job, by code that is not Python or that ends its process."""
    return any(_ENDED in str(each) for each in chain(error))


def from_spark(error: BaseException) -> HeadraceError | None:
    """The Headrace error that a Spark worker raised: Spark returns it as text within its own error."""
    for each in chain(error):
        if isinstance(each, HeadraceError):
            return each
        match = _HEADRACE_ERROR.search(str(each))
        error_class = getattr(errors, match.group(1), None) if match else None
        if match and isinstance(error_class, type) and issubclass(error_class, HeadraceError):
            return error_class(match.group(2).strip())
    return None


def one_line(error: BaseException) -> str:
    """Any failure as one sentence."""
    ours = from_spark(error)
    if ours is not None:
        return str(ours)
    unreadable = _UNREADABLE.search(str(error))  # Spark names the file inside a stack trace
    if unreadable:
        return f"file '{unreadable.group(1)}' cannot be read; restore it from a backup"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if _WORKER in str(error) and (last_lines := _RAISED.findall(str(error))):
        return str(last_lines[-1])
    causes = _CAUSE.findall(str(error)) if lines and lines[0].startswith(_CALL) else []
    return causes[-1] if causes else lines[0] if lines else type(error).__name__
