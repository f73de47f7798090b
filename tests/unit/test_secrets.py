"""References to secrets: read at the last moment, shown by name only."""

from __future__ import annotations

import pytest

from headrace.errors import SecretError
from headrace.secrets import (
    is_secret,
    parts_of_url,
    reveal,
    shown,
    without_passwords,
    without_secret_options,
    without_secrets,
)
from tests import wording


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
    with wording.raises(SecretError, "secret:KAFKA_PW"):
        reveal("secret:KAFKA_PW")
    with wording.raises(SecretError):
        reveal(f"secret:file:{tmp_path / 'none'}")
    (tmp_path / "bytes").write_bytes(b"\xff\xfehunter2")
    with wording.raises(SecretError, "UTF", 8) as caught:
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
        ("webhook", "https://h/bot12:AA-b/send?chat=7&x=1", "https://h/***"),
        ("url", "https://h?api_key=a&x=1#y", "https://h/***"),
        ("url", "https://h#y", "https://h/***"),
        ("url", "https://h:8443/a b's/c", "https://h:8443/***"),
        ("url", "https://me:p/w@h/x", "https://***"),
        ("url", "https://u:pw/x", "https://***"),
        ("url", "http://[::1]:80/x", "http://[::1]:80/***"),
        ("url", "hooks.example.com/services/T0", "hooks.example.com/***"),
        ("url", "postgresql://me:p/w@host:5432/db", "postgresql://me:***@host:5432/db"),
        (
            "url",
            "postgresql://host/db?sslpassword=x&sslmode=require",
            "postgresql://host/db?sslpassword=***&sslmode=require",
        ),
        ("header.x-auth", "x", "***"),
        ("header.x_signature", "x", "***"),
        ("header.x-team", "data", "data"),
        ("properties.session.timeout.ms", "9000", "9000"),
        ("ssl.keystore.key", "x", "***"),
        ("url", "https://sk_live_1@h:8443/v1", "https://***@h:8443/***"),
        ("url", "https://me:p@ss@h/v1", "https://***@h/***"),
    ],
)
def test_what_is_shown(name, value, text):
    assert shown(name, value) == text


def test_messages_of_drivers():
    wording.check(without_passwords("cannot reach postgresql://me:pw@host/db"))


def test_urls_in_messages():
    text = 'POST \'https://me@h/x1?k=x2\' failed: see (http://h:80/x3), http://h:80: refused, {"at": "https://h/x4"}'
    expected = 'POST \'https://***@h/***\' failed: see (http://h:80/***), http://h:80: refused, {"at": "https://h/***"}'
    assert without_passwords(text) == expected
    assert without_passwords(expected) == expected


def test_parts_of_a_url_are_hidden_in_answers():
    secrets = [*parts_of_url("https://user1:pass1@h/hook%201/b?x=query1&flag")]
    text = "no POST /hook%201/b?x=query1&flag, nor 'hook 1', query1 of user1 with pass1 at /b"
    wording.check(without_secrets(text, secrets), "POST", "***", "/b")


def test_lines_of_definitions():
    line = "WITH (url = 'https://h?api_key=x1', token = 'x2', mode = 'update', webhook='https://h/x3')"
    hidden = without_secret_options(line)
    assert len(hidden) == len(line)
    assert not [secret for secret in ("x1", "x2", "x3") if secret in hidden]
    assert "mode = 'update'" in hidden
    for line in (
        'url = "https://h/x1"', "url 'https://h/x1'", "'https://h/x1', mode = 'update'", "url = 'https://h/it''s/x1'",
        "url = 'https://h/x1", '{"token": "x1"}',
    ):  # fmt: skip
        assert "x1" not in without_secret_options(line)
        assert len(without_secret_options(line)) == len(line)
    assert without_secret_options("WHERE url = '/home'") == "WHERE url = '/home'"
    assert without_secret_options("WHERE page = 'http' AND n > 5") == "WHERE page = 'http' AND n > 5"
