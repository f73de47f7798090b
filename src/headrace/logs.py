"""Structured logs: readable on a terminal, JSON otherwise, and always JSON in the workspace's log file."""

from __future__ import annotations

import logging
import os
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, TextIO

import structlog

from headrace.format import cut

FILE_BYTES, FILES_KEPT = 10 << 20, 3
HANDLER = "headrace"  # the handlers that the next `configure` replaces; others stay

MOST_CHARACTERS = 4_000  # of a value in a log


def _cut_long(logger: Any, method: str, event: dict[str, Any]) -> dict[str, Any]:
    """Cut values that would fill the file, such as an event of megabytes in an error."""
    return {name: cut(value, MOST_CHARACTERS) if type(value) is str else value for name, value in event.items()}


_SHARED: list[Any] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
    _cut_long,
]


def configure(level: str, file: Path | None = None, stream: TextIO | None = None) -> None:
    """Send the logs of this process, including those of libraries, to `stream` (stderr) and to a file."""
    stream = stream or sys.stderr
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handlers: list[logging.Handler] = [logging.StreamHandler(stream)]
    handlers[0].setFormatter(_formatter(pretty=stream.isatty()))
    if stream.isatty() and level == "info":
        handlers[0].setLevel(logging.WARNING)  # `up` prints what users need; the file has the rest
    if file:
        file.parent.mkdir(parents=True, exist_ok=True)
        file_handler = RotatingFileHandler(file, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8")
        file_handler.setFormatter(_formatter(pretty=False))
        handlers.append(file_handler)
    root = logging.getLogger()
    for old in [handler for handler in root.handlers if handler.name == HANDLER]:
        root.removeHandler(old)
        old.close()
    for handler in handlers:
        handler.name = HANDLER
        # Py4J logs stack traces when Java ends or a micro-batch fails; the server reports these itself.
        handler.addFilter(lambda record: "py4j" not in Path(record.pathname).parts)
        root.addHandler(handler)
    root.setLevel(level.upper())
    # Libraries log too much at `info`.
    for chatty in ("uvicorn", "py4j", "asyncio", "pyspark", "httpx2", "httpcore2"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))


def _formatter(*, pretty: bool) -> logging.Formatter:
    if pretty:
        last: list[Any] = [
            structlog.dev.ConsoleRenderer(timestamp_key="at", exception_formatter=structlog.dev.plain_traceback)
        ]
    else:
        last = [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=_SHARED,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    )


def divert_children(file: Path) -> None:
    """Send the standard output and error of processes started from now on to a file; those of this process stay.

    Spark's JVM and workers write to the descriptors that they inherit, whatever logging says.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    log_fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream: TextIO = getattr(sys, name)
        stream.flush()
        own = os.dup(number)  # not inherited by children, like every descriptor that Python opens
        setattr(sys, name, os.fdopen(own, "w", buffering=1, encoding=stream.encoding, errors=stream.errors))
        os.dup2(log_fd, number, inheritable=True)
    os.close(log_fd)
