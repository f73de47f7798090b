"""Jars by Maven, into a cache that all checkouts share."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from .process import NotAvailable, install, locked, run, say

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace"


def fetch_jars(service: str, pom: Path, name: str) -> Path:
    """The folder with the jars of a pom and all that they need; fetched once, whole or not at all."""
    folder = CACHE / name / hashlib.sha256(pom.read_bytes()).hexdigest()[:12]
    with locked(CACHE / name / ".lock"):
        if folder.exists():
            return folder
        if not shutil.which("mvn"):
            install(service, "maven", "Maven")
        say(service, f"fetching jars by Maven into {folder}, once")
        unfinished = Path(tempfile.mkdtemp(prefix=".fetch-", dir=folder.parent))
        try:
            goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
            command = ["mvn", "-B", "-f", str(pom), goal, "-DincludeScope=runtime", f"-DoutputDirectory={unfinished}"]
            run(service, "fetching jars by Maven", command, failure=NotAvailable)
            unfinished.chmod(0o755)
            unfinished.replace(folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        say(service, f"fetched {len(list(folder.glob('*.jar')))} jars")
    return folder
