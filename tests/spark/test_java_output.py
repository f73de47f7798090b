"""What Java prints at its start goes to a file, and says why if it does not start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.app import run
from tests import wording

HEADRACE = Path(sys.executable).with_name("headrace")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    assert run(["init", str(tmp_path / "shop")]) == 0
    assert run(["apply", "--yes", "-w", str(tmp_path / "shop")]) == 0
    return tmp_path / "shop"


def sql(folder: Path, query: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [str(HEADRACE), "sql", "--events", query, "-w", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables}, check=False)


def test_the_terminal_shows_one_sentence(workspace: Path) -> None:
    result = sql(workspace, "SELECT pag FROM visits")
    assert (result.returncode, result.stdout) == (2, "")
    assert len(result.stderr.splitlines()) == 1
    wording.check(result.stderr, "pag", "page", "visits")
    assert "incubator" in (workspace / "data" / "logs" / "spark-events-java.log").read_text()


def test_a_java_that_does_not_start_says_why(workspace: Path) -> None:
    result = sql(workspace, "SELECT 1", HEADRACE_SPARK_MEMORY="1")
    assert result.returncode == 1
    assert result.stderr.startswith("error: Java did not start; found Error occurred during initialization of VM; Too")
    assert len(result.stderr.splitlines()) == 1
