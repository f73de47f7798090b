"""A workspace: its folder, its paths and its settings, from `headrace.toml`, then HEADRACE_* variables."""

from __future__ import annotations

import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from headrace.call_limits import limit_calls
from headrace.disk import read_format, refuse_newer, write_format
from headrace.errors import WorkspaceError, did_you_mean
from headrace.name_encoding import encode_name
from headrace.spark.session import QUICK_JAVA

_WORDS = {
    **dict.fromkeys(("true", "1", "yes", "on", "t", "y"), True),
    **dict.fromkeys(("false", "0", "no", "off", "f", "n"), False),
}


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest value of a setting, its words, or its pattern."""

    least: float | None = None
    most: float | None = None
    words: tuple[str, ...] = ()
    pattern: str | None = None  # of a text
    described: str = ""  # the pattern in words


def check_value(kind: str, value: Any, bounds: Bounds) -> Any:
    """The value as the type that `kind` names, such as 'int'; raises a ValueError that names what was expected."""
    if value is None and kind.endswith("| None"):
        return None
    typed = _READERS[kind.removesuffix(" | None")](value)
    if bounds.words and typed not in bounds.words:
        raise ValueError(f"one of {', '.join(bounds.words)}")
    if bounds.pattern and not re.fullmatch(bounds.pattern, typed):
        raise ValueError(bounds.described)
    if bounds.least is not None and typed < bounds.least:
        raise ValueError(f"at least {bounds.least:g}")
    if bounds.most is not None and typed > bounds.most:
        raise ValueError(f"at most {bounds.most:g}")
    return typed


def _read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("text")
    return value


def _read_bool(value: Any) -> bool:
    word = str(value).lower() if isinstance(value, str | int) else ""
    if word not in _WORDS:
        raise ValueError("true or false")
    return _WORDS[word]


def _read_int(value: Any) -> int:
    number = _number(value)
    if not number.is_integer():
        raise ValueError("a whole number")
    return int(number)


def _read_float(value: Any) -> float:
    number = _number(value)
    if not math.isfinite(number):
        raise ValueError("a number")
    return number


def _number(value: Any) -> float:
    """A number, or a text that is one, as a float; else NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


_READERS: dict[str, Callable[[Any], Any]] = {
    "str": _read_text,
    "bool": _read_bool,
    "int": _read_int,
    "float": _read_float,
}


SETTINGS_FILE = "headrace.toml"
PREFIX = "HEADRACE_"
FORMAT = 1  # of the data folder: its layout, the lease, the catalog and the slices of builds


def _setting(default: Any, description: str, **bounds: Any) -> Any:
    """A setting with its default, its description and its valid values."""
    return field(default=default, metadata={"description": description, "bounds": Bounds(**bounds)})


@dataclass(frozen=True)
class Settings:
    """Every setting, with its default. A variable HEADRACE_PORT sets `port`. An invalid value is refused."""

    host: str = _setting("127.0.0.1", "address to listen on")
    port: int = _setting(8090, "port to listen on; 0 selects a free port", least=0, most=65535)
    token: str | None = _setting(None, "bearer token of HTTP requests; required unless host is loopback")
    data: str = _setting("data", "data folder: lakes, store and journals; relative to the workspace")
    spark_master: str = _setting(
        "local[*]",
        "Spark master: `local[N]` or `local[*]`; clusters are not supported yet",
        pattern=r"local(\[ *(\*|\d+) *(, *\d+ *)?\])?",
        described="local[N] or local[*]: clusters are not supported yet",
    )
    spark_memory: str = _setting("1g", "heap size of the Spark driver")
    spark_java_options: str = _setting(QUICK_JAVA, "JVM options of Spark")
    http_allow: str = _setting(
        "",
        "hosts that HTTP sinks and alerts may reach, such as `hooks.example.com, *.internal:8443`; empty: all",
    )
    max_body_mb: int = _setting(64, "maximum request body, also decompressed and as JSON", least=1, most=1024)
    bodies_mb: int = _setting(96, "maximum memory for request bodies (at least `max_body_mb`); above it 429", least=1)
    max_connections: int = _setting(2000, "maximum number of connections; above it 429", least=10)
    append_every_ms: int = _setting(200, "minimum time between two commits of a stream", least=0)
    append_mb: int = _setting(96, "maximum journal bytes in one commit", least=1)
    fused_lane: bool = _setting(True, "update views while events are appended; false: always by separate Spark jobs")
    upkeep_every_s: float = _setting(30.0, "pause between two runs of lake upkeep", least=0.1)
    lake_grace_s: float = _setting(
        3600.0, "time for which files replaced by compaction are kept for readers in other processes", least=0
    )
    refresh_every_s: float = _setting(3600.0, "refresh interval of views without a SCHEDULE", least=1)
    retire_after_s: float = _setting(
        86400.0, "time for which replaced versions can be rolled back to (at most five per view)", least=0
    )
    question_timeout_s: float = _setting(
        30.0,
        "timeout of a query to a view; for AS OF, it begins when Spark has computed the earlier state",
        least=0.1,
        most=3600,
    )
    function_timeout_s: float = _setting(
        30.0, "timeout of each call of a Python function or aggregate of the workspace", least=0.1, most=3600
    )
    sql_timeout_s: float = _setting(10.0, "timeout of a `headrace sql` query", least=0.1, most=3600)
    sql_memory_mb: int = _setting(1024, "memory limit of a `headrace sql` query, including its views", least=64)
    sql_at_once: int = _setting(2, "maximum number of concurrent `headrace sql` queries", least=1, most=64)
    lease_s: int = _setting(10, "another process may take over after this time without a heartbeat", least=2)
    stop_within_s: float = _setting(
        9.0,
        "time after which a stopping server is ended by force; choose less than your service manager waits",
        least=1,
    )
    rehearse: bool = _setting(True, "process a test event at start, so that the first real one is fast")
    log_level: str = _setting("info", "minimum log level", words=("debug", "info", "warning", "error"))

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            try:
                typed = check_value(str(each.type), value, each.metadata["bounds"])
            except ValueError as error:
                raise WorkspaceError(
                    f"'{each.name}' has an invalid value", found=repr(value), expected=str(error)
                ) from error
            object.__setattr__(self, each.name, typed)  # allowed here only: the object is being created


class Workspace:
    """A folder with `headrace.toml`, `definitions/` and the data folder."""

    def __init__(self, folder: Path, settings: Settings, kafka: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.settings = settings
        self.kafka_properties = dict(kafka or {})  # of every Kafka client; secrets among them are references
        self.data = folder / settings.data

    @classmethod
    def open(cls, folder: str | Path = ".", **overrides: Any) -> Workspace:
        """The workspace in a folder; `overrides` (such as `port`) take precedence.

        Raises NewerFormatError if the data folder has a newer format; nothing else in it is read before.
        """
        path = Path(folder).resolve()
        file = path / SETTINGS_FILE
        if not file.is_file():
            raise WorkspaceError(
                f"folder '{path}' is not a workspace",
                expected=f"a file {SETTINGS_FILE}",
                fix="`headrace init` creates one",
            )
        values = _read_file(file)
        kafka = _read_kafka(file, values)
        settings = _read_settings(file, values)
        options = {key: value for key, value in overrides.items() if value is not None}
        workspace = cls(path, _change(settings, options, "options"), kafka)
        limit_calls(workspace.settings.function_timeout_s)
        with suppress(PermissionError):  # code that needs the data folder reports the missing permission
            refuse_newer(f"workspace '{workspace.data}'", workspace.format, FORMAT)
        return workspace

    def make_data(self) -> None:
        """Create the data folder, for this user only. An existing one is not changed: it may be shared."""
        if not self.data.exists():
            self.data.parent.mkdir(parents=True, exist_ok=True)
            self.data.mkdir(mode=0o700, exist_ok=True)

    @property
    def format(self) -> int:
        """The format version of the data folder."""
        return read_format(self.data)

    def write_format(self) -> None:
        """Record the format version. Only the process that holds the lease calls this."""
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

    @property
    def subscriptions(self) -> Path:
        """The folder of the files of named subscriptions."""
        return self.data / "subscriptions"

    @property
    def alerts(self) -> Path:
        """The folder of the states of alerts."""
        return self.data / "alerts"

    def journal(self, stream: str) -> Path:
        """The folder of a stream's journal."""
        return self.data / "journal" / encode_name(stream)

    def kafka(self, stream: str) -> Path:
        """The folder of what is kept of a stream whose events are in Kafka: its partitions, requests sent to it."""
        return self.data / "kafka" / encode_name(stream)

    def lake(self, stream: str) -> Path:
        """The folder of a stream's table."""
        return self.data / "lake" / encode_name(stream)


def _read_file(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text())
    except PermissionError as error:
        raise WorkspaceError(
            f"settings '{file}' cannot be read: permission denied",
            fix="run this as the user who owns the workspace, or give this user read permission",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise WorkspaceError(f"settings '{file}' are not TOML: {error}", fix="fix that line") from error


def _read_settings(file: Path, values: Mapping[str, Any]) -> Settings:
    names = [each.name for each in fields(Settings)]
    for name in values:
        if name not in names:
            raise WorkspaceError(
                f"settings '{file}': '{name}' is not a setting",
                fix=did_you_mean(name, names) or f"settings are: {', '.join(names)}",
            )
    variables = _environment(names)
    from_file = {name: value for name, value in values.items() if name not in variables}
    settings = _change(Settings(), from_file, f"settings '{file}'")
    for name, text in variables.items():
        settings = _change(settings, {name: text}, f"variable {PREFIX}{name.upper()}")
    return settings


def _read_kafka(file: Path, values: dict[str, Any]) -> dict[str, str]:
    """Take the settings of Kafka clients out of these values; variables of the environment replace them."""
    if "kafka" not in values and not any(name.upper().startswith("HEADRACE_KAFKA_") for name in os.environ):
        return {}
    from headrace.workspace.kafka_settings import TABLE, read_kafka  # loads all names of librdkafka

    return read_kafka(values.pop(TABLE, {}), file)


def _environment(names: list[str]) -> dict[str, str]:
    """The settings in environment variables, whose names are not case-sensitive."""
    lower = {name.lower(): value for name, value in os.environ.items()}
    return {name: lower[f"{PREFIX.lower()}{name}"] for name in names if f"{PREFIX.lower()}{name}" in lower}


def _change(settings: Settings, values: Mapping[str, Any], source: str) -> Settings:
    try:
        return replace(settings, **values)
    except WorkspaceError as error:
        raise WorkspaceError(f"{source}: {error.message}", found=error.found, expected=error.expected) from error
