"""The table [kafka] of headrace.toml."""

from __future__ import annotations

import pytest

from headrace.errors import WorkspaceError
from headrace.workspace.settings import Workspace


def workspace(folder, text: str) -> Workspace:
    (folder / "headrace.toml").write_text(text)
    return Workspace.open(folder)


def test_names_with_and_without_quotes(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_KAFKA_SASL_PASSWORD", "secret:PW")
    text = '[kafka]\nbootstrap.servers = "k:9092"\n"security.protocol" = "SASL_SSL"\nsocket.keepalive.enable = true\n'
    assert workspace(tmp_path, f"port = 0\n{text}").kafka_properties == {
        "bootstrap.servers": "k:9092",
        "sasl.password": "secret:PW",
        "security.protocol": "SASL_SSL",
        "socket.keepalive.enable": "true",
    }


def test_without_it(tmp_path):
    assert workspace(tmp_path, "").kafka_properties == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kafka = 5", "'kafka' is a table; found 5"),
        ('[kafka]\nbootstrap.server = "k"', "has no setting 'bootstrap.server'; did you mean"),
        ('[kafka]\nsasl.jaas.config = "x"', "is a setting of the Java client"),
        ('[kafka]\nauto.offset.reset = "latest"', "cannot be set: Headrace sets it"),
    ],
)
def test_mistakes(tmp_path, text, says):
    with pytest.raises(WorkspaceError, match=r"headrace\.toml") as caught:
        workspace(tmp_path, text)
    assert says in str(caught.value)
