"""`headrace status --watch`: updates continuously, across restarts of the server, until q or Ctrl-C."""

from __future__ import annotations

import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime

import orjson
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from headrace.api.connect import connect
from headrace.errors import UnavailableError
from headrace.server.status import WorkspaceStatus
from headrace.workspace.lease_holder import live_holder
from headrace.workspace.settings import Workspace

Wait = Callable[[float], bool]  # waits this many seconds; returns whether to continue
Render = Callable[[WorkspaceStatus], RenderableType]


def watch_json(workspace: str, every_s: float) -> None:
    """One JSON value per line and interval; a line also while no server is running."""
    with suppress(KeyboardInterrupt):
        while True:
            try:
                line = orjson.dumps(read_status(workspace))
            except UnavailableError as error:
                line = orjson.dumps({"state": "gone", "error": error.as_dict()})
            sys.stdout.write(line.decode() + "\n")
            sys.stdout.flush()
            time.sleep(every_s)


def watch_status(workspace: str, every_s: float, out: Console, render: Render) -> None:
    """A live screen on a terminal, else one block of text per interval."""
    look = _Watch(workspace, render)
    with suppress(KeyboardInterrupt):
        if not out.is_terminal:
            while True:
                out.print(look(), markup=False)
                out.print()
                time.sleep(every_s)
        with until_quit() as wait, Live(look(), console=out, screen=True, auto_refresh=False) as live:
            while wait(every_s):
                live.update(look(), refresh=True)


def read_status(workspace: str) -> WorkspaceStatus:
    """The status of a server, by a new connection.

    A folder without a server is not opened: an open store would keep a server from starting.
    """
    if not workspace.startswith(("http://", "https://")):
        folder = Workspace.open(workspace)
        holder = live_holder(folder.lease_file)
        if holder is None or holder.url is None:
            raise UnavailableError(
                f"no server is running for workspace '{folder.name}'", fix="`headrace up` starts one"
            )
    with connect(workspace) as connection:
        return connection.verbs.status()


class _Watch:
    """The status to show: the current one, or the last one with the time since which no server is running."""

    def __init__(self, workspace: str, render: Render) -> None:
        self._workspace = workspace
        self._render = render
        self._last: WorkspaceStatus | None = None
        self._at: datetime | None = None

    def __call__(self) -> RenderableType:
        now = datetime.now(UTC)
        try:
            self._last, self._at = read_status(self._workspace), now
            top = Text(f"{now:%H:%M:%S} UTC · q or Ctrl-C quits", style="dim")
        except UnavailableError as error:
            old = f"; numbers from {self._at:%H:%M:%S} UTC" if self._at else ""
            top = Text(f"{now:%H:%M:%S} UTC · {error.message}{old}; trying again", style="bold red")
        return Group(top, Text(), self._render(self._last)) if self._last else top


@contextmanager
def until_quit() -> Iterator[Wait]:
    """A wait that the key q ends, if the terminal supports it."""
    try:
        before = termios.tcgetattr(sys.stdin)
        tty.setcbreak(sys.stdin)
    except (OSError, ValueError, termios.error):  # not supported: Ctrl-C still works
        yield _sleep
        return

    def wait(seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while (remaining_s := deadline - time.monotonic()) > 0:
            if select.select([sys.stdin], [], [], remaining_s)[0] and sys.stdin.read(1) in ("q", "Q", ""):
                return False
        return True

    try:
        yield wait
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return True
