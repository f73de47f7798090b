"""A port for a server that is started later, or again."""

from __future__ import annotations

import random
import socket

PORTS = range(20_000, 32_000)  # the system gives none of these to connections and to servers on port 0


def free_port() -> int:
    """A port that nobody uses; other tests that run meanwhile do not get it by chance."""
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("all ports are in use")
