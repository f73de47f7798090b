"""`headrace status --watch`: updates continuously, across restarts of the server, until q or Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from headrace.errors import UnavailableError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from headrace.server.state import WorkspaceStatus

Wait = Callable[[float], bool]  # waits so many seconds; whether to go on
Shown = Callable[["WorkspaceStatus"], "RenderableType"]


def watch_json(workspace: str, every_s: float) -> None:
    """One JSON value per line and interval; a server that is gone is a line too."""
    import orjson

    with suppress(KeyboardInterrupt):
        while True:
            try:
                found = orjson.dumps(read_status(workspace))
            except UnavailableError as error:
                found = orjson.dumps({"state": "gone", "error": error.as_dict()})
            sys.stdout.write(found.decode() + "\n")
            sys.stdout.flush()
            time.sleep(every_s)


def watch_status(workspace: str, every_s: float, out: Console, shown: Shown) -> None:
    """The live screen of a terminal, or a block per interval where there is none."""
    from rich.live import Live

    look = _Watch(workspace, shown)
    with suppress(KeyboardInterrupt):
        if not out.is_terminal:
            while True:
                out.print(look(), markup=False)
                out.print()
                time.sleep(every_s)
        with _keys() as wait, Live(look(), console=out, screen=True, auto_refresh=False) as live:
            while wait(every_s):
                live.update(look(), refresh=True)


def read_status(workspace: str) -> WorkspaceStatus:
    """The status of a server, by a connection of its own.

    A folder without a server is not opened: an open store would keep a server from starting.
    """
    from headrace.client.connect import connect
    from headrace.workspace.holder import live_holder
    from headrace.workspace.settings import Workspace

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
    """What to show now: the status, or the last one that was seen and since when the server is gone."""

    def __init__(self, workspace: str, shown: Shown) -> None:
        self._workspace = workspace
        self._shown = shown
        self._last: WorkspaceStatus | None = None
        self._at: datetime | None = None

    def __call__(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        now = datetime.now(UTC)
        try:
            self._last, self._at = read_status(self._workspace), now
            top = Text(f"{now:%H:%M:%S} UTC · q or Ctrl-C quits", style="dim")
        except UnavailableError as error:
            old = f"; numbers from {self._at:%H:%M:%S} UTC" if self._at else ""
            top = Text(f"{now:%H:%M:%S} UTC · {error.message}{old}; trying again", style="bold red")
        return Group(top, Text(), self._shown(self._last)) if self._last else top


@contextmanager
def _keys() -> Iterator[Wait]:
    """A wait that ends at the key q, where the terminal can be read key by key."""
    try:
        import select
        import termios
        import tty

        before = termios.tcgetattr(sys.stdin)
        tty.setcbreak(sys.stdin)
    except (ImportError, OSError, ValueError, termios.error):  # no such terminal: Ctrl-C remains
        yield _sleep
        return

    def wait(seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([sys.stdin], [], [], left)[0] and sys.stdin.read(1) in ("q", "Q", ""):
                return False
        return True

    try:
        yield wait
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return True
