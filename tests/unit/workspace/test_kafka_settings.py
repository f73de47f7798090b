"""The table [kafka] of headrace.toml."""

from __future__ import annotations

import pytest

from headrace.errors import WorkspaceError
from headrace.workspace.settings import Workspace
from tests import wording


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
    ("text", "values"),
    [
        ("kafka = 5", ("kafka", "5")),
        ('[kafka]\nbootstrap.server = "k"', ("bootstrap.server",)),
        ('[kafka]\nsasl.jaas.config = "x"', ()),
        ('[kafka]\nauto.offset.reset = "latest"', ()),
    ],
)
def test_mistakes(tmp_path, text, values):
    with pytest.raises(WorkspaceError, match=r"headrace\.toml") as caught:
        workspace(tmp_path, text)
    wording.check(caught.value, *values)
