"""A plan and its steps as data: what clients read and print, without the parts that make one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from headrace.plan.cost import Cost, How

Kind = Literal["create", "change", "drop", "refuse"]
What = Literal["stream", "table", "view", "logical view", "sink", "alert"]


@dataclass(frozen=True)
class PlannedChange:
    """One step of a plan. `details` say to people what differs; `reason` what follows from it, or why it is refused.

    `cost` is that of a build, where it is known how much there is to read. `hint` is a remark on the definition.
    """

    kind: Kind
    what: What
    name: str
    reason: str
    details: tuple[str, ...] = ()
    how: How = "free"
    cost: Cost | None = None
    hint: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The change as `--json` shows it."""
        return {
            "kind": self.kind,
            "what": self.what,
            "name": self.name,
            "how": self.how,
            "reason": self.reason,
            "details": list(self.details),
            "cost": self.cost.as_dict() if self.cost else None,
            "hint": self.hint,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> PlannedChange:
        """The change that `as_dict` shows."""
        cost = Cost.from_dict(value["cost"]) if value["cost"] else None
        return cls(**{**value, "details": tuple(value["details"]), "cost": cost})


@dataclass(frozen=True)
class Plan:
    """Steps in an order in which they can be taken: each after what it reads, drops the other way."""

    changes: tuple[PlannedChange, ...] = ()
    fingerprint: str = ""  # of what runs and what is wanted: a yes to one plan is not a yes to another

    @property
    def empty(self) -> bool:
        """Return whether there is nothing to change."""
        return not self.changes

    @property
    def only_creates(self) -> bool:
        """Return whether the plan only creates."""
        return all(change.kind == "create" for change in self.changes)

    @property
    def refused(self) -> tuple[PlannedChange, ...]:
        """The steps that cannot be taken."""
        return tuple(change for change in self.changes if change.kind == "refuse")

    @property
    def builds(self) -> tuple[PlannedChange, ...]:
        """The steps that read the log, or would if there were events in it."""
        return tuple(change for change in self.changes if change.how == "build")

    @property
    def reading(self) -> tuple[PlannedChange, ...]:
        """The changes that have events to read, as far as that is known."""
        return tuple(change for change in self.builds if change.cost is None or change.cost.events)

    def as_dict(self) -> dict[str, Any]:
        """The plan as `--json` shows it."""
        return {
            "fingerprint": self.fingerprint,
            "empty": self.empty,
            "only_creates": self.only_creates,
            "changes": [change.as_dict() for change in self.changes],
        }


@dataclass(frozen=True)
class RollbackStep:
    """Going back from the version of a view that serves to an earlier one."""

    serving: int
    to: int
    change: PlannedChange

    @property
    def view(self) -> str:
        """The view that goes back."""
        return self.change.name

    def as_dict(self) -> dict[str, Any]:
        """The step as `--json` and HTTP show it."""
        change = self.change.as_dict()
        kept = {name: change[name] for name in ("how", "reason", "details", "cost")}
        return {"view": self.view, "from": self.serving, "to": self.to, **kept}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> RollbackStep:
        """The step that `as_dict` shows."""
        kept = {name: value[name] for name in ("how", "reason", "details", "cost")}
        change = PlannedChange.from_dict({"kind": "change", "what": "view", "name": value["view"], **kept})
        return cls(value["from"], value["to"], change)
