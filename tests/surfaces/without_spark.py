"""A server without Spark in a process of its own: `python -m tests.surfaces.without_spark FOLDER` prints its URL."""

from __future__ import annotations

import io
import signal
import sys
from pathlib import Path

from headrace import logs
from headrace.server.runtime import Runtime
from headrace.web.application import create_app
from headrace.web.http_server import HttpListener, bind, url_of
from headrace.workspace.settings import Workspace


def main(folder: Path) -> None:
    logs.configure("info", folder / "test.log", io.StringIO())
    listener = bind("127.0.0.1", 0)
    listener.listen()  # requests as soon as the URL is printed wait for the server
    runtime = Runtime.open(Workspace.open(folder), url_of(listener))
    server = HttpListener(create_app(runtime), runtime.workspace.settings.max_connections)
    server.on_stop = runtime.stopped.set
    signal.signal(signal.SIGTERM, lambda *_: server.stop())
    print(runtime.url, flush=True)  # noqa: T201
    server.run(sockets=[listener])
    runtime.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
