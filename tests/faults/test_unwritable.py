"""Folders that cannot be written or files in their place: one sentence that names the path and what to do."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.cli.app import run

COMMANDS = {
    "up": ["up", "--port", "0"],
    "send": ["send", "clicks", "events.ndjson"],
    "apply": ["apply", "--yes"],
}


@pytest.fixture
def inside(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(workspace)
    (workspace / "events.ndjson").write_text(json.dumps({"id": 1, "at": "2026-04-01T10:00:00Z"}) + "\n")
    return workspace


@pytest.fixture
def read_only(small_disk: Callable[[int], Path]) -> Iterator[Callable[[Path], None]]:
    """Makes a folder part of a file system that refuses writes."""
    disk = small_disk(1 << 20)
    disk.chmod(0o700)
    bound: list[Path] = []

    def bind(folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        subprocess.run(["mount", "--bind", str(disk), str(folder)], check=True)
        bound.append(folder)
        subprocess.run(["mount", "-o", "remount,ro,bind", str(folder)], check=True)

    yield bind
    for folder in bound:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def error_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The error of a command that must fail; without a stack trace."""
    assert run(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert "Traceback" not in error
    assert "please report" not in error
    return error


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_data_on_a_read_only_disk(
    inside: Path,
    read_only: Callable[[Path], None],
    capsys: pytest.CaptureFixture[str],
    command: list[str],
) -> None:
    if command[0] != "apply":
        assert run(["apply", "--yes"]) == 0
        (inside / "data").rename(inside / "before")
    capsys.readouterr()
    read_only(inside / "data")
    if command[0] == "send":
        command = ["send", "clicks", "events.ndjson"]
    error = error_of(command, capsys)
    if command[0] != "send":  # without a catalog no stream is known
        assert f"'{inside}/data/" in error
        assert "found read-only file system; its file system is read-only: make it writable" in error


@pytest.mark.parametrize("command", [COMMANDS["up"], COMMANDS["apply"]], ids=["up", "apply"])
def test_a_file_in_place_of_the_data_folder(
    inside: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    (inside / "data").write_text("not a folder")
    error = error_of(command, capsys)
    assert f"'{inside}/data" in error
    assert "expected a folder, found a file: move it away" in error


def test_a_file_in_place_of_a_journal(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["apply", "--yes"]) == 0
    (inside / "data" / "journal").write_text("not a folder")
    capsys.readouterr()
    for command in (COMMANDS["send"], ["status"]):
        assert f"'{inside}/data/journal" in error_of(command, capsys)


def test_status_and_plan_need_no_room(
    inside: Path, read_only: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    read_only(inside / "data")
    assert run(["status"]) == 0
    assert run(["plan"]) in (0, 2)
    assert "Traceback" not in capsys.readouterr().err


def test_a_definition_that_cannot_be_read(inside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (inside / "definitions" / "more.sql").write_bytes(b"\xff\xfe\x00")
    assert run(["apply", "--yes"]) == 2
    assert "more.sql:1:1: the definition file cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["port = ", "\x00\x01", "prt = 1", 'port = "x"'])
def test_settings_that_cannot_be_read(inside: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    (inside / "headrace.toml").write_text(content)
    assert f"settings '{inside}/headrace.toml'" in error_of(["status"], capsys)


@pytest.mark.parametrize("content", ["", "garbage", "{}", "[]", '{"definitions": [{}]}', '{"definitions": [1]}'])
def test_a_catalog_that_cannot_be_read(inside: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    assert run(["apply", "--yes"]) == 0
    (inside / "data" / "catalog.json").write_text(content)
    capsys.readouterr()
    for command in (["status"], ["plan"], COMMANDS["send"]):
        error = error_of(command, capsys)
        assert f"catalog '{inside}/data/catalog.json' cannot be read" in error
        assert "move it away" in error
