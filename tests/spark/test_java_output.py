"""What Java prints at its start goes to a file, and says why if it does not start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.app import run

HEADRACE = Path(sys.executable).with_name("headrace")


@pytest.fixture
def applied(tmp_path: Path) -> Path:
    assert run(["init", str(tmp_path / "shop")]) == 0
    assert run(["apply", "--yes", "-w", str(tmp_path / "shop")]) == 0
    return tmp_path / "shop"


def sql(folder: Path, query: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [str(HEADRACE), "sql", "--events", query, "-w", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables}, check=False)


def test_the_terminal_shows_one_sentence(applied: Path) -> None:
    ran = sql(applied, "SELECT pag FROM visits")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: column 'pag' does not exist; did you mean 'page'?; stream 'visits' has: ")
    assert len(ran.stderr.splitlines()) == 1
    assert "incubator" in (applied / "data" / "logs" / "spark-events-java.log").read_text()


def test_a_java_that_does_not_start_says_why(applied: Path) -> None:
    ran = sql(applied, "SELECT 1", HEADRACE_SPARK_MEMORY="1")
    assert ran.returncode == 1
    assert ran.stderr.startswith("error: Java did not start; found Error occurred during initialization of VM; Too")
    assert len(ran.stderr.splitlines()) == 1
