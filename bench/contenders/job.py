"""What every contender does: a loop that runs the job over files, as the harness asks by JSON lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CORES = 2
JAVA_MEMORY = "1g"  # as a Headrace server has by default
LOG = "log"  # the argument of a job that also keeps every event


@dataclass(frozen=True)
class Job:
    """One run: files of JSON lines to read, an empty folder for state, and where the rows go for the comparison."""

    files: list[str]
    folder: Path
    rows: Path


def serve(run: Callable[[Job], float], version: str) -> None:
    """Run jobs until standard input ends. `run` returns the seconds until a point query was answered."""
    reply({"ready": True, "version": version})
    for line in sys.stdin:
        job = json.loads(line)
        reply({"seconds": run(Job(job["files"], Path(job["folder"]), Path(job["rows"])))})


def reply(content: dict[str, Any]) -> None:
    """One line of JSON. Engines print too, so that the harness looks for lines that begin with a brace."""
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()
