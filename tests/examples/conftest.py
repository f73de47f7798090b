"""A copy of an example, in which nothing outside of it is reached."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples.readmes import EXAMPLES
from tests.server import UpServer

MADE = ("data", "events", "adjustments")  # by those who tried the example


@pytest.fixture
def example(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the example, which is the current folder. Its sinks find no broker."""
    folder = tmp_path / request.param
    shutil.copytree(EXAMPLES / request.param, folder, ignore=shutil.ignore_patterns(*MADE))
    with (folder / "headrace.toml").open("a") as settings:
        settings.write('[kafka]\nbootstrap.servers = "127.0.0.1:1"\n')
    monkeypatch.chdir(folder)
    yield folder
    UpServer.kill_all()
