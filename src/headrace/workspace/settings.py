"""A workspace: its folder, its settings (`headrace.toml`, then HEADRACE_* variables) and its paths."""

from __future__ import annotations

import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from headrace.disk import read_format, refuse_newer, write_format
from headrace.errors import WorkspaceError, did_you_mean
from headrace.spark.session import QUICK_JAVA

SETTINGS_FILE = "headrace.toml"
FORMAT = 1  # of the data folder: its layout, the lease, the catalog and the slices of builds


class Settings(BaseSettings):
    """Every setting, with its default. A variable HEADRACE_PORT sets `port`."""

    model_config = SettingsConfigDict(env_prefix="HEADRACE_", extra="forbid")

    host: str = Field("127.0.0.1", description="address to listen on")
    port: int = Field(8090, ge=0, le=65535, description="port to listen on; 0 selects a free port")
    token: str | None = Field(None, description="bearer token of HTTP requests; required unless host is loopback")
    data: str = Field("data", description="data folder: lakes, store and journals; relative to the workspace")
    spark_master: str = Field("local[*]", description="Spark master")
    spark_memory: str = Field("1g", description="heap size of the Spark driver")
    spark_java_options: str = Field(QUICK_JAVA, description="JVM options of Spark")
    max_body_mb: int = Field(64, ge=1, le=1024, description="maximum request body, also decompressed and as JSON")
    bodies_mb: int = Field(
        96, ge=1, description="maximum memory for request bodies (at least `max_body_mb`); above it 429"
    )
    max_connections: int = Field(2000, ge=10, description="maximum number of connections; above it 429")
    append_every_ms: int = Field(700, ge=0, description="minimum time between two commits of a stream")
    append_mb: int = Field(96, ge=1, description="maximum journal bytes in one commit")
    upkeep_every_s: float = Field(30.0, ge=0.1, description="pause between two runs of lake upkeep")
    lake_grace_s: float = Field(
        3600.0, ge=0, description="how long files replaced by compaction are kept for readers in other processes"
    )
    refresh_every_s: float = Field(3600.0, ge=1, description="refresh interval of views without a SCHEDULE")
    retire_after_s: float = Field(
        86400.0,
        ge=0,
        description="how long replaced versions can be rolled back to (at most five per view)",
    )
    sql_timeout_s: float = Field(10.0, ge=0.1, le=3600, description="timeout of a `headrace sql` query")
    sql_memory_mb: int = Field(1024, ge=64, description="memory limit of a `headrace sql` query, including its views")
    sql_at_once: int = Field(2, ge=1, le=64, description="maximum number of concurrent `headrace sql` queries")
    lease_s: int = Field(10, ge=2, description="another process may take over after this time without a heartbeat")
    rehearse: bool = Field(True, description="process a test event at start, so that the first real one is fast")
    log_level: str = Field("info", pattern="^(debug|info|warning|error)$", description="minimum log level")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """A variable of the environment wins over the file."""
        return env_settings, init_settings


class Workspace:
    """A folder with `headrace.toml`, `definitions/` and the data folder."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self.settings = settings
        self.data = folder / settings.data

    @classmethod
    def open(cls, folder: str | Path = ".", **overrides: Any) -> Workspace:
        """The workspace in a folder; `overrides` (such as `port`) win over everything.

        Raises NewerFormatError, before anything else in the data folder is looked at, if that has a newer format.
        """
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
        workspace = cls(path, settings.model_copy(update=given))
        with suppress(PermissionError):  # whoever needs the data folder says which right is missing
            refuse_newer(f"workspace '{workspace.data}'", workspace.format, FORMAT)
        return workspace

    def make_data(self) -> None:
        """Make the data folder, for this user alone. An existing one is not changed: it may be shared."""
        if not self.data.exists():
            self.data.parent.mkdir(parents=True, exist_ok=True)
            self.data.mkdir(mode=0o700, exist_ok=True)

    @property
    def format(self) -> int:
        """The format version of the data folder."""
        return read_format(self.data)

    def write_format(self) -> None:
        """Record the format version; by the process that holds the lease."""
        write_format(self.data, FORMAT)

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
            fix="run this as the user who owns the workspace, or give this user read permission",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WorkspaceError(f"settings '{file}' are not TOML: {error}", fix="fix that line") from error
    for name in given:
        if name not in Settings.model_fields:
            raise WorkspaceError(
                f"settings '{file}': '{name}' is not a setting",
                fix=did_you_mean(name, Settings.model_fields) or f"settings are: {', '.join(Settings.model_fields)}",
            )
    try:
        return Settings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise WorkspaceError(
            f"settings '{file}': '{name}' has an invalid value",
            found=repr(first.get("input")),
            expected=str(first["msg"]),
        ) from error
