"""The dead letters of a stream in Python, `Connection.dead_letters(stream)`, and behind a URL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from headrace.api.verbs import DeadLetterBackend
from headrace.lake.dead_letters import DEFAULT_LIMIT, DeadLetter, DeadLetterPage, DeadLetterReason, ReplayStep

if TYPE_CHECKING:
    from headrace.api.remote_calls import ServerCalls

REPLAY_S = 600.0  # for one step


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


class RemoteDeadLetters:
    """The dead letters of a stream behind a URL, with the methods of the server's own."""

    def __init__(self, remote: ServerCalls, stream: str) -> None:
        self._remote = remote
        self._path = f"/v1/streams/{quote(stream, safe='')}/dead-letters"

    def page(self, limit: int = DEFAULT_LIMIT, cursor: int | None = None, reason: str | None = None) -> DeadLetterPage:
        """A page of dead letters, newest first."""
        options = {"limit": limit, "cursor": cursor, "reason": reason}
        params = {name: value for name, value in options.items() if value is not None}
        return DeadLetterPage.from_dict(self._remote.call("GET", self._path, params=params))

    def reasons(self) -> list[DeadLetterReason]:
        """Number of dead letters per reason."""
        reply = self._remote.call("GET", f"{self._path}/reasons")
        return [DeadLetterReason.from_dict(reason) for reason in reply["reasons"]]

    def show(self, position: int) -> DeadLetter:
        """The complete dead letter at a position."""
        return DeadLetter.from_dict(self._remote.call("GET", f"{self._path}/{position}"))

    def replay(self, cursor: str | None = None, *, dry_run: bool = False) -> ReplayStep:
        """Parse a batch of them again; the `cursor` of the reply continues."""
        options = {"cursor": cursor, "dry_run": "true" if dry_run else None}
        params = {name: value for name, value in options.items() if value is not None}
        path, remote = f"{self._path}/replay", self._remote
        reply = remote.when_ready(lambda: remote.call("POST", path, params=params, timeout=REPLAY_S))
        return ReplayStep.from_dict(reply)
