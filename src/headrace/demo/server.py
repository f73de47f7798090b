"""A `headrace up` process with a workspace for the demo."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from importlib import resources
from pathlib import Path
from typing import Any

import orjson

from headrace.api.http_client import HttpServer
from headrace.errors import UnavailableError
from headrace.workspace.holder import read_holder
from headrace.workspace.settings import SETTINGS_FILE

START_S = 120.0
STOP_S = 15.0
MOST_CHARACTERS = 400
COMMAND = "import sys; from headrace.cli import main; sys.exit(main())"
# Settings of the user's own workspace must not apply to the demo.
USER_SETTINGS = ("HEADRACE_HOST", "HEADRACE_PORT", "HEADRACE_TOKEN", "HEADRACE_DATA")


def make_workspace(folder: Path, definitions: str, tests: str | None = None) -> None:
    """A folder that `headrace up` can serve, and `headrace test` can test if there are tests."""
    (folder / "definitions").mkdir(parents=True, exist_ok=True)
    (folder / SETTINGS_FILE).write_text("# every setting at its default\n")
    (folder / "definitions" / "shop.sql").write_text(definitions, encoding="utf-8")
    if tests is not None:
        (folder / "tests").mkdir(exist_ok=True)
        (folder / "tests" / "shop.yaml").write_text(tests, encoding="utf-8")


def shop_definitions() -> str:
    """The streams and views of the shop, in SQL."""
    return resources.files("headrace.demo").joinpath("shop.sql").read_text(encoding="utf-8")


def shop_tests() -> str:
    """The tests of the shop's definitions, for `headrace test`."""
    return resources.files("headrace.demo").joinpath("shop.yaml").read_text(encoding="utf-8")


class Server:
    """Started by the constructor; `stop` ends it as Ctrl-C would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "up.log"
        self.url = ""
        environment = {name: value for name, value in os.environ.items() if name not in USER_SETTINGS}
        with self.log.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-c", COMMAND, "up", "--port", "0"],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # the demo handles Ctrl-C and stops the server once
            )

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def wait_until_ready(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Wait until the server accepts events; raises UnavailableError if it does not."""
        deadline = time.monotonic() + START_S
        state: dict[str, Any] = {}
        while time.monotonic() < deadline:
            self.check()
            holder = read_holder(self.folder / "data" / "lease.json")
            if holder and holder.pid == self._process.pid and holder.url:
                self.url = holder.url
                state = self._health()
                if state.get("status") == "ok":
                    return
            meanwhile()
            time.sleep(0.1)
        reason = f" ({state['reason']})" if state.get("reason") else ""
        raise UnavailableError(f"the server was not ready within {START_S:.0f} s{reason}")

    def check(self) -> None:
        """Raise if the process has ended."""
        code = self._process.poll()
        if code is not None:
            raise UnavailableError(f"the server ended with exit code {code}: {self._last_line()}")

    def stop(self) -> bool:
        """Stop the process; whether it stopped by itself, without being killed."""
        if self._process.poll() is not None:
            return self._process.returncode == 0
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._kill()
            return False
        except KeyboardInterrupt:  # the second Ctrl-C
            self._kill()
            raise
        return True

    def _kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _health(self) -> dict[str, Any]:
        try:
            with closing(HttpServer(self.url)) as http:
                state: dict[str, Any] = orjson.loads(http.request("GET", "/health", timeout=2).content)
        except (OSError, ValueError):
            return {}
        return state

    def _last_line(self) -> str:
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1][:MOST_CHARACTERS] if lines else "no output"
