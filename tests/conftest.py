"""One Spark session for all tests; folders run in the order in which a fault shows soonest."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from . import wording
from .java import OPTIONS
from .warm import Java

# Of servers that tests start. A stop takes two seconds, and several times as long on a busy machine.
os.environ.setdefault("HEADRACE_SPARK_JAVA_OPTIONS", OPTIONS)
os.environ.setdefault("HEADRACE_STOP_WITHIN_S", "30")

# Tests that are started in the background ignore Ctrl-C, as do their processes; some tests send it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# `make test` tries the same examples each time, so that it fails only when the code changes; `make test-fast` few of
# them. CI tries others each time, from a seed that it prints. HYPOTHESIS_PROFILE=search tries many.
_quiet = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
settings.register_profile("few", max_examples=3, derandomize=True, database=None, **_quiet)
settings.register_profile("repeat", max_examples=12, derandomize=True, database=None, **_quiet)
settings.register_profile("random", max_examples=12, database=None, print_blob=True, **_quiet)
settings.register_profile("search", max_examples=500, **_quiet)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))

ORDER = ["unit", "contracts", "laws", "docs", "spark", "equivalence", "surfaces", "faults", "services", "real_data"]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-wording", action="store_true", help="write the files of tests/wording again")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(wording.Plugin(config))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Fast folders first."""
    root = Path(__file__).parent

    def rank(item: pytest.Item) -> int:
        folder = item.path.relative_to(root).parts[0]
        return ORDER.index(folder) if folder in ORDER else len(ORDER)

    items.sort(key=rank)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """Makes real small file systems, for disks that are full."""
    mounted: list[Path] = []

    def mount(size: int) -> Path:
        folder = tmp_path / f"disk-{len(mounted)}"
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "headrace-test", str(folder)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            pytest.skip(f"mounting a file system is not permitted here: {ended.stderr.strip()}")
        mounted.append(folder)
        return folder

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "-l", str(folder)], check=False)


@pytest.fixture
def run_python() -> Callable[..., None]:
    """Runs a program in a process of its own, to its end."""

    def run(program: str, *arguments: str, code: int = 0, **variables: str) -> None:
        ended = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            cwd=Path(__file__).parents[1],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == code, ended.stderr

    return run


@pytest.fixture(scope="session")
def java(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    """Outlives the servers that run on it."""
    one = Java(tmp_path_factory.mktemp("java"))
    yield one
    one.close()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The session that the product builds, small."""
    from headrace.spark.build import build_session

    folder = tmp_path_factory.mktemp("spark")
    session = build_session(folder, master="local[2]", driver_memory="1g", java_options=OPTIONS, app="tests")
    yield session
    session.stop()
