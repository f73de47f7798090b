"""The answers of an example do not depend on the order of its events, nor on how these are split into commits."""

from __future__ import annotations

import csv
import json
import random
import re
import subprocess
import sys
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import headrace.testing
from tests.examples.answer import Answer
from tests.examples.answers import ANSWERS
from tests.examples.readmes import NAMES, commands

MOST_EVENTS = 150  # of a file: enough for cells that get events in several commits
# Of two moves at the same time, and of an order and a change of its customer's plan, the order of arrival decides.
ORDERED = ("people-and-places", "web-shop")


@pytest.mark.parametrize("example", [name for name in NAMES if name not in ORDERED], indirect=True)
def test_any_order_and_split_gives_the_known_answers(example: Path) -> None:
    subprocess.run([sys.executable, "events.py"], check=True)
    definitions = "".join(path.read_text() for path in example.glob("definitions/*.sql"))
    draw = random.Random(example.name)
    given: dict[str, list[Any]] = {}
    for command in commands(example.name):
        if command[:2] == ["headrace", "send"]:
            files = [Path(word) for word in command[3:] if not word.startswith("--")]
            events = [event for file in files for event in sampled(file, draw)]
            is_table = f"CREATE TABLE {command[2]}" in definitions
            given[command[2]] = events if is_table else in_commits(events, draw)
    answers = [each for each in ANSWERS[example.name](Path("events")) if f"CREATE VIEW {each.view}" not in definitions]
    tests = [{"name": f"{n}: {each.view}", "given": given, **expectation(each)} for n, each in enumerate(answers)]
    Path("tests/any_order.yaml").write_text(json.dumps(tests, default=plain))  # JSON is YAML
    headrace.testing.check(example, ["tests/any_order.yaml"])


def sampled(file: Path, draw: random.Random) -> list[Any]:
    """Leave some lines in a file, and return them as events of a test."""
    lines = file.read_text().splitlines()
    header = lines[:1] if file.suffix == ".csv" else []
    chosen = draw.sample(lines[len(header) :], min(len(lines) - len(header), MOST_EVENTS))
    file.write_text("".join(f"{line}\n" for line in header + chosen))
    if header:
        return [{name: number(cell) for name, cell in row.items()} for row in csv.DictReader(header + chosen)]
    return [json.loads(line) for line in chosen] if file.suffix == ".ndjson" else chosen


def number(cell: str) -> Any:
    return float(cell) if re.fullmatch(r"-?\d+\.\d+", cell) else int(cell) if re.fullmatch(r"-?\d+", cell) else cell


def in_commits(events: list[Any], draw: random.Random) -> list[Any]:
    """Events with marks between them where a commit ends."""
    return [item for event in events for item in ([{"commit": None}, event] if draw.random() < 0.05 else [event])]


def expectation(answer: Answer) -> dict[str, Any]:
    """The question and the rows of an answer, as a test says them."""
    question = {"view": answer.view, **answer.question}
    if "by" in question:
        question["by"] = ",".join(question["by"])
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    expected: dict[str, Any] = {"rows": rows, "ordered": answer.in_order}
    if answer.tolerance:
        close = [name for row in rows for name, value in row.items() if isinstance(value, float)]
        expected["tolerance"] = dict.fromkeys(close, f"{answer.tolerance:.12%}")
    return {"ask": question, "expect": expected}


def plain(value: datetime | Decimal) -> Any:
    return value.isoformat() if isinstance(value, datetime) else float(value)
