"""Clients of the benchmark: threads that send and query over open connections."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

from headrace.errors import UnavailableError


class Connection:
    """One open HTTP connection; it is closed when nothing refers to it any more."""

    def __init__(self, url: str) -> None:
        self._http = http.client.HTTPConnection(urlsplit(url).netloc, timeout=120)

    def __del__(self) -> None:
        self._http.close()

    def post(self, path: str, body: bytes, content_type: str = "application/json") -> dict[str, Any]:
        return self._send("POST", path, body, {"Content-Type": content_type})

    def get(self, path: str) -> dict[str, Any]:
        return self._send("GET", path, None, {})

    def _send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> dict[str, Any]:
        try:
            self._http.request(method, path, body, headers)
            reply = self._http.getresponse()
            content = reply.read()
        except (OSError, http.client.HTTPException) as error:
            self._http.close()  # the next request opens it again
            raise UnavailableError(f"{method} {path} was not answered: {type(error).__name__}: {error}") from error
        if reply.status >= 300:
            raise UnavailableError(f"{method} {path} was answered with {reply.status}: {content[:300].decode()}")
        return dict(json.loads(content))

    def wait_for_token(self, token: str) -> None:
        """Wait until every view has the events of a token."""
        while not self.get(f"/v1/tokens/{token}?wait=30s")["complete"]:
            pass


def at_rate(per_second: float, seconds: float) -> Iterator[tuple[int, float]]:
    """Numbers at a constant rate, each with the time when it was due; a late one comes at once."""
    start = time.monotonic()
    for number in range(int(per_second * seconds)):
        due = start + number / per_second
        time.sleep(max(0.0, due - time.monotonic()))
        yield number, due


def in_threads(count: int, act: Callable[[int], None]) -> None:
    """Run in parallel; an error of any thread is raised here."""
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            act(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
