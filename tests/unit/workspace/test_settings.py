"""Settings are checked wherever they come from: the file, the environment, options, Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.errors import WorkspaceError
from headrace.workspace.settings import Settings, Workspace


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
    ("name", "toml", "sentence"),
    [
        ("port", "70000", "'port' has an invalid value; found 70000; expected at most 65535"),
        ("port", "1.5", "found 1.5; expected a whole number"),
        ("port", "true", "found True; expected a whole number"),
        ("upkeep_every_s", "0", "found 0; expected at least 0.1"),
        ("upkeep_every_s", "nan", "found nan; expected a number"),
        ("host", "5", "found 5; expected text"),
        ("rehearse", '"maybe"', "found 'maybe'; expected true or false"),
        ("log_level", '"loud"', "found 'loud'; expected one of debug, info, warning, error"),
        ("spark_master", '"spark://h:7077"', "found 'spark://h:7077'; expected local[N] or local[*]: clusters are not"),
        ("spark_master", '"local-cluster[2,1,512]"', "expected local[N] or local[*]: clusters are not supported yet"),
        ("spark_master", '"yarn"', "expected local[N] or local[*]: clusters are not supported yet"),
    ],
)
def test_an_invalid_value_is_named(folder: Path, name: str, toml: str, sentence: str) -> None:
    (folder / "headrace.toml").write_text(f"{name} = {toml}\n")
    with pytest.raises(
        WorkspaceError, match=f"settings '{folder}/headrace.toml': '{name}' has an invalid value"
    ) as error:
        Workspace.open(folder)
    assert sentence in str(error.value)


def test_each_source_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"port": -1}
    with pytest.raises(WorkspaceError, match=r"^'port' has an invalid value; found -1"):
        Settings(**options)
    with pytest.raises(WorkspaceError, match=r"^options: 'port' has an invalid value"):
        Workspace.open(folder, **options)
    monkeypatch.setenv("HEADRACE_APPEND_MB", "none")
    with pytest.raises(WorkspaceError, match=r"^variable HEADRACE_APPEND_MB: 'append_mb' has .* a whole number"):
        Workspace.open(folder)


def test_an_unknown_setting_is_named(folder: Path) -> None:
    (folder / "headrace.toml").write_text("prot = 1\n")
    with pytest.raises(WorkspaceError, match="'prot' is not a setting; did you mean 'port'"):
        Workspace.open(folder)
