"""A finding: one check, its result, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from headrace.errors import HeadraceError

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True)
class Finding:
    """What was found of one thing. `fix` is what to do, where something is to be done."""

    check: str
    level: Level
    said: str
    fix: str | None = None

    @classmethod
    def of(cls, check: str, error: HeadraceError, level: Level = "error") -> Finding:
        """A failure that a check met, in its own words."""
        said = f"{error.message}{f'; found {error.found}' if error.found else ''}"
        where = f"{error.where}: " if error.where else ""
        return cls(check, level, where + said, error.fix or (f"expected {error.expected}" if error.expected else None))

    def as_dict(self) -> dict[str, Any]:
        """The finding as `--json` shows it."""
        return {"check": self.check, "level": self.level, "said": self.said, "fix": self.fix}


def good(check: str, said: str) -> Finding:
    """No problems found."""
    return Finding(check, "ok", said)


def warn(check: str, said: str, fix: str) -> Finding:
    """It works, but not for ever or not as one may think."""
    return Finding(check, "warning", said, fix)


def bad(check: str, said: str, fix: str) -> Finding:
    """It does not work."""
    return Finding(check, "error", said, fix)
