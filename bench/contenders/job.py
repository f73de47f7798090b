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
JARS = ".bench/jars"  # Kafka connectors, a folder for each engine
LOG = "log"  # the argument of a job that also keeps every event


@dataclass(frozen=True)
class Job:
    """One run: what to read, an empty folder for state, and where the rows go for the comparison.

    Jobs read files of JSON lines, or a topic with one event in each message.
    """

    files: list[str]
    folder: Path
    rows: Path
    servers: str = ""
    topic: str = ""


def serve(run: Callable[[Job], float], version: str) -> None:
    """Run jobs until standard input ends. `run` returns the seconds until a point query was answered."""
    reply({"ready": True, "version": version})
    for line in sys.stdin:
        job = json.loads(line)
        reply({"seconds": run(Job(**{**job, "folder": Path(job["folder"]), "rows": Path(job["rows"])}))})


def reply(content: dict[str, Any]) -> None:
    """One line of JSON. Engines print too, so that the harness looks for lines that begin with a brace."""
    sys.stdout.write(json.dumps(content) + "\n")
    sys.stdout.flush()
