"""The dead letters of a stream in Python: `Connection.dead_letters(stream)`."""

from __future__ import annotations

from typing import Any

from headrace.client.verbs import DeadLetterBackend
from headrace.lake.letters import DEFAULT_LIMIT


class DeadLetterVerbs:
    """The dead letters of a stream, as JSON shows them."""

    def __init__(self, backend: DeadLetterBackend) -> None:
        self._backend = backend

    def page(self, limit: int = DEFAULT_LIMIT, cursor: int | None = None, reason: str | None = None) -> dict[str, Any]:
        """A page of dead letters, newest first; `reason` filters by text."""
        return self._backend.page(limit, cursor, reason).as_dict()

    def reasons(self) -> list[dict[str, Any]]:
        """Number of dead letters per reason."""
        return [reason.as_dict() for reason in self._backend.reasons()]

    def show(self, position: int) -> dict[str, Any]:
        """The complete dead letter at a position."""
        return self._backend.show(position).as_dict()

    def replay(self, cursor: str | None = None, *, dry_run: bool = False) -> dict[str, Any]:
        """Parse a batch of them again; the `cursor` of the reply continues."""
        return self._backend.replay(cursor, dry_run=dry_run).as_dict()
