"""The named subscriptions of a workspace: each a file, loaded when the server starts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import structlog

from headrace.deliver.delivery_status import (
    AT_LEAST_ONCE,
    SubscriptionStatus,
    Terms,
    check_guarantee,
    check_name,
    check_timeout,
)
from headrace.deliver.subscription_queue import Clock, SubscriptionQueue, header
from headrace.deliver.subscription_source import SubscriptionSource
from headrace.deliver.subscription_state import RecordFile, SubscriptionState
from headrace.errors import ConflictError, CorruptionError, NotFoundError, QuestionError, did_you_mean
from headrace.format import iso

SUFFIX = ".log"
log = structlog.get_logger("headrace.subscriptions")


class Subscriptions:
    """Creates, finds and drops them. A damaged one is refused by itself; the others work."""

    def __init__(
        self,
        folder: Path,
        source_of: Callable[[Terms], SubscriptionSource],
        still_mine: Callable[[], None],
        clock: Clock | None = None,
    ) -> None:
        self._folder = folder
        self._source_of = source_of
        self._still_mine = still_mine
        self._clock = clock or _clock()
        self._lock = threading.Lock()
        self._queues: dict[str, SubscriptionQueue] = {}
        self._damaged: dict[str, CorruptionError] = {}
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            try:
                queue = self._load(path)
                self._queues[queue.terms.name] = queue
            except CorruptionError as error:
                log.error("a subscription cannot be read", error=str(error))
                self._damaged[path.name.removesuffix(SUFFIX)] = error

    def create(
        self,
        name: str,
        *,
        stream: str | None = None,
        view: str | None = None,
        guarantee: str | None = None,
        where: str | None = None,
        key: Mapping[str, Any] | None = None,
        start: str | None = None,
        timeout: Any = None,
    ) -> SubscriptionStatus:
        """Create a subscription. One that exists with the terms that are given stays as it is, where it is."""
        check_name(name)
        if (stream is None) == (view is None):
            raise QuestionError(f"subscription '{name}' is over a stream or a view", expected="one of both")
        terms = Terms(
            name=name,
            stream=stream,
            view=view,
            guarantee=check_guarantee(guarantee),
            where=(where or "").strip() or None,
            key=dict(key or {}),
            timeout_ms=check_timeout(timeout),
            created=iso(datetime.now(UTC)),
        )
        with self._lock:
            if name in self._damaged:
                raise self._damaged[name]
            if name in self._queues:
                options = {"guarantee": guarantee, "where": where, "key": key, "timeout_ms": timeout}
                return _same(self._queues[name], terms, [term for term, value in options.items() if value is not None])
            source = self._source_of(terms)
            queue = self._make(terms, source.start(start))
            self._queues[name] = queue
        return queue.status()

    def queue(self, name: str) -> SubscriptionQueue:
        """The subscription of this name."""
        if name in self._damaged:
            raise self._damaged[name]
        queue = self._queues.get(name)
        if queue is None:
            hint = did_you_mean(name, self._queues)
            raise NotFoundError(
                f"subscription '{name}' does not exist",
                fix=f"{hint + ' ' if hint else ''}`headrace subscriptions` lists all",
            )
        return queue

    def drop(self, name: str) -> None:
        """Forget a subscription, with what it has not delivered."""
        with self._lock:
            if name in self._damaged:
                (self._folder / f"{name}{SUFFIX}").unlink(missing_ok=True)
                del self._damaged[name]
                return
            queue = self.queue(name)
            queue.drop()
            del self._queues[name]

    @property
    def names(self) -> list[str]:
        """The names of those that can be read."""
        return sorted(self._queues)

    def statuses(self) -> list[SubscriptionStatus]:
        """All of them, by name."""
        return [queue.status() for _, queue in sorted(self._queues.items())]

    def problems(self) -> dict[str, str]:
        """Those that cannot be read, with the reason."""
        return {name: str(error) for name, error in sorted(self._damaged.items())}

    def close(self) -> None:
        """The server stops; nothing is forgotten."""
        for queue in list(self._queues.values()):
            queue.close()

    def _make(self, terms: Terms, cursor: str) -> SubscriptionQueue:
        state = _state_of(terms, cursor)
        file = RecordFile(self._folder / f"{terms.name}{SUFFIX}", self._still_mine)
        file.replace([header(terms), state.snapshot()])
        return SubscriptionQueue(terms, state, file, self._source_of, self._clock)

    def _load(self, path: Path) -> SubscriptionQueue:
        first, second, *records = RecordFile.read(path)
        terms = Terms.from_dict(first["terms"])
        try:
            state = _state_of(terms, "")
            state.restore(second)
            for record in records:
                state.apply(record)
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptionError(
                f"subscription file '{path}' is damaged", found=f"a record that does not fit: {error!r}"[:200]
            ) from error
        state.start_again(self._clock())
        file = RecordFile(path, self._still_mine)
        # Replaced, so that a process that had the workspace before writes to a file without a name.
        file.replace([header(terms), state.snapshot()])
        return SubscriptionQueue(terms, state, file, self._source_of, self._clock)


def _clock() -> Clock:
    """The time in ms; it never goes back while the process runs."""
    began_ms, began_s = time.time_ns() // 1_000_000, time.monotonic()
    return lambda: began_ms + round((time.monotonic() - began_s) * 1000)


def _state_of(terms: Terms, cursor: str) -> SubscriptionState:
    return SubscriptionState(cursor, terms.timeout_ms, keeps=terms.guarantee == AT_LEAST_ONCE)


def _same(queue: SubscriptionQueue, terms: Terms, names: Collection[str]) -> SubscriptionStatus:
    """The status of a subscription that exists, if it has these of the terms."""
    for name in ("stream", "view", *names):
        present, asked_for = getattr(queue.terms, name), getattr(terms, name)
        if present != asked_for:
            raise ConflictError(
                f"subscription '{terms.name}' exists with another {name.removesuffix('_ms')}",
                found=repr(present)[:200],
                expected=repr(asked_for)[:200],
                fix="use another name, or drop it first",
            )
    return queue.status()
