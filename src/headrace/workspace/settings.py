"""A workspace: its folder, its settings (`headrace.toml`, then HEADRACE_* variables) and its paths."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from headrace.errors import WorkspaceError, did_you_mean
from headrace.spark.session import QUICK_JAVA
from headrace.workspace.values import Bounds, check_value

SETTINGS_FILE = "headrace.toml"
PREFIX = "HEADRACE_"


def _setting(default: Any, description: str, **bounds: Any) -> Any:
    """A setting with its default, what it is for, and the values that it takes."""
    return field(default=default, metadata={"description": description, "bounds": Bounds(**bounds)})


@dataclass(frozen=True)
class Settings:
    """Every setting, with its default. A variable HEADRACE_PORT sets `port`. A value that does not fit is refused."""

    host: str = _setting("127.0.0.1", "address that HTTP listens on")
    port: int = _setting(8090, "port that HTTP listens on; 0 takes a free one", least=0, most=65535)
    token: str | None = _setting(None, "bearer token that HTTP asks for; needed for any host but loopback")
    data: str = _setting("data", "folder of the log, the store and the journal, below the workspace")
    spark_master: str = _setting("local[*]", "Spark master")
    spark_memory: str = _setting("1g", "memory of the Spark driver's heap")
    spark_java_options: str = _setting(QUICK_JAVA, "options of Spark's Java, for its compiler and memory")
    max_body_mb: int = _setting(
        64, "largest body of one request, also when unpacked and when written as JSON", least=1, most=1024
    )
    bodies_mb: int = _setting(
        96, "most megabytes of bodies in memory at once (and at least one largest); beyond it 429", least=1
    )
    max_connections: int = _setting(2000, "most connections at once; beyond it 429", least=10)
    append_every_ms: int = _setting(700, "shortest time between two lake commits of a stream", least=0)
    append_mb: int = _setting(96, "most megabytes of the journal in one lake commit", least=1)
    upkeep_every_s: float = _setting(30.0, "pause between two rounds of the lake's upkeep", least=0.1)
    lake_grace_s: float = _setting(
        3600.0, "how long a file that compaction replaced stays, for readers in other processes", least=0
    )
    refresh_every_s: float = _setting(
        3600.0, "how often the batch layer takes over from the speed layer, where no SCHEDULE says", least=1
    )
    retire_after_s: float = _setting(
        86400.0, "how long versions that were replaced, the newest five of a view, can be gone back to", least=0
    )
    sql_timeout_s: float = _setting(10.0, "deadline of one query of `headrace sql`", least=0.1, most=3600)
    sql_memory_mb: int = _setting(1024, "most memory of one query of `headrace sql`, its views included", least=64)
    sql_at_once: int = _setting(2, "most queries of `headrace sql` at once; more are refused", least=1, most=64)
    lease_s: int = _setting(10, "a process that was silent for so long may be taken over from", least=2)
    rehearse: bool = _setting(True, "play an event through all parts at start, so that the first is quick")
    log_level: str = _setting("info", "least level that is logged", words=("debug", "info", "warning", "error"))

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            try:
                typed = check_value(str(each.type), value, each.metadata["bounds"])
            except ValueError as error:
                raise WorkspaceError(
                    f"'{each.name}' has a value that does not fit", found=repr(value), expected=str(error)
                ) from error
            object.__setattr__(self, each.name, typed)  # the one moment at which it may change: it is being made


class Workspace:
    """A folder with `headrace.toml`, `definitions/` and the data folder."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self.settings = settings
        self.data = folder / settings.data

    @classmethod
    def open(cls, folder: str | Path = ".", **overrides: Any) -> Workspace:
        """The workspace in a folder; `overrides` (such as `port`) win over everything."""
        path = Path(folder).resolve()
        file = path / SETTINGS_FILE
        if not file.is_file():
            raise WorkspaceError(
                f"folder '{path}' is not a workspace",
                expected=f"a file {SETTINGS_FILE}",
                fix="`headrace init` makes one",
            )
        settings = _read_settings(file)
        given = {key: value for key, value in overrides.items() if value is not None}
        return cls(path, _change(settings, given, "options"))

    def make_data(self) -> None:
        """Make the data folder, for this user alone. One that is there stays as it is: somebody may share it."""
        if not self.data.exists():
            self.data.parent.mkdir(parents=True, exist_ok=True)
            self.data.mkdir(mode=0o700, exist_ok=True)

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def definitions(self) -> Path:
        return self.folder / "definitions"

    @property
    def lease_file(self) -> Path:
        return self.data / "lease.json"

    @property
    def catalog_file(self) -> Path:
        return self.data / "catalog.json"

    @property
    def logs(self) -> Path:
        return self.data / "logs"

    @property
    def builds(self) -> Path:
        return self.data / "builds"

    def journal(self, stream: str) -> Path:
        """The folder of a stream's journal."""
        return self.data / "journal" / stream

    def lake(self, stream: str) -> Path:
        """The folder of a stream's table."""
        return self.data / "lake" / stream


def _read_settings(file: Path) -> Settings:
    try:
        given = tomllib.loads(file.read_text())
    except PermissionError as error:
        raise WorkspaceError(
            f"settings '{file}' cannot be read: permission denied",
            fix="run this as the user who owns the workspace, or permit this user to read them",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WorkspaceError(f"settings '{file}' are not TOML: {error}", fix="mend the line that it names") from error
    names = [each.name for each in fields(Settings)]
    for name in given:
        if name not in names:
            raise WorkspaceError(
                f"settings '{file}': '{name}' is not a setting",
                fix=did_you_mean(name, names) or f"there are: {', '.join(names)}",
            )
    variables = _environment(names)
    from_file = {name: value for name, value in given.items() if name not in variables}
    settings = _change(Settings(), from_file, f"settings '{file}'")
    for name, text in variables.items():
        settings = _change(settings, {name: text}, f"variable {PREFIX}{name.upper()}")
    return settings


def _environment(names: list[str]) -> dict[str, str]:
    """What the environment says of settings; its names are not case-sensitive."""
    lower = {name.lower(): value for name, value in os.environ.items()}
    return {name: lower[f"{PREFIX.lower()}{name}"] for name in names if f"{PREFIX.lower()}{name}" in lower}


def _change(settings: Settings, given: Mapping[str, Any], source: str) -> Settings:
    try:
        return replace(settings, **given)
    except WorkspaceError as error:
        raise WorkspaceError(f"{source}: {error.message}", found=error.found, expected=error.expected) from error
