"""Serves the application in this process, on a socket that is bound before anything else starts."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import http.client
import resource
import socket
from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import partial
from typing import cast

import orjson
import uvicorn
from fastapi import FastAPI

from headrace.errors import WorkspaceError
from headrace.server.status import Health
from headrace.web.protocol import LimitedProtocol

OTHER_FILES = 512  # of the log, the store and the journal
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # numbers of glibc's malloc.h
_THIS_MACHINE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # where a server on all addresses is reached
HEALTH_S, LONGEST_HEALTH = 2.0, 1 << 20
GRACE_S = 3  # for requests in flight when the server stops


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to an address; port 0 chooses a free port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # TCP by its number: asyncio turns Nagle's algorithm off only on sockets that have it, and a reply
    # of two writes would wait 40 ms for the client's acknowledgement of the first.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a restart need not wait for old connections
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            other = "Headrace server" if is_headrace(host, port) else "program"
            raise WorkspaceError(
                f"port {port} on {host} is in use by another {other}",
                fix="choose another with --port, or --port 0 for a free one",
            ) from error
        raise WorkspaceError(
            f"cannot listen on host '{host}', port {port}: {error.strerror or error}",
            fix="choose others with --host, --port",
        ) from error
    return listener


def is_headrace(host: str, port: int) -> bool:
    """Whether a Headrace server listens at an address: its /health is known and needs no token."""
    connection = http.client.HTTPConnection(_THIS_MACHINE.get(host, host), port, timeout=HEALTH_S)
    try:
        connection.request("GET", "/health")
        health = orjson.loads(connection.getresponse().read(LONGEST_HEALTH))
    except (OSError, http.client.HTTPException, orjson.JSONDecodeError):
        return False
    finally:
        connection.close()
    return isinstance(health, dict) and health.keys() == {each.name for each in fields(Health)}


def url_of(listener: socket.socket) -> str:
    """The URL that reaches a bound socket."""
    host, port = listener.getsockname()[:2]
    address = _THIS_MACHINE.get(host, host)
    return f"http://[{address}]:{port}" if ":" in address else f"http://{address}:{port}"


def raise_file_limit(connections: int) -> int:
    """Raise the limit of open files for this many connections; returns how many the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = connections + OTHER_FILES
    if soft < target:
        soft = target if hard == resource.RLIM_INFINITY else min(target, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(connections, soft - OTHER_FILES))


def give_memory_back() -> None:
    """Let the allocator return the memory of large bodies to the system as soon as they are freed.

    By default glibc keeps freed blocks of up to 32 MB, in up to eight arenas per core: after a load test with 10 MB
    bodies it kept 90 MB; with these limits 40 MB. Other C libraries have no such option.
    """
    with contextlib.suppress(OSError, AttributeError):
        set_option = ctypes.CDLL("libc.so.6").mallopt
        set_option(_M_MMAP_THRESHOLD, 2 << 20)
        set_option(_M_ARENA_MAX, 2)


class HttpListener(uvicorn.Server):
    """A server that leaves signals to its caller."""

    def __init__(self, app: FastAPI, most_connections: int) -> None:
        connections = raise_file_limit(most_connections)
        give_memory_back()
        super().__init__(
            uvicorn.Config(
                app,
                http=cast(
                    "type[asyncio.Protocol]", partial(LimitedProtocol, connections, app.state.timeouts.headers_s)
                ),
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                timeout_keep_alive=60,
                timeout_graceful_shutdown=GRACE_S,
            )
        )
        self._app = app
        self.on_stop: Callable[[], None] = lambda: None  # called when it begins to stop, before requests in flight end

    def stop(self) -> None:
        """Accept no more requests, finish those in flight, then return from `run`. Callable from any thread."""
        self._app.state.stopping = True
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.on_stop()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
