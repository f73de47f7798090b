"""A `headrace up` process with a workspace for the demo, and what is read from it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib import resources
from pathlib import Path
from typing import Any

import orjson

from headrace.api.http_client import HttpServer, Params
from headrace.errors import UnavailableError
from headrace.tools.demo.exact_answers import Row
from headrace.workspace.lease_holder import read_holder
from headrace.workspace.settings import SETTINGS_FILE

PAGE_ROWS = 300  # less than most views have, so that cursors are used
REPLY_S = 70.0


class ServerReader:
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
        """Return whether every view has the events of a token; waits up to a second."""
        state = self.get(f"/v1/tokens/{token}", wait="1s")
        if state["stalled"]:
            raise UnavailableError(f"views are stalled: {', '.join(state['stalled'])}", fix="`headrace views` says why")
        return bool(state["complete"])


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
    return resources.files("headrace.tools.demo").joinpath("shop.sql").read_text(encoding="utf-8")


def shop_tests() -> str:
    """The tests of the shop's definitions, for `headrace test`."""
    return resources.files("headrace.tools.demo").joinpath("shop.yaml").read_text(encoding="utf-8")


class ShopServer:
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
