"""A finding: one check, its result, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.errors import HeadraceError
from headrace.format import Shown

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True)
class Finding(Shown):
    """The result of one check. `said` is its message, named as in JSON; `fix` is what to do, if anything."""

    check: str
    level: Level
    said: str
    fix: str | None = None

    @classmethod
    def of(cls, check: str, error: HeadraceError, level: Level = "error") -> Finding:
        """The finding for an error of a check."""
        message = f"{error.message}{f'; found {error.found}' if error.found else ''}"
        where = f"{error.where}: " if error.where else ""
        return cls(
            check, level, where + message, error.fix or (f"expected {error.expected}" if error.expected else None)
        )


def good(check: str, message: str) -> Finding:
    """A check that passed."""
    return Finding(check, "ok", message)


def warn(check: str, message: str, fix: str) -> Finding:
    """A check that passed, but needs attention."""
    return Finding(check, "warning", message, fix)


def bad(check: str, message: str, fix: str) -> Finding:
    """A check that failed."""
    return Finding(check, "error", message, fix)
