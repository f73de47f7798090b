"""References to secrets: read at the last moment, shown by name only."""

from __future__ import annotations

import pytest

from headrace.errors import SecretError
from headrace.secrets import is_secret, reveal, shown, without_passwords, without_secret_options


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
        ("url", "http://localhost:9000", "http://localhost:9000"),
        ("url", "http://localhost:9000/", "http://localhost:9000/"),
        ("url", "http://localhost:9000/hook", "http://localhost:9000/***"),
        ("url", "https://hooks.example.com/services/T0/B0/x1", "https://hooks.example.com/***"),
        ("webhook", "https://h/bot12:AA-b/send?chat=7&x=1", "https://h/***?chat=7&x=1"),
        (
            "url",
            "https://h?api_key=a&access_key=b&apikey=c&x=1#y",
            "https://h?api_key=***&access_key=***&apikey=***&x=1#y",
        ),
        ("url", "https://h?sv=2&sig=a%2Fb&X-Amz-Signature=c", "https://h?sv=2&sig=***&X-Amz-Signature=***"),
        ("url", "https://h/?key=a&token=b&password=c", "https://h/?key=***&token=***&password=***"),
        ("url", "https://sk_live_1@h:8443/v1", "https://***@h:8443/***"),
        ("url", "https://me:p@ss@h/v1", "https://***@h/***"),
    ],
)
def test_what_is_shown(name, value, text):
    assert shown(name, value) == text


def test_messages_of_drivers():
    assert without_passwords("cannot reach postgresql://me:pw@host/db") == "cannot reach postgresql://me:***@host/db"


def test_lines_of_definitions():
    line = "WITH (url = 'https://h?api_key=x1', token = 'x2', mode = 'update', webhook='https://h/x3')"
    hidden = without_secret_options(line)
    assert len(hidden) == len(line)
    assert not [secret for secret in ("x1", "x2", "x3") if secret in hidden]
    assert "mode = 'update'" in hidden
    assert without_secret_options("WHERE page = 'http' AND n > 5") == "WHERE page = 'http' AND n > 5"
