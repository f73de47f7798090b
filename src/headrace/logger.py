"""Loggers that load structlog with their first message: commands that log nothing start without it."""

from __future__ import annotations

from typing import Any


class Logger:
    """A logger of structlog by name; its methods are `info`, `warning`, `error`, `exception` and `bind`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        import structlog  # some 85 modules with rich and asyncio, which it loads

        return getattr(structlog.get_logger(self._name), method)
