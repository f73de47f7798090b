"""Checks of the machine: Python, packages, Java, memory. Java is started only to read its version and modules."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.spark.session import java_command
from headrace.tools.doctor.finding import Finding, bad, good, warn

OLDEST_PYTHON = (3, 11)
JAVA_WITHIN_S = 10
LEAST_FREE_MB = 1_500  # memory of an idle server
VECTORS = "jdk.incubator.vector"
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*\(?([^;()]*)\)?\s*(?:;(.*))?")
_CLAUSE = re.compile(r"(>=|==|<=|<|>|!=|~=)\s*([0-9][\w.]*)")


def check_machine() -> list[Finding]:
    """Check what commands and Spark need of this machine."""
    return [_check_python(), _check_packages(requires("headrace") or []), _check_java(), check_memory()]


def _check_python() -> Finding:
    release = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        return bad("python", f"Python {release} is too old", f"install Python {oldest} or newer")
    return good("python", f"Python {release} ({sys.executable})")


def _check_packages(requirements: list[str]) -> Finding:
    problems, count = [], 0
    for requirement in requirements:
        match = _REQUIREMENT.fullmatch(requirement)
        if match is None or not _applies(match[3] or ""):
            continue
        count += 1
        try:
            installed = version(match[1])
        except PackageNotFoundError:
            problems.append(f"{match[1]} is not installed")
            continue
        if not all(_satisfies(installed, op, required) for op, required in _CLAUSE.findall(match[2])):
            problems.append(f"{match[1]} {installed} is not {match[2].strip()}")
    if problems:
        return bad("packages", "; ".join(problems), f"`{sys.executable} -m pip install --upgrade headrace` brings them")
    return good("packages", f"{count} packages, all versions match")


def _applies(marker: str) -> bool:
    """Return whether a requirement applies to this machine: not that of an extra or of another system."""
    if "extra" in marker:
        return False
    return not ("sys_platform != 'win32'" in marker.replace('"', "'") and sys.platform == "win32")


def _satisfies(installed: str, op: str, required: str) -> bool:
    own, other = _numbers(installed), _numbers(required)
    width = max(len(own), len(other))
    a, b = own + (0,) * (width - len(own)), other + (0,) * (width - len(other))
    match op:
        case ">=":
            return a >= b
        case "<=":
            return a <= b
        case "<":
            return a < b
        case ">":
            return a > b
        case "==":
            return a == b
        case "!=":
            return a != b
    return a >= b and a[: max(1, len(other) - 1)] == b[: max(1, len(other) - 1)]


def _numbers(text: str) -> tuple[int, ...]:
    """The release numbers of a version; what follows them (rc1, .post2) does not matter here."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def _check_java() -> Finding:
    try:
        command = java_command()
        modules = subprocess.run(
            [command, "--list-modules"], capture_output=True, text=True, check=False, timeout=JAVA_WITHIN_S
        ).stdout
    except HeadraceError as error:
        return Finding.of("java", error)
    except (OSError, subprocess.SubprocessError) as error:
        return bad("java", f"Java does not run: {error}", "install a JDK 17 or newer, or set JAVA_HOME")
    release = re.search(r"java\.base@(\S+)", modules)
    if VECTORS not in modules:
        return bad(
            "java",
            f"Java {release[1] if release else ''} at {command} lacks the module {VECTORS}, which Spark loads",
            "install a whole JDK or JRE 17 or newer (Debian: openjdk-17-jre-headless), not one cut down by jlink",
        )
    return good("java", f"Java {release[1] if release else 'of unknown version'} at {command}")


def check_memory(meminfo: Path = Path("/proc/meminfo")) -> Finding:
    """Return whether there is enough free memory for a server."""
    try:
        fields = dict(re.findall(r"(\w+):\s+(\d+) kB", meminfo.read_text()))
        free_mb, total_mb = int(fields["MemAvailable"]) // 1024, int(fields["MemTotal"]) // 1024
    except (OSError, KeyError):
        return good("memory", "the system does not say how much is free")
    message = f"{free_mb:,} MB of {total_mb:,} MB are free"
    if free_mb < LEAST_FREE_MB:
        return warn("memory", message, f"end other programs: a server takes about {LEAST_FREE_MB:,} MB")
    return good("memory", message)
