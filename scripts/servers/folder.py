"""The scratch folder of the services."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from .process import State, locked


class Folder:
    """The scratch folder and its services.json; one command at a time works in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path / "services.json"

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        self.path.mkdir(parents=True, exist_ok=True)
        with locked(self.path / ".lock"):
            yield

    def read(self) -> dict[str, State]:
        return dict(json.loads(self._file.read_text())) if self._file.exists() else {}

    def put(self, service: str, state: State | None) -> None:
        states = {**self.read(), service: state}
        text = json.dumps({name: state for name, state in states.items() if state}, indent=1)
        unfinished = self._file.with_suffix(".new")
        unfinished.touch(mode=0o600)  # it holds passwords
        unfinished.write_text(text + "\n")
        unfinished.replace(self._file)

    def remove_if_empty(self) -> None:
        if not self.read():
            shutil.rmtree(self.path, ignore_errors=True)
