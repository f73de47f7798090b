"""The tokens of ingest replies: whether what one stands for is in every view, and waiting until it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from headrace.errors import NotFoundError
from headrace.ingest.receiver import TokenState, read_token
from headrace.server.running_stream import RunningStream
from headrace.store.store_contract import Store
from headrace.store.version import Version

LOOK_S = 1.0  # how often a waiting caller looks, whatever it is notified of


class IngestTokens:
    """Asked by HTTP threads; notified by the layers whenever a version moved."""

    def __init__(
        self, store: Store, pipelines: Callable[[], Mapping[str, RunningStream]], stopped: threading.Event
    ) -> None:
        self._store = store
        self._pipelines = pipelines
        self._stopped = stopped
        self._applied = threading.Condition()

    def state(self, token: str) -> TokenState:
        """Whether every view that answers, or is about to, has what the token stands for."""
        parts = read_token(token)
        pipeline = self._pipelines().get(parts[0]) if parts else None
        if parts is None or pipeline is None:
            raise NotFoundError(
                f"token '{token}' is not a token of this workspace", expected="the token of an ingest reply"
            )
        stream, position = parts
        versions = _answering([each for each in self._store.versions() if each.reads(stream)])
        behind = [each for each in versions if not each.base(stream).covers(position)]
        in_lake = pipeline.table.state.position.covers(position)
        return TokenState(in_lake and not behind, sorted(each.view.name for each in behind if each.stalled))

    def wait(self, token: str, timeout_s: float) -> TokenState:
        """The same, after waiting until it is complete, or the time is over."""
        deadline = time.monotonic() + timeout_s
        with self._applied:
            while True:
                state = self.state(token)
                left = deadline - time.monotonic()
                if state.complete or left <= 0 or self._stopped.is_set():
                    return state
                self._applied.wait(min(left, LOOK_S))

    def notify(self) -> None:
        """A version moved, or the server stops: who waits looks again."""
        with self._applied:
            self._applied.notify_all()


def _answering(versions: Sequence[Version]) -> list[Version]:
    """The versions that answer for their views, or are about to as the first ones.

    One that is about to replace another is not waited for: it serves when it has all that the other one has.
    """
    serving = {version.view.name for version in versions if version.serving}
    return [version for version in versions if version.serving or (version.moves and version.view.name not in serving)]
