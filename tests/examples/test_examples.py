"""Each example of examples/ runs as its README says, on a real server, and gives the known answers."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections import Counter
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from headrace.api.connect import Connection, connect
from headrace.cli.app import run
from tests.examples.answer import Answer
from tests.examples.answers import ALERTS, ANSWERS
from tests.examples.readmes import EXAMPLES, NAMES, commands, readme
from tests.waiting import wait_until
from tests.warm import Java

MOST_LINES = 45  # a README is one screen


def test_every_example_has_answers() -> None:
    assert sorted(ANSWERS) == NAMES


@pytest.mark.parametrize("example", NAMES, indirect=True)
def test_an_example_gives_the_known_answers(example: Path, java: Java, capsys: pytest.CaptureFixture[str]) -> None:
    for command in commands(example.name):
        if command[:2] == ["headrace", "up"]:
            java.server(example).wait_until_ready()
        elif command[0] == "python":
            subprocess.run([sys.executable, *command[1:]], check=True)
        else:
            assert command[0] == "headrace"
            assert run(command[1:]) == 0, (command, capsys.readouterr().err)
    with connect(example) as connection:
        for answer in ANSWERS[example.name](example / "events"):
            assert answer.rows, answer.view
            check(connection, answer)
        if example.name in ALERTS:
            key, values = ALERTS[example.name]
            wait_until(lambda: fired(connection, key) == values, 180)


def fired(connection: Connection, key: str) -> set[Any]:
    """The keys of all incidents, whether they are over or not."""
    alerts = connection.verbs.alerts()
    return {each.key[key] for alert in alerts for each in (*alert.incidents, *alert.resolved)}


def check(connection: Connection, answer: Answer) -> None:
    rows = [dict(row) for row in connection.ask(answer.view, **answer.question).rows()]
    cells = [tuple(plain(row[column]) for column in answer.columns) for row in rows]
    expected = [tuple(map(plain, row)) for row in answer.rows]
    if not answer.in_order:
        cells, expected = sorted(cells, key=repr), sorted(expected, key=repr)
    if not answer.tolerance:
        assert cells == expected, answer.view
        return
    is_close = [any(isinstance(row[n], float) for row in expected) for n in range(len(answer.columns))]
    found = {exact_of(row, is_close): floats_of(row, is_close) for row in cells}
    assert found.keys() == {exact_of(row, is_close) for row in expected}, answer.view
    for row in expected:
        numbers = floats_of(row, is_close)
        assert found[exact_of(row, is_close)] == pytest.approx(numbers, rel=answer.tolerance), (answer.view, row)


def exact_of(row: tuple[Any, ...], is_close: list[bool]) -> tuple[Any, ...]:
    return tuple(cell for cell, close in zip(row, is_close, strict=True) if not close)


def floats_of(row: tuple[Any, ...], is_close: list[bool]) -> list[Any]:
    return [cell for cell, close in zip(row, is_close, strict=True) if close]


def plain(value: Any) -> Any:
    """Comparable values: numbers as such, times as texts."""
    if isinstance(value, Decimal):
        return float(value)
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


@pytest.mark.parametrize("example", ["word-count"], indirect=True)
def test_words_from_a_socket_and_a_watched_folder(example: Path, java: Java) -> None:
    subprocess.run([sys.executable, "events.py"], check=True)
    java.server(example).wait_until_ready()
    command = [str(Path(sys.executable).with_name("headrace")), "send", "lines"]
    watching = subprocess.Popen([*command, "--watch", "events", "--pattern", "first.txt"])
    with (example / "listen.log").open("wb") as log:
        listening = subprocess.Popen([*command, "--listen", "127.0.0.1:0"], stderr=log)
    try:
        wait_until(lambda: "listening on" in (example / "listen.log").read_text())
        port = int((example / "listen.log").read_text().partition("127.0.0.1:")[2].partition(".")[0])
        with socket.create_connection(("127.0.0.1", port), timeout=180) as connection:
            connection.sendall((example / "events" / "socket.txt").read_bytes())
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""  # all lines are stored
        texts = [(example / "events" / name).read_text() for name in ("first.txt", "socket.txt")]
        counts = Counter(word.lower() for text in texts for word in re.findall("[A-Za-z]+", text))
        with connect(example) as ws:
            wait_until(lambda: {row["word"]: row["n"] for row in ws.ask("word_count").rows()} == counts)
    finally:
        for process in (watching, listening):
            process.terminate()
            assert process.wait(180) == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_readme_is_one_screen_with_true_numbers(name: str) -> None:
    text = readme(name)
    assert len(text.splitlines()) <= MOST_LINES
    code = [
        line
        for path in sorted((EXAMPLES / name / "definitions").iterdir())
        for line in path.read_text().splitlines()
        if line.strip() and not line.lstrip().startswith(("--", "#"))
    ]
    for line in re.findall(r"^\|.*\| (\d+) \|$", text, re.MULTILINE):
        assert int(line) == len(code), name
    assert f"({name}/README.md)" in (EXAMPLES / "README.md").read_text()
    assert f"(../examples/{name}/README.md)" in (EXAMPLES.parent / "docs" / "cookbook.md").read_text()
