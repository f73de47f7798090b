"""Queries a view of a server that will die again and again: no query may fail, and each answer must be right."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx2

from ..warm import WarmServer
from .ledger import Ledger, Total
from .tally import Outcome

PAUSE_S = 0.1
DEAD_WITHIN_S = 60.0  # from the end of its connections to the end of a process, on a busy machine


class Witness:
    """Asks until the server is dead or the test is over."""

    def __init__(
        self,
        server: WarmServer,
        ledger: Callable[[], Ledger],
        limits: Callable[[], set[int]],
        outcome: Outcome,
        *,
        strict: bool = True,
    ) -> None:
        self._server = server
        self._strict = strict  # else it may say that it cannot answer
        self._ledger = ledger
        self._limits = limits
        self._outcome = outcome
        self._wrong: list[object] = []
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._ask, name="witness", daemon=True)

    def __enter__(self) -> Witness:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._enough.set()
        self._thread.join(180)
        self._outcome.failed += len(self._wrong)
        assert not self._wrong, self._wrong[:3]

    def _ask(self) -> None:
        while not self._enough.is_set():
            before = self._limits()
            try:
                reply = self._server.http.get(f"{self._server.url}/v1/views/total")
            except httpx2.TransportError:
                with suppress(subprocess.TimeoutExpired):
                    self._server.process.wait(DEAD_WITHIN_S)
                if self._server.process.poll() is None:
                    self._wrong.append("no answer from a server that runs")
                return
            self._judge(reply, before | self._limits())
            self._enough.wait(PAUSE_S)

    def _judge(self, reply: httpx2.Response, limits: set[int]) -> None:
        self._outcome.answers += 1
        if reply.status_code != httpx2.codes.OK:
            if self._strict or reply.json()["error"]["code"] not in ("not_ready", "corruption"):
                self._wrong.append(reply.text)
            return
        answer = total_of(reply.json()["rows"])
        if not self._ledger().shows(answer, limits):
            self._wrong.append((answer, reply.json()["version"], limits))


def total_of(rows: list[dict[str, Any]]) -> Total:
    """The answer of the view `total`."""
    return (rows[0]["n"], rows[0]["ids"], rows[0]["last"]) if rows and rows[0]["n"] else (0, 0, 0)
