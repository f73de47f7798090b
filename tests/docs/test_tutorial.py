"""The tutorial, word by word: its commands run in order, and what it shows is what they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from tests import http
from tests.ports import free_port

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(bash|text)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(port: int) -> list[tuple[str, str, str]]:
    """(kind, its mark, text) of each block; the tutorial's port may be taken here."""
    tutorial = (ROOT / "docs/tutorial.md").read_text().replace("8090", str(port))
    return [(kind, mark.strip(), text) for kind, mark, text in BLOCK.findall(tutorial)]


@pytest.mark.timeout(1200)
def test_tutorial(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "HEADRACE_REHEARSE": "false",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    folder, printed, server = tmp_path, "", None
    try:
        port = free_port()
        for kind, mark, text in blocks(port):
            if kind == "text":
                for line in text.strip().splitlines():
                    assert line in printed, (line, printed)
            elif mark == "background":
                server = start(text, folder, environment, port)
            else:
                printed = run(text, folder, environment, fails=mark == "fails")
                if "cd shop" in text:
                    folder = tmp_path / "shop"
    finally:
        if server is not None:
            server.terminate()
            assert server.wait(120) == 0


def run(text: str, folder: Path, environment: dict[str, str], *, fails: bool) -> str:
    """Run a block as bash would; all that it printed."""
    ended = subprocess.run(
        ["bash", "-c", text], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=500
    )
    assert "Traceback" not in ended.stderr, (text, ended.stderr)
    assert (ended.returncode != 0) == fails, (text, ended.stdout, ended.stderr)
    return ended.stdout + ended.stderr


def start(text: str, folder: Path, environment: dict[str, str], port: int) -> subprocess.Popen[bytes]:
    """Run a block in the background until events flow: what follows waits for views for a limited time."""
    server = subprocess.Popen(["bash", "-c", f"exec {text.strip()}"], cwd=folder, env=environment)
    while server.poll() is None:
        try:
            if http.get(f"http://127.0.0.1:{port}/health").json()["status"] == "ok":
                return server
        except httpx2.HTTPError:
            pass
        time.sleep(0.05)
    raise AssertionError("the server ended")
