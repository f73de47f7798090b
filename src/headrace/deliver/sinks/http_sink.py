"""Sends a sink to a URL: POST requests with JSON, at least once."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from fnmatch import fnmatchcase
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from urllib.parse import urlsplit

import orjson

from headrace.define.connectors import HTTP, is_http_url, value_of
from headrace.define.model import Sink
from headrace.deliver.sinks.sink_rows import json_lines
from headrace.deliver.sinks.sink_writer import DestinationError, SinkBatch
from headrace.faults import fault_point
from headrace.language.durations import parse_duration
from headrace.secrets import host_only, is_secret, is_sensitive, parts_of_url, reveal, without_secrets

SHOWN_REPLY = 200  # characters of a server's answer in an error
MOST_REPLY = 64 << 10  # bytes of it that are read
LONGEST_RETRY_AFTER_S = 600.0
_TRY_AGAIN = (408, 429)


class RefusedError(DestinationError):
    """The server says that the request itself is wrong: trying again soon does not help."""


class HttpWriter:
    """A URL that gets each batch in one request."""

    unfinished = False

    def __init__(self, sink: Sink, allowed: str = "") -> None:
        self._sink = sink
        self._poster = open_poster(sink, f"sink '{sink.name}'", allowed)

    def resume(self) -> str | None:
        """A URL records nothing."""
        return None

    def write(self, batch: SinkBatch) -> None:
        """Send the batch; it is at the server when this returns."""
        flags = {"snapshot": batch.snapshot, "restarted": batch.restarted, "more": batch.more}
        head = orjson.dumps({"sink": batch.sink, **flags})
        body = head[:-1] + b',"rows":[' + b",".join(json_lines(batch)) + b"]}"
        digest = hashlib.sha256(f"{batch.sink}\n{batch.cursor}".encode()).hexdigest()[:32]
        fault_point("sink.before_commit")
        self._poster.post(body, {"idempotency-key": f"{batch.sink}-{digest}"})
        fault_point("sink.after_commit")

    def forget(self) -> None:
        """A URL records nothing."""

    def close(self) -> None:
        """Close the connection."""
        self._poster.close()


def open_poster(sink: Sink, owner: str, allowed: str = "") -> Poster:
    """What posts to the URL of a sink, or of an alert; `owner` begins each error.

    `allowed` are the hosts that the setting `http_allow` names; if it is empty, every address may be reached.
    """
    timeout_s = parse_duration(value_of(sink.options, HTTP, "timeout")) / 1000
    url = reveal(sink.get("url") or "")
    if not is_http_url(url):
        raise DestinationError(
            f"{owner}: the value is not a URL", expected="such as https://example.com, in ASCII, without spaces"
        )
    _check_allowed(owner, url, allowed)
    headers, secrets = _headers(sink, owner)
    return Poster(
        owner,
        url,
        headers,
        timeout_s,
        secrets=(*secrets, *parts_of_url(url)),
        ca_file=sink.get("tls.ca"),
        verify=value_of(sink.options, HTTP, "tls.verify") == "true",
    )


def _headers(sink: Sink, owner: str) -> tuple[Mapping[str, str], list[str]]:
    """The headers of each request, and the secrets among their values."""
    headers, secrets = {}, []
    for option, value in sink.options:
        if option != "token" and not option.startswith("header."):
            continue
        text, name = reveal(value), "authorization" if option == "token" else option.removeprefix("header.")
        if not (text.isascii() and text.isprintable()):  # http.client's error would repeat it
            raise DestinationError(
                f"{owner}: the value of '{option}' cannot be a header",
                expected="printable characters of ASCII, no line breaks",
            )
        headers[name] = f"Bearer {text}" if option == "token" else text
        if text and (is_secret(value) or is_sensitive(option)):
            secrets.append(text)
    return headers, secrets


def _check_allowed(owner: str, url: str, allowed: str) -> None:
    hosts = [host.strip().lower() for host in allowed.split(",") if host.strip()]
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    names = (parts.hostname or "", f"{parts.hostname}:{port}")
    if hosts and not any(fnmatchcase(name, host) for name in names for host in hosts):
        raise RefusedError(
            f"{owner}: the setting http_allow does not list the host of its URL",
            found=names[1],
            expected=", ".join(hosts),
            fix="add the host to http_allow and restart the server, or change the URL",
        )


class Poster:
    """Posts JSON to a URL over one connection. `owner` begins each error."""

    def __init__(
        self,
        owner: str,
        url: str,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
        *,
        secrets: Sequence[str] = (),
        ca_file: str | None = None,
        verify: bool = True,
    ) -> None:
        self._owner = owner
        self._url = urlsplit(url)
        self._secrets = secrets  # what an answer may repeat, and no message shows
        self._headers = {"content-type": "application/json", "user-agent": "headrace", **(headers or {})}
        self._timeout_s = timeout_s
        self._tls = self._make_tls(ca_file, verify) if self._url.scheme == "https" else None
        self._connection: HTTPConnection | None = None

    def post(self, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Send it; returns when the server has answered with success, else raises DestinationError."""
        try:
            status, reply_headers, text = self._exchange(body, {**self._headers, **(headers or {})})
        except (OSError, HTTPException) as error:
            self.close()
            raise self._unreachable(error) from error
        if 200 <= status < 300:
            return
        message = f"{self._owner}: {self._shown_url} answered {status}{f': {text}' if text else ''}"
        if status in _TRY_AGAIN or status >= 500:
            busy = DestinationError(message)
            busy.retry_after_s = _retry_after(reply_headers.get("retry-after"))
            raise busy
        if 300 <= status < 400:
            place = host_only(reply_headers.get("location", "?"))
            raise RefusedError(message, fix=f"write the URL that it redirects to, at {place}")
        raise RefusedError(message, fix="change the sink or the server; Headrace retries from time to time")

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _exchange(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str], str]:
        reused = self._connection is not None
        try:
            return self._request(body, headers)
        except (ConnectionError, HTTPException):
            if not reused:
                raise
            # The server may have closed the idle connection: that says nothing of the server.
            self.close()
            return self._request(body, headers)

    def _request(self, body: bytes, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str], str]:
        connection = self._connection or self._connect()
        self._connection = connection
        path = (self._url.path or "/") + (f"?{self._url.query}" if self._url.query else "")
        connection.request("POST", path, body, dict(headers))
        response = connection.getresponse()
        content = response.read(MOST_REPLY)
        lower = {name.lower(): value for name, value in response.getheaders()}
        if response.will_close or not response.isclosed():
            self.close()
        return response.status, lower, self._shorten(response, content)

    def _connect(self) -> HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._tls is not None:
            return HTTPSConnection(host, port, timeout=self._timeout_s, context=self._tls)
        return HTTPConnection(host, port, timeout=self._timeout_s)

    def _make_tls(self, ca_file: str | None, verify: bool) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:
            raise DestinationError(
                f"{self._owner}: the file of certificates '{ca_file}' cannot be used: {error}",
                fix="give a PEM file that the server's user can read",
            ) from error
        if not verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def _shorten(self, response: HTTPResponse, content: bytes) -> str:
        """The first characters of the server's answer, in one line, without secrets; nothing of a page of HTML."""
        kind = response.getheader("content-type", "").lower()
        text = "" if "html" in kind else " ".join(content[: 40 * SHOWN_REPLY].decode("utf-8", "replace").split())
        text = without_secrets(text, self._secrets)
        return text if len(text) <= SHOWN_REPLY else f"{text[:SHOWN_REPLY]}…"

    @property
    def _shown_url(self) -> str:
        return host_only(self._url.geturl())

    def _unreachable(self, error: Exception) -> DestinationError:
        if isinstance(error, TimeoutError):
            reason = f"no answer within {self._timeout_s:g} s"
        elif isinstance(error, ssl.SSLCertVerificationError):
            reason = f"its certificate is not trusted ({error.verify_message})"
        else:
            text = getattr(error, "strerror", None) or str(error) or type(error).__name__
            reason = without_secrets(text, self._secrets)
        return DestinationError(f"{self._owner}: {self._shown_url} cannot be reached: {reason}")


def _retry_after(value: str | None) -> float | None:
    """The seconds of Retry-After, a number or a date."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
        except (ValueError, TypeError):
            return None
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER_S)
