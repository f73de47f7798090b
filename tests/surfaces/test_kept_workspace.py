"""A workspace that was written before formats carried a version: it opens, and gives the answers that it gave then."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from headrace.store.duckdb.file_format import FORMAT
from tests.server import UpServer
from tests.surfaces.conftest import Ran
from tests.warm import Java
from tests.workspaces import kept

NAME = "format-1"
ANSWERS = orjson.loads((kept.HERE / f"{NAME}.json").read_bytes())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return kept.unpack(NAME, tmp_path)


@pytest.fixture
def server(java: Java, folder: Path) -> Iterator[UpServer]:
    yield java.server(folder).wait_until_ready()
    UpServer.kill_all()


@pytest.fixture
def ask(folder: Path, headrace: Callable[..., Ran]) -> kept.Ask:
    def command(*arguments: object) -> Any:
        ran = headrace(*arguments, "--json", "-w", folder)
        assert ran.code == 0, ran
        return ran.json

    return command


def test_it_is_small() -> None:
    assert sum(path.stat().st_size for path in kept.HERE.glob(f"{NAME}.*")) < 200_000


def test_without_a_server_it_answers_what_it_did(ask: kept.Ask) -> None:
    assert {**kept.views(ask), "versions": kept.versions(ask)} == ANSWERS["offline"]


def test_a_server_recovers_it_and_answers_what_it_did(server: UpServer, ask: kept.Ask) -> None:
    kept.wait_for_all(server)
    assert {**kept.views(ask), "streams": kept.streams(ask)} == ANSWERS["served"]
    assert {name: kept.sent(server, name) for name in ANSWERS["sent"]} == ANSWERS["sent"]
    ask("rollback", "traffic", "--yes")
    kept.wait_for_all(server)
    assert kept.views(ask)["traffic"] == ANSWERS["rolled back"]
    assert server.stop() == 0
    formats = next(finding for finding in ask("doctor")["findings"] if finding["check"] == "formats")
    assert formats["said"] == f"workspace 1; lake 1; journal 2; store {FORMAT}"
