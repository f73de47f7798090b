"""References to secrets: read at the last moment, shown by name only."""

from __future__ import annotations

import pytest

from headrace.errors import SecretError
from headrace.secrets import is_secret, reveal, shown, without_passwords


def test_a_secret_of_the_environment(monkeypatch):
    monkeypatch.setenv("KAFKA_PW", "hunter2")
    assert is_secret("secret:KAFKA_PW")
    assert reveal("secret:KAFKA_PW") == "hunter2"
    assert reveal("plain") == "plain"


def test_a_secret_in_a_file(tmp_path):
    file = tmp_path / "pw"
    file.write_text("hunter2\n")
    assert reveal(f"secret:file:{file}") == "hunter2"


def test_secrets_that_are_not_there(monkeypatch, tmp_path):
    monkeypatch.delenv("KAFKA_PW", raising=False)
    with pytest.raises(SecretError, match="the secret 'secret:KAFKA_PW' is not set; expected an environment variable"):
        reveal("secret:KAFKA_PW")
    with pytest.raises(SecretError, match="cannot be read: No such file or directory"):
        reveal(f"secret:file:{tmp_path / 'none'}")
    (tmp_path / "bytes").write_bytes(b"\xff\xfehunter2")
    with pytest.raises(SecretError, match="it is not UTF-8") as caught:
        reveal(f"secret:file:{tmp_path / 'bytes'}")
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("properties.sasl.password", "hunter2", "***"),
        ("properties.sasl.password", "secret:PW", "secret:PW"),
        ("ssl.key.pem", "-----BEGIN", "***"),
        ("sasl.oauthbearer.client.secret", "x", "***"),
        ("token", "x", "***"),
        ("headers.authorization", "Bearer x", "***"),
        ("topic", "visits", "visits"),
        ("properties.ssl.key.location", "/etc/key.pem", "/etc/key.pem"),
        ("url", "postgresql://me:p@ss@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("url", "postgresql://host/db?user=me&password=x", "postgresql://host/db?user=me&password=***"),
        ("url", "host=h password='a b' dbname=d", "host=h password=*** dbname=d"),
        ("url", "http://localhost:9000/hook", "http://localhost:9000/hook"),
    ],
)
def test_what_is_shown(name, value, text):
    assert shown(name, value) == text


def test_messages_of_drivers():
    assert without_passwords("cannot reach postgresql://me:pw@host/db") == "cannot reach postgresql://me:***@host/db"
