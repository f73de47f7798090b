"""Settings are checked wherever they come from: the file, the environment, options, Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.errors import WorkspaceError
from headrace.workspace.settings import Settings, Workspace
from tests import wording


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "headrace.toml").write_text("")
    return tmp_path


def test_a_variable_overrides_the_file_and_an_option_overrides_both(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "headrace.toml").write_text('port = 1\nlog_level = "debug"\nrehearse = false\nlease_s = "wrong"\n')
    monkeypatch.setenv("HEADRACE_PORT", "2")
    monkeypatch.setenv("HEADRACE_LEASE_S", "7")
    settings = Workspace.open(folder).settings
    assert (settings.port, settings.log_level, settings.rehearse, settings.lease_s) == (2, "debug", False, 7)
    assert Workspace.open(folder, port=3).settings.port == 3


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("rehearse", "off", False),
        ("rehearse", "TRUE", True),
        ("port", "80", 80),
        ("upkeep_every_s", "5", 5.0),
        ("token", "", ""),
        ("spark_master", "local", "local"),
        ("spark_master", "local[2]", "local[2]"),
        ("spark_master", "local[*, 3]", "local[*, 3]"),
    ],
)
def test_a_variable_is_converted_to_the_type_of_its_setting(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, value: object
) -> None:
    monkeypatch.setenv(f"headrace_{name}", text)
    assert getattr(Workspace.open(folder).settings, name) == value


@pytest.mark.parametrize(
    ("name", "toml", "values"),
    [
        ("port", "70000", ("port", "70000", "65535")),
        ("port", "1.5", ("1.5",)),
        ("port", "true", ()),
        ("upkeep_every_s", "0", ("0.1",)),
        ("upkeep_every_s", "nan", ()),
        ("host", "5", ("5",)),
        ("rehearse", '"maybe"', ("maybe",)),
        ("log_level", '"loud"', ("loud",)),
        ("spark_master", '"spark://h:7077"', ("spark://h:7077",)),
        ("spark_master", '"local-cluster[2,1,512]"', ()),
        ("spark_master", '"yarn"', ()),
    ],
)
def test_an_invalid_value_is_named(folder: Path, name: str, toml: str, values: tuple[str, ...]) -> None:
    (folder / "headrace.toml").write_text(f"{name} = {toml}\n")
    with wording.raises(WorkspaceError, f"{folder}/headrace.toml", name) as error:
        Workspace.open(folder)
    wording.check(error.value, *values)


def test_each_source_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"port": -1}
    with wording.raises(WorkspaceError, "port", 1):
        Settings(**options)
    with wording.raises(WorkspaceError, "port"):
        Workspace.open(folder, **options)
    monkeypatch.setenv("HEADRACE_APPEND_MB", "none")
    with wording.raises(WorkspaceError, "HEADRACE_APPEND_MB", "append_mb"):
        Workspace.open(folder)


def test_an_unknown_setting_is_named(folder: Path) -> None:
    (folder / "headrace.toml").write_text("prot = 1\n")
    with wording.raises(WorkspaceError, "prot", "port"):
        Workspace.open(folder)
