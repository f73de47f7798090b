"""Every command ends with 2 where what was asked for is wrong, and with 1 where it cannot be done."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.cli.app import COMMANDS
from tests.surfaces.conftest import Ran, Served

Command = Callable[..., Ran]
WRONG = {
    "init": [["a", "b"], ["--fields", "a,b"], ["shop/headrace.toml"], ["new", "--from"]],
    "plan": [["--exit-code=5"]],
    "apply": [[], ["--json"]],  # no terminal to ask on, and no --yes
    "test": [["-k", "no such test"], ["nosuch.yaml"], ["definitions"], ["--junit"]],
    "up": [["--port", "99999"], ["--port", "x"]],
    "send": [
        [],
        ["visits"],
        ["visits", "a.ndjson", "--format", "xml"],
        ["visits", "a.ndjson", "--delimiter", "x"],
        ["visits", "a.ndjson", "--timeout", "soon"],
        ["visits", "a.ndjson", "a.ndjson", "--follow"],
        ["visits", "a.csv", "--follow"],
    ],
    "ask": [
        [],
        ["traffic", "--start", "soon"],
        ["traffic", "--end", "-1 parsec"],
        ["traffic", "--window", "1 fortnight"],
        ["traffic", "--every", "x"],
        ["traffic", "--window", "90s"],
        ["traffic", "--start", "2026-01-02", "--end", "2026-01-01"],
        ["traffic", "--limit", "many"],
        ["traffic", "--limit", "0"],
        ["traffic", "--key", "page"],
        ["traffic", "--key", "pge=/home"],
        ["traffic", "--by", "pge"],
        ["traffic", "--cursor", "x"],
        ["traffic", "--version-as-of", "x"],
        ["traffic", "--timestamp-as-of", "soon"],
        ["traffic", "--version-as-of", "1", "--timestamp-as-of", "2026-01-01"],
        ["traffic", "--version-as-of", "1", "--watch"],
        ["traffic", "-w", "http://[", "--window", "1h"],
    ],
    "explain": [[], ["traffic", "--at", "soon"], ["traffic", "--key", "page"], ["traffic", "--limit", "x"]],
    "sql": [
        [],
        [""],
        ["SELECT"],
        ["SELECT 1", "-f", "a.sql"],
        ["SELECT 1", "--csv", "--json"],
        ["SELECT 1", "--limit", "0"],
        ["SELECT 1", "--limit", "x"],
        ["DROP TABLE traffic"],
        ["SELECT nosuch FROM traffic"],
        ["SELECT 1", "--events", "-w", "http://localhost:1"],
    ],
    "status": [["--every", "0"], ["--every", "often"], ["-w", "http://["]],
    "streams": [["-w", "http://["]],
    "tables": [["-w", "http://["]],
    "graph": [["-w", "http://["]],
    "generate": [[], ["visits", "--events", "x"], ["visits", "--field", "nosuch=1"]],
    "views": [["visits"]],
    "dead-letters": [
        [],
        ["visits", "burn"],
        ["visits", "show"],
        ["visits", "list", "5"],
        ["visits", "show", "x"],
        ["visits", "--limit", "0"],
        ["visits", "--cursor", "x"],
    ],
    "tail": [
        [],
        ["visits", "-n", "1", "--from", "latest"],
        ["visits", "-n", "x"],
        ["visits", "--no-follow", "--from", "soon"],
        ["visits", "--no-follow", "--where", "nosuch = 1"],
        ["visits", "--name", "s", "--no-follow"],
    ],
    "subscriptions": [
        ["burn"],
        ["drop"],
        ["create"],
        ["create", "s"],
        ["create", "a b", "--stream", "visits"],
        ["create", "s", "--stream", "visits", "--guarantee", "luck"],
        ["create", "s", "--stream", "visits", "--timeout", "soon"],
        ["create", "s", "--stream", "visits", "--where", "nosuch = 1"],
    ],
    "watch": [[], ["traffic", "--key", "page"], ["traffic", "--where", "nosuch = 1"], ["traffic", "--cursor", "x"]],
    "sinks": [["burn", "s"]],
    "alerts": [["-w", "http://["]],
    "skip": [[], ["visits"]],
    "versions": [[]],
    "rollback": [[], ["traffic", "--to", "x"]],
    "refresh": [[]],
    "audit": [[]],
    "doctor": [["--deep=yes"]],
    "demo": [["--seconds", "0"], ["--rate", "x"]],
}
IMPOSSIBLE = {
    "init": [["shop"], ["shop", "--from", "nosuch.csv"]],
    "send": [["visits", "nosuch.ndjson"], ["nosuch", "a.ndjson"], ["traffic", "a.ndjson"]],
    "ask": [["nosuch"], ["visits"], ["traffic", "-w", "http://127.0.0.1:9"]],
    "explain": [["nosuch", "--at", "2026-01-01"]],
    "sql": [["SELECT 1 FROM nosuch"], ["-f", "nosuch.sql"]],
    "status": [["-w", "nowhere"]],
    "streams": [["-w", "http://127.0.0.1:9"]],
    "tables": [["-w", "http://127.0.0.1:9"]],
    "graph": [["-w", "nowhere"]],
    "generate": [["nosuch", "--events", "1"]],
    "views": [["-w", "nowhere"]],
    "plan": [["-w", "nowhere"]],
    "apply": [["--yes", "-w", "nowhere"]],
    "test": [["-w", "nowhere"]],
    "up": [["-w", "nowhere"], ["--host", "0.0.0.0"]],
    "dead-letters": [["nosuch"]],
    "tail": [["nosuch"], ["nosuch", "--name", "s"], ["visits", "-w", "nowhere"]],
    "subscriptions": [["drop", "nosuch"], ["create", "s", "--stream", "nosuch"]],
    "watch": [["nosuch"]],
    "sinks": [["pause", "nosuch"]],
    "alerts": [["nosuch"]],
    "skip": [["nosuch", "--to", "latest", "--yes"]],
    "versions": [["nosuch"]],
    "rollback": [["nosuch", "--yes"]],
    "refresh": [["nosuch"]],
    "audit": [["nosuch"]],
    "demo": [["--keep", "shop"]],
}


@pytest.fixture
def here(applied: Path, serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder above a workspace that is served; commands without -w find the workspace by symbolic links."""
    serve(applied)
    monkeypatch.chdir(applied.parent)
    (applied.parent / "a.ndjson").write_text("{}\n")
    (applied.parent / "a.csv").write_text("a,b\n1,2\n")
    for part in applied.iterdir():
        (applied.parent / part.name).symlink_to(part)
    return applied.parent


def test_the_table_has_every_command() -> None:
    assert set(WRONG) == set(COMMANDS)
    assert set(IMPOSSIBLE) == set(COMMANDS) - {"doctor"}


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_invalid_input_exits_with_2(headrace: Command, here: Path, command: str) -> None:
    if command == "apply":
        (here / "definitions" / "more.sql").write_text("CREATE STREAM more (a INT);")
    for arguments in [["--nosuch"], *WRONG[command]]:
        ran = headrace(command, *arguments)
        assert ran.code == 2, (arguments, ran.err)
        assert ran.err.startswith(("error: ", '{"error":')), (arguments, ran.err)
        assert ran.err.count("\n") == 1, (arguments, ran.err)


@pytest.mark.parametrize("command", sorted(IMPOSSIBLE))
def test_a_failure_exits_with_1(headrace: Command, here: Path, command: str) -> None:
    for arguments in IMPOSSIBLE[command]:
        ran = headrace(command, *arguments)
        assert ran.code == 1, (arguments, ran.err)
