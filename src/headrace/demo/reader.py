"""Reads from the server: status, rows of views page by page, and whether views have all events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from headrace.api.http_client import HttpServer, Params
from headrace.demo.reference import Row
from headrace.errors import UnavailableError

PAGE_ROWS = 300  # less than most views have, so that cursors are used
REPLY_S = 70.0


class Reader:
    """Requests to the server; every failure is raised as one sentence."""

    def __init__(self, url: str) -> None:
        self._http = HttpServer(url)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def get(self, path: str, **parameters: str) -> dict[str, Any]:
        """A JSON reply."""
        return self._call("GET", path, parameters)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """The JSON reply to a JSON body."""
        return self._call("POST", path, content=orjson.dumps(body))

    def _call(self, method: str, path: str, params: Params = (), content: bytes | None = None) -> dict[str, Any]:
        headers = {"content-type": "application/json"} if content else {}
        try:
            reply = self._http.request(method, path, params=params, content=content, headers=headers, timeout=REPLY_S)
            value: dict[str, Any] = orjson.loads(reply.content)
        except (OSError, ValueError) as error:
            raise UnavailableError(f"{method} {path} failed: {type(error).__name__}: {error}") from error
        if reply.status != 200:
            raise UnavailableError(f"{method} {path} failed: {value.get('error', {}).get('message', value)}")
        return value

    def status(self) -> dict[str, Any]:
        """State of the server, streams and views."""
        return self.get("/v1/status")

    def ask(self, view: str, **parameters: str) -> dict[str, Any]:
        """One answer."""
        return self.get(f"/v1/views/{view}", **parameters)

    def all_rows(self, view: str) -> Iterator[Row]:
        """Every row of a view, page by page."""
        cursor: dict[str, str] = {}
        while True:
            answer = self.ask(view, limit=str(PAGE_ROWS), **cursor)
            yield from answer["rows"]
            if answer["next_cursor"] is None:
                return
            cursor = {"cursor": answer["next_cursor"]}

    def has(self, token: str) -> bool:
        """Whether every view has the events of a token; waits up to a second."""
        state = self.get(f"/v1/tokens/{token}", wait="1s")
        if state["stalled"]:
            raise UnavailableError(f"views are stalled: {', '.join(state['stalled'])}", fix="`headrace views` says why")
        return bool(state["complete"])
