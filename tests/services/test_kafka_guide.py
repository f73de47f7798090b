"""The guide to Kafka, with a checkout: its commands and statements run in order and lead to the answer."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.server import UpServer
from tests.waiting import wait_until
from tests.warm import Java

from .running import ANSWER_S, Kafka

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guides" / "kafka.md").read_text()
TOPIC = f"guide-{os.getpid()}"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def run(kafka: Kafka, tmp_path: Path) -> Iterator[Run]:
    """Runs lines as bash would, with the broker of the tests and folders of the test in place of the guide's."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "HEADRACE_SERVICES": str(kafka.folder)}
    here = {"../shop": str(tmp_path / "shop"), "/tmp/orders.txt": str(tmp_path / "orders.txt"), "=orders": f"={TOPIC}"}

    def run_lines(text: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
        for old, new in here.items():
            text = text.replace(old, new)
        command = ["bash", "-ec", text]
        return subprocess.run(
            command, cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=2 * ANSWER_S,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    yield run_lines
    UpServer.kill_all()


def succeed(ended: subprocess.CompletedProcess[str]) -> str:
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_guide_leads_to_an_answer(run: Run, java: Java, tmp_path: Path) -> None:
    _setup, messages, workspace, starts, asks, curl = blocks("bash")
    succeed(run(messages))
    succeed(run(workspace))
    folder = tmp_path / "shop"
    status = succeed(run("make -s services-status SERVICES=kafka"))
    settings = re.search(r"^ *\[kafka\]\n *bootstrap\.servers = .*$", status, re.MULTILINE)
    assert settings, status
    with (folder / "headrace.toml").open("a") as toml:
        toml.write(f"\n{settings[0]}\n")
    files = re.findall(r"`(definitions/\w+\.sql)`:", GUIDE)
    for file, statements in zip(files, blocks("sql"), strict=True):
        (folder / file).write_text(statements.replace("topic = 'orders'", f"topic = '{TOPIC}'"))
    plan, up = starts.strip().splitlines()
    assert up == "headrace up"
    assert "3 to create" in succeed(run(plan, folder))
    server = java.server(folder).wait_until_ready()
    wait_until(lambda: server.status_of("orders")["events"] == 3, details=server.log_tail)
    printed = succeed(run(asks, folder))
    assert re.findall(r"^(US|DE) +([\d.]+) *$", printed, re.MULTILINE) == [("US", "120.00"), ("DE", "39.80")]
    answer = json.loads(succeed(run(curl.replace("http://127.0.0.1:8090", server.url), folder)))
    rows = [(row["country"], row["orders"], row["revenue"], row["customers"]) for row in answer["rows"]]
    assert sorted(rows) == [("DE", 2, "39.80", 1), ("US", 1, "120.00", 1)]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("make kafka-topic", "write make kafka-topic TOPIC=orders"),
        ("make kafka-produce FILE=/dev/null", "write make kafka-produce TOPIC=orders FILE=orders.ndjson"),
        ("make kafka-produce TOPIC=no-such FILE=/dev/null", "`make kafka-topic TOPIC=…` creates one"),
    ],
)  # fmt: skip
def test_mistakes_say_what_to_write(run: Run, command: str, message: str) -> None:
    ended = run(command)
    assert (ended.returncode, message in ended.stderr) == (2, True), ended.stderr
