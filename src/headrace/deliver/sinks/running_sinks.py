"""The sinks of a server: those of its catalog run, each in its own thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from headrace.define.catalog import Catalog
from headrace.define.model import Sink
from headrace.deliver.sinks.sink_feed import Feed, StreamFeed, ViewFeed
from headrace.deliver.sinks.sink_progress import SinkProgress, new_progress, read_progress, write_progress
from headrace.deliver.sinks.sink_runner import SinkRunner, SinkState, rows_of
from headrace.deliver.sinks.sink_writer import SinkWriter, open_writer
from headrace.deliver.stream_logs import Log
from headrace.errors import NotFoundError, did_you_mean
from headrace.store.store_contract import Store
from headrace.workspace.settings import Workspace


class Sinks:
    """Starts, changes and drops sinks as a catalog says. Asked by any thread."""

    def __init__(self, store: Store, workspace: Workspace, log_of: Callable[[str], Log]) -> None:
        """`log_of` returns the log of a stream."""
        self._store = store
        self._workspace = workspace
        self._log_of = log_of
        self._changing = threading.Lock()
        self._runners: Mapping[str, SinkRunner] = {}  # replaced, never changed
        self._ending: list[SinkRunner] = []
        self._stopped = False

    def reconcile(self, catalog: Catalog) -> None:
        """Run the sinks of a catalog, and no others. What the store knows of sinks that are not in it is removed."""
        with self._changing:
            if self._stopped:
                return
            known = read_progress(self._store)
            running = dict(self._runners)
            for name in sorted({*running, *known} - set(catalog.sinks)):
                runner = running.pop(name, None)
                if runner is None:
                    runner = self._make(known[name], catalog)
                    runner.drop()
                    runner.start()
                else:
                    runner.drop()
                self._ending.append(runner)
            for name, sink in catalog.sinks.items():
                before = running.get(name)
                if before is None or before.sink != sink:
                    running[name] = self._start(sink, known.get(name), before, catalog)
            self._runners = running
            self._ending = [runner for runner in self._ending if not runner.join(0)]

    def _start(
        self, sink: Sink, progress: SinkProgress | None, before: SinkRunner | None, catalog: Catalog
    ) -> SinkRunner:
        if before is None:  # a dropped one of the same name may still be ending
            before = next((runner for runner in self._ending if runner.sink.name == sink.name), None)
            if before is not None:
                progress = None
        else:
            before.stop()
        now = new_progress(sink) if progress is None else progress.with_definition(sink)
        if before is None:
            write_progress(self._store, now)
        runner = self._make(now, catalog, before)
        runner.start()
        return runner

    def _make(self, progress: SinkProgress, catalog: Catalog, before: SinkRunner | None = None) -> SinkRunner:
        return SinkRunner(progress, self._feed(progress.sink, catalog), self._open, self._store, before)

    def _feed(self, sink: Sink, catalog: Catalog) -> Feed:
        if sink.source in catalog.streams:
            return StreamFeed(sink, lambda: self._log_of(sink.source), rows_of(sink))
        return ViewFeed(sink, self._store, rows_of(sink))

    def _open(self, sink: Sink) -> SinkWriter:
        return open_writer(sink, self._workspace)

    def wake(self) -> None:
        """Something changed: all look for what to send."""
        for runner in self._runners.values():
            runner.wake()

    def states(self) -> list[SinkState]:
        """What each sink does, by name."""
        return [runner.state() for _, runner in sorted(self._runners.items())]

    def pause(self, name: str, paused: bool) -> SinkState:
        """Pause a sink, or let it continue."""
        runner = self._find(name)
        runner.pause(paused)
        return runner.state()

    def retry(self, name: str) -> SinkState:
        """Retry a stalled sink immediately."""
        runner = self._find(name)
        runner.retry()
        return runner.state()

    def _find(self, name: str) -> SinkRunner:
        runners = self._runners
        if name not in runners:
            hint = did_you_mean(name, runners)
            raise NotFoundError(
                f"sink '{name}' does not exist", fix=f"{hint + ' ' if hint else ''}`headrace sinks` lists all"
            )
        return runners[name]

    def stop(self, within_s: float) -> None:
        """Stop all of them; what a batch under way does not finish is sent again."""
        with self._changing:
            self._stopped = True
            runners = [*self._runners.values(), *self._ending]
            for runner in runners:
                runner.stop()
        deadline = time.monotonic() + within_s
        for runner in runners:
            runner.join(max(0.0, deadline - time.monotonic()))
