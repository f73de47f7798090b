"""The suites of the law and of kills, unchanged, with streams whose events are in a real Kafka broker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .running import Kafka

ROOT = Path(__file__).parents[2]
SUITES = {
    "law": ["tests/equivalence/test_law.py"],
    "law end to end": ["tests/equivalence/test_law_end_to_end.py"],
    "once per id": ["tests/faults/test_unique.py"],
    "kills": ["tests/faults/test_kill.py", "-k", "every_point"],
}


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_passes_on_kafka(kafka: Kafka, suite: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *SUITES[suite]],
        cwd=ROOT,
        env={**os.environ, "HEADRACE_TEST_KAFKA": kafka.bootstrap_servers},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-5000:]
    assert " passed" in ended.stdout
