"""Serves the application in this process, on a socket that is bound before anything else starts."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Iterator

import uvicorn
from fastapi import FastAPI

from headrace.errors import WorkspaceError

GRACE_S = 3  # for requests in flight when the server stops


def bind(host: str, port: int) -> socket.socket:
    """A listening address of our own; port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # TCP by its number: asyncio turns Nagle's algorithm off only on sockets that say so, and a reply
    # of two writes would wait 40 ms for the client's acknowledgement of the first.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a restart need not wait for old connections
    try:
        bound.bind((host, port))
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise WorkspaceError(
                f"port {port} on {host} is in use by another program",
                fix="choose another with --port, or --port 0 for a free one",
            ) from error
        raise WorkspaceError(
            f"cannot listen on host '{host}', port {port}: {error.strerror or error}",
            fix="choose others with --host, --port",
        ) from error
    return bound


def url_of(bound: socket.socket) -> str:
    """The URL that reaches a bound socket."""
    host, port = bound.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


class Server(uvicorn.Server):
    """A server that leaves signals to whoever runs it."""

    def __init__(self, app: FastAPI) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                timeout_keep_alive=60,
                timeout_graceful_shutdown=GRACE_S,
            )
        )
        self._app = app

    def stop(self) -> None:
        """Take no more requests, let those in flight end, then return from `run`. From any thread."""
        self._app.state.stopping = True
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
