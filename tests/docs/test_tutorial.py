"""The tutorial, word by word: its commands run in order, and what it shows is what they print."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.lease import live_holder

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(bash|text)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> list[tuple[str, str, str]]:
    """(kind, its mark, text) of each block."""
    return [(kind, mark.strip(), text) for kind, mark, text in BLOCK.findall((ROOT / "docs/tutorial.md").read_text())]


@pytest.mark.timeout(400)
def test_tutorial(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HEADRACE_PORT": "8090"}
    folder, printed, server = tmp_path, "", None
    try:
        for kind, mark, text in blocks():
            if kind == "text":
                for line in text.strip().splitlines():
                    assert line in printed, (line, printed)
            elif mark == "background":
                server = start(text, folder, environment)
            else:
                printed = run(text, folder, environment, fails=mark == "fails")
                if "cd shop" in text:
                    folder = tmp_path / "shop"
    finally:
        if server is not None:
            server.terminate()
            assert server.wait(30) == 0


def run(text: str, folder: Path, environment: dict[str, str], *, fails: bool) -> str:
    """Run a block as bash would; all that it printed."""
    ended = subprocess.run(
        ["bash", "-c", text], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=200
    )
    assert "Traceback" not in ended.stderr, (text, ended.stderr)
    assert (ended.returncode != 0) == fails, (text, ended.stdout, ended.stderr)
    return ended.stdout + ended.stderr


def start(text: str, folder: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Run a block in the background until it takes events in."""
    server = subprocess.Popen(["bash", "-c", f"exec {text.strip()}"], cwd=folder, env=environment)
    while not live_holder(folder / "data" / "lease.json"):
        assert server.poll() is None, "the server ended"
    return server
