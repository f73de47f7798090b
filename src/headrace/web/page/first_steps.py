"""Next steps for an empty workspace, as commands to paste; a module of its own, since it is mostly text."""

from __future__ import annotations

import shlex
from typing import Any
from urllib.parse import quote as url_quote

import orjson

from headrace.html import Html, tag
from headrace.language.paths import Steps, parse_path
from headrace.language.terms import quote
from headrace.name_encoding import shell
from headrace.server.status import StreamDefinition

EXAMPLES: dict[str, Any] = {
    "STRING": "text",
    "BOOLEAN": True,
    "INT": 1,
    "BIGINT": 1,
    "DOUBLE": 1.5,
    "DECIMAL": "1.50",
    "DATE": "2026-01-01",
    "TIMESTAMP": "2026-01-01T12:00:00Z",
}
STREAM = """\
CREATE STREAM visits (
  visitor STRING NOT NULL,
  page    STRING,
  at      TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 1 MINUTE
);"""


def define_stream(folder: str) -> Html:
    """The next step of a workspace without streams."""
    return _hint(
        "No streams yet. Declare one in a file of the workspace, then apply it:",
        f"cd {shlex.quote(folder)}\ncat >> definitions/visits.sql <<'END'\n{STREAM}\nEND\nheadrace apply",
    )


def define_view(folder: str, stream: StreamDefinition) -> Html:
    """The next step of a workspace without views."""
    time = f"window({quote(stream.event_time)}, '1 minute')" if stream.event_time else None
    view = f"CREATE MATERIALIZED VIEW {quote(stream.name + '_per_minute')} AS\n"
    view += f"SELECT count(*) AS events FROM {quote(stream.name)}"
    view += f" GROUP BY {time};" if time else ";"
    return _hint(
        "No views yet. A view is a query whose result is kept up to date:",
        f"cd {shlex.quote(folder)}\ncat >> definitions/views.sql <<'END'\n{view}\nEND\nheadrace apply",
    )


def send_events(url: str | None, folder: str, stream: StreamDefinition, *, token: bool) -> Html:
    """The next step for a stream without events."""
    event: dict[str, Any] = {}
    for field in stream.fields:
        if not field.computed and not field.record:
            _put(event, (field.name,) if field.path is None else parse_path(field.path), _example(field.type))
    path = f"/v1/streams/{url_quote(stream.name, safe='')}/events"
    lines = [f"curl {url}{path}", "-H 'Content-Type: application/json'"]
    if token:
        lines.append('-H "Authorization: Bearer $HEADRACE_TOKEN"')
    lines.append(f"-d {shlex.quote(orjson.dumps(event).decode())}")
    file = f"# or a file, one event per line\nheadrace send {shell(stream.name)} FILE -w {shlex.quote(folder)}"
    return _hint(f"Stream {stream.name} has no events yet. Send it one:", " \\\n  ".join(lines) + f"\n{file}")


def _put(event: dict[str, Any], steps: Steps, value: Any) -> None:
    """Put a value where a field takes it from; what is deeper than an array is left out."""
    *outer, last = steps
    for step in outer:
        inner = event.setdefault(str(step), {})
        if not isinstance(step, str) or not isinstance(inner, dict):
            return
        event = inner
    if isinstance(last, str):
        event.setdefault(last, value)


def _example(type_name: str) -> Any:
    base = type_name.partition("(")[0].partition("<")[0]
    return {"ARRAY": [], "MAP": {}}.get(base, EXAMPLES.get(base))


def _hint(sentence: str, commands: str) -> Html:
    return tag("div", tag("p", sentence), tag("pre", tag("code", commands), tabindex=0), class_="hint")
