"""Makes the references in docs/, such as cli.md, from the code: `python -m tests.surfaces.references`."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from headrace.cli.app import COMMANDS, load_command, run
from headrace.cli.init import toml_value
from headrace.errors import HttpError
from headrace.server.runtime import Runtime
from headrace.web.app import create_app
from headrace.workspace.settings import Settings, Workspace
from tests.surfaces.metrics_reference import metrics_reference
from tests.surfaces.python_reference import python_reference

WIDTH = 110
DOCS = Path(__file__).parents[2] / "docs"

_CLI = """\
# Command line

`headrace COMMAND --help` says the same. Commands that show something take `--json`, which prints one JSON value on
standard output. `-w` names a workspace by its folder (by default the current one) or by the URL of its server; while a
server holds a workspace, commands go through it. `headrace --install-completion` installs completion for your shell.

A failure is one line on standard error, `error: …`, with `--json` `{"error": {…}}`, and never a stack trace
(`HEADRACE_DEBUG=1` shows it). Exit codes:

| code | what happened |
|---|---|
| 0 | done |
| 1 | it failed: something does not exist, cannot be reached, is not ready, or was refused by the machine |
| 2 | what was asked for is wrong: an option or its value, a time, a duration, a question, SQL or a definition |
| 3 | another process took the workspace over |
| 4 | `plan --exit-code` found changes |
| 130 | interrupted |
"""
_SETTINGS = """\
# Settings

They live in `headrace.toml` of the workspace; a variable of the environment wins over the file, an option of
`headrace up` over both. `headrace init` writes a file with all of them, commented out. A name that is none of these is
refused.

The file may hold the token, so `init` makes it for its owner alone (mode 600), and the data folder is made likewise
(mode 700). Files and folders that are there already stay as they are; `headrace up` and `headrace doctor` warn of a
data folder, or of a file with a token, that other users of the machine can read, and say the `chmod` that changes it.

| setting | variable | default | what it is |
|---|---|---|---|
"""
_HTTP = """\
# HTTP

`headrace up` serves it; `/openapi.json` describes it for programs, and `/` is a [page](page.md) for people. All bodies
and replies are JSON in UTF-8. Times are ISO 8601 in UTC with `Z`; DECIMAL values and integers beyond 64 bits are
strings.

**Who may ask.** Without a token the server listens on loopback only, answers to the names of the machine only
(`127.0.0.1`, `localhost`), and refuses requests of pages of other sites (by `Origin` and `Sec-Fetch-Site`): they may
link to `/` and to the page of a view, and nothing else. With the setting `token`, every path but
`/health` asks for `Authorization: Bearer TOKEN`. A browser cannot send that, so the page asks for the token in a form
and keeps a cookie for twelve hours (`HttpOnly`, `SameSite=Strict`, signed with the token). The cookie opens the page
and nothing else: everything below `/v1` and `/metrics` still asks for the header.

**Errors** have one shape; unused parts are null:

```json
{"error": {"code": "not_found", "message": "view 'trafic' does not exist", "found": null, "expected": null,
           "fix": "did you mean 'traffic'?; `headrace views` lists all", "where": null}}
```

Codes that only HTTP has: @CODES. 429 and 503 carry `Retry-After`; the code `spark_starting` (503) says that the same
request goes well in some seconds, and our clients repeat it. A request that fails kept nothing.

**Events** are acknowledged when they are on disk:

```json
{"accepted": 2, "refused": [{"index": 1, "reason": "field 'at' is missing or null"}], "token": "visits.1f4"}
```

The content type says the [format](formats.md): `application/json` (an object or an array), `application/x-ndjson`,
`text/csv`, `application/vnd.apache.parquet`, or `text/plain` for streams of `FORMAT TEXT`; without one the server goes
by the looks. `Content-Encoding` may be `gzip` or `zstd`. Send an `Idempotency-Key` of at most 255 characters and retry
as often as you like: for a day, the same key and body give the same reply and add nothing, and the same key with
another body is a 409. That holds for every request with a reply 200, also if all of its events were refused; a request
that failed with another status leaves its key free. The token says, through `/v1/tokens/TOKEN?wait=30s`, when every
view has the events: `{"complete": true, "stalled": []}`.

**Answers** carry what they stand for:

```json
{"rows": [{"page": "/home", "window_start": "2026-03-01T12:00:00Z", "window_end": "2026-03-01T12:01:00Z",
           "hits": 2, "errors": 0, "bytes": 30, "visitors": 2, "settled": true}],
 "next_cursor": null, "more_rows": 0, "view": "traffic", "version": 1,
 "as_of": {"commits": {"visits": 1}, "newest_event": "2026-03-01T12:10:00Z", "at": "2026-03-01T12:10:02.5Z"},
 "freshness_ms": 0, "freshness_reason": null, "events": {"batch": 0, "speed": 2}, "corrections": 0,
 "approximate": {"visitors": "within 3.3 % in 95 of 100 answers; exact below about 200"},
 "windows": {"start": null, "end": null, "window_ms": 60000, "every_ms": 60000, "counted_from": null},
 "stalled": null, "columns": [{"name": "page", "type": "STRING"}]}
```

`freshness_ms` is the age of the oldest accepted event that is not in the answer, 0 when all are, null with
`freshness_reason` when that is not known. `settled` says that the window is past the stream's patience; a later event
still counts, as a correction.

**Pages.** Rows come by window, the oldest first (`order=newest` turns that), then by key. A reply has at most `limit`
rows; if there are more, `next_cursor` is set, and the same question with `cursor` goes on behind the last row.
`more_rows` says how many follow, or null where counting them would take long. Relative bounds are fixed by the first
page. The view goes on between two pages: a row never comes twice, one that was there all the time is never missing, and
each row is as of its own page, whose `as_of` names the commits. A new version of the same definition does not end it;
after an edit of the view a cursor is refused (409), and the first page has to be asked for again. For all rows as of
one moment, `POST /v1/sql` with `SELECT * FROM view` reads one snapshot.
"""


def cli_reference() -> str:
    """Every command with its arguments and options."""
    return _CLI + "".join(_commands())


def _commands() -> Iterator[str]:
    for name in COMMANDS:
        said = {"resilient_parsing": True, "terminal_width": WIDTH, "max_content_width": WIDTH}
        context = load_command(name).make_context(f"headrace {name}", [], **said)
        shown = "\n".join(line.rstrip() for line in context.get_help().splitlines())
        yield f"\n## headrace {name}\n\n```text\n{shown}\n```\n"


def settings_reference() -> str:
    """Every setting with its variable and default."""
    rows = []
    for each in fields(Settings):
        default = "none" if each.default is None else f"`{toml_value(each.default)}`"
        description = _cell(each.metadata["description"])
        rows.append(f"| `{each.name}` | `HEADRACE_{each.name.upper()}` | {default} | {description} |\n")
    return _SETTINGS + "".join(rows)


def http_reference(openapi: dict[str, Any]) -> str:
    """Every endpoint with its parameters."""
    own = sorted(f"`{e.code}` ({e.http_status})" for e in HttpError.__subclasses__())
    parts = [_HTTP.replace("@CODES", ", ".join(own))]
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            parts.append(f"\n## {method.upper()} {path}\n\n{_clean(operation['description'])}\n")
            named = [p for p in operation.get("parameters", []) if p["in"] != "path"]
            if named:
                rows = "".join(f"| `{p['name']}` ({p['in']}) | {_cell(p['description'])} |\n" for p in named)
                parts.append(f"\n| parameter | what it does |\n|---|---|\n{rows}")
            parts.append(_body(operation))
    return "".join(parts)


def _body(operation: dict[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {})
    fields = content.get("application/json", {}).get("schema", {}).get("properties")
    if not fields:
        return f"\nBody: {', '.join(f'`{kind}`' for kind in content)}.\n" if content else ""
    rows = "".join(f"| `{name}` | {_cell(field['description'])} |\n" for name, field in fields.items())
    return f"\n| in the body | what it does |\n|---|---|\n{rows}"


def _clean(text: str | None) -> str:
    paragraphs = re.split(r"\n\s*\n", (text or "").strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def references(runtime: Runtime) -> dict[str, Callable[[], str]]:
    """The files and what makes each."""
    return {
        "cli.md": cli_reference,
        "settings.md": settings_reference,
        "http.md": lambda: http_reference(create_app(runtime).openapi()),
        "metrics.md": lambda: metrics_reference(runtime),
        "python.md": python_reference,
    }


@contextmanager
def example() -> Iterator[Runtime]:
    """A runtime whose stream and view are the example's, without Spark."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "shop"
        assert run(["init", str(workspace)]) == 0
        runtime = Runtime.open(Workspace.open(workspace), "http://127.0.0.1")
        try:
            runtime.apply()
            yield runtime
        finally:
            runtime.stop()


def main() -> None:
    """Write the files."""
    with example() as runtime:
        for name, make in references(runtime).items():
            (DOCS / name).write_text(make())


if __name__ == "__main__":
    main()
