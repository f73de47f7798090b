"""Generates the references in docs/, such as cli.md, from the code: `python -m tests.surfaces.references`."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from headrace.cli.app import COMMANDS, load_command, run
from headrace.cli.init_command import toml_value
from headrace.errors import HttpError
from headrace.server.runtime import Runtime
from headrace.web.application import create_app
from headrace.workspace.settings import Settings, Workspace
from tests.surfaces.metrics_reference import metrics_reference
from tests.surfaces.python_reference import python_reference
from tests.surfaces.sinks_reference import sinks_reference
from tests.wrapping import wrap

WIDTH = 110
DOCS = Path(__file__).parents[2] / "docs"

_CLI = """\
# Command line

This is the output of `headrace COMMAND --help`. Commands that print results have an option `--json`, which prints one
JSON value to standard output. `-w` selects the workspace: its folder (default: the current one) or the URL of its
server. While a server is running, commands on the folder use that server. `headrace --install-completion` installs
completion for your shell.

Errors are one line on standard error, `error: …`, or with `--json` `{"error": {…}}`. `HEADRACE_DEBUG=1` adds the stack
trace. Exit codes:

| code | meaning |
|---|---|
| 0 | success |
| 1 | failure: something does not exist, cannot be reached, is not ready, a test fails, or the machine has a problem |
| 2 | invalid input: an option or its value, a time, a duration, a query, SQL or a definition |
| 3 | another process took over the workspace |
| 4 | `plan --exit-code` found changes |
| 130 | interrupted |
"""
_SETTINGS = """\
# Settings

Settings are in `headrace.toml` in the workspace. Environment variables override the file, and options of `headrace up`
override both. `headrace init` writes a file with all settings, commented out. Unknown names are an error.

The file may contain the token, so `init` creates it readable only by its owner (mode 600); the data folder has mode
700. Existing files and folders are not changed. `headrace up` and `headrace doctor` warn if other users can read the
data folder, or a file with a token, and print the `chmod` command.

| setting | variable | default | description |
|---|---|---|---|
"""
_HTTP = """\
# HTTP

`headrace up` serves this API. `/openapi.json` is its OpenAPI description; `/` is a [page](page.md) for browsers. Bodies
and replies are JSON in UTF-8. Times are ISO 8601 in UTC with `Z`. DECIMAL values and integers beyond 64 bits are
strings.

**Access.** Without a token the server listens on loopback only, accepts only local host names (`127.0.0.1`,
`localhost`), and rejects requests from pages of other sites (by `Origin` and `Sec-Fetch-Site`); those may only link to
`/` and to the page of a view. With the setting `token`, every path except `/health` requires
`Authorization: Bearer TOKEN`. The page asks for the token in a form and sets a cookie for twelve hours (`HttpOnly`,
`SameSite=Strict`, signed with the token). The cookie is valid only for the page; `/v1` and `/metrics` still require the
header.

**Errors** all have this form; unused fields are null:

```json
{"error": {"code": "not_found", "message": "view 'trafic' does not exist", "found": null, "expected": null,
           "fix": "did you mean 'traffic'? `headrace views` lists all", "where": null}}
```

Errors in definitions (`definition`) also have `excerpt`, the line with a caret under the place, and `write`, the text
to write there; several are listed in `errors`.

Codes that occur only over HTTP: @CODES. Replies with 429 and 503 have a `Retry-After` header. `spark_starting` (503)
means that the request will succeed in some seconds; the command line and the Python client retry it. A failed request
stores nothing.

**Events** are on disk before they are acknowledged:

```json
{"accepted": 2, "refused": [{"index": 1, "reason": "field 'at' is missing or null"}], "token": "visits.1f4"}
```

The content type gives the [format](formats.md): `application/json` (an object or an array), `application/x-ndjson`,
`text/csv`, `application/vnd.apache.parquet`, or `text/plain` for streams of `FORMAT TEXT`. Without one the server
detects the format. `Content-Encoding` may be `gzip` or `zstd`. To retry safely, send an `Idempotency-Key` of at most
255 characters: for one day, the same key and body return the same reply and add nothing, and the same key with another
body is a 409. This applies to every request answered with 200, even if all of its events were refused; a request that
failed does not use up its key. `/v1/tokens/TOKEN?wait=30s` waits until every view has the events:
`{"complete": true, "stalled": []}`.

**Answers** contain rows and metadata:

```json
{"rows": [{"page": "/home", "window_start": "2026-03-01T12:00:00Z", "window_end": "2026-03-01T12:01:00Z",
           "hits": 2, "errors": 0, "bytes": 30, "visitors": 2, "settled": true}],
 "next_cursor": null, "more_rows": 0, "view": "traffic", "version": 1,
 "as_of": {"commits": {"visits": 1}, "newest_event": "2026-03-01T12:10:00Z", "at": "2026-03-01T12:10:02.5Z",
           "streams": {"visits": {"commits": 1, "horizon": 0, "newest_event": "2026-03-01T12:10:00Z",
                                  "settled_until": "2026-03-01T12:09:00Z", "freshness_ms": 0,
                                  "freshness_reason": null}}},
 "freshness_ms": 0, "freshness_reason": null, "events": {"batch": 0, "speed": 2}, "corrections": 0,
 "approximate": {"visitors": "within 3.3 % in 95 of 100 answers; exact below about 200"}, "estimates": {},
 "windows": {"start": null, "end": null, "window_ms": 60000, "every_ms": 60000, "counted_from": null},
 "stalled": null, "errors": [], "columns": [{"name": "page", "type": "STRING"}]}
```

`as_of.streams` has an object for each base stream of the view (several with `UNION ALL`): `commits`, `horizon` (the
number of commits in the batch layer), `newest_event`, `settled_until` (the event time up to which no more of its events
are expected), `freshness_ms` and `freshness_reason`. The freshness of the view is that of the stream that is furthest
behind, which `freshness_reason` of the answer names first. A window is settled when it is settled in every stream.

`freshness_ms` is the age of the oldest accepted event that is not in the answer. It is 0 if the answer has all events,
and null if it is unknown; `freshness_reason` then gives the reason. `settled` means that the window is past the
stream's patience; later events still count, as corrections. `approximate` has the stated error of each approximate
column. A column of `unique` is in it only if one of its values is an estimate; `estimates` then lists the rows of these
values, from 0: `{"visitors": [0, 3]}` means that all other rows are exact. For a view over a [sample](sampling.md),
`bounds` has a number for each row of a scaled column; in 95 of 100 cases, the true value is within this distance:
`{"n": [58.8, 12.1]}`. `errors` lists the cells without a value, which are null:
`{"row": 0, "column": "users", "reason": "count(DISTINCT user) has more than 10,000 different values; use …"}`.
`windows` has the bounds of the query and the size of the windows. With `start`, a window begins at `start` and every
`every_ms` from there, instead of at multiples of `every_ms` since 1970 (calendar windows, running totals and windows
that the view declares with an offset keep their boundaries). Relative bounds such as `-1h` refer to `counted_from`, the
end of the pane of the newest event; it is null if no bound is relative. Of a view with sessions, `windows` has
`"window": "session"` and `gap_ms`, the shortest gap; the bounds select sessions by their end.

**Server-sent events.** `GET /v1/streams/{stream}/tail` and, with `Accept: text/event-stream`,
`GET /v1/subscriptions/{name}/events` reply with events as they arrive ([subscriptions](subscriptions.md)). If an error
occurs after the reply has begun, the last event is `event: error` with the error as JSON.

**Paging.** Rows are ordered by window, oldest first (`order=newest` reverses this), then by key. A reply has at most
`limit` rows. If there are more, `next_cursor` is set; repeat the request with it as `cursor` to get the next rows.
`more_rows` is the number of remaining rows, or null if counting them would take long. Relative bounds are fixed by the
first page. The view is updated between pages: no row is returned twice, and a row that exists from the first page to
the last is never missing. Each page gives its commits in `as_of`. A cursor stays valid after a rebuild of the same
definition; after an edit of the view it is refused (409), and you must start again. To read all rows as of one moment,
use `POST /v1/sql` with `SELECT * FROM view`.
"""


_KAFKA = """
The table `[kafka]` contains settings of all Kafka clients, by the names of librdkafka; `HEADRACE_KAFKA_SASL_PASSWORD`
sets `sasl.password`. [Kafka](kafka.md) has an example.
"""


def cli_reference() -> str:
    """Every command with its arguments and options."""
    return _CLI + "".join(_commands())


def _commands() -> Iterator[str]:
    for name in COMMANDS:
        settings = {"resilient_parsing": True, "terminal_width": WIDTH, "max_content_width": WIDTH}
        context = load_command(name).make_context(f"headrace {name}", [], **settings)
        text = "\n".join(line.rstrip() for line in context.get_help().splitlines())
        yield f"\n## headrace {name}\n\n```text\n{text}\n```\n"


def settings_reference() -> str:
    """Every setting with its variable and default."""
    rows = []
    for each in fields(Settings):
        default = "none" if each.default is None else f"`{toml_value(each.default)}`"
        description = _cell(each.metadata["description"])
        rows.append(f"| `{each.name}` | `HEADRACE_{each.name.upper()}` | {default} | {description} |\n")
    return _SETTINGS + "".join(rows) + _KAFKA


def http_reference(openapi: dict[str, Any]) -> str:
    """Every endpoint with its parameters."""
    own = sorted(f"`{e.code}` ({e.http_status})" for e in HttpError.__subclasses__())
    parts = [_HTTP.replace("@CODES", ", ".join(own))]
    for path, methods in openapi["paths"].items():
        for method, operation in methods.items():
            parts.append(f"\n## {method.upper()} {path}\n\n{_clean(operation['description'])}\n")
            parameters = [p for p in operation.get("parameters", []) if p["in"] != "path"]
            if parameters:
                rows = "".join(f"| `{p['name']}` ({p['in']}) | {_cell(p['description'])} |\n" for p in parameters)
                parts.append(f"\n| parameter | description |\n|---|---|\n{rows}")
            parts.append(_body(operation))
    return "".join(parts)


def _body(operation: dict[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {})
    fields = content.get("application/json", {}).get("schema", {}).get("properties")
    if not fields:
        return f"\nBody: {', '.join(f'`{kind}`' for kind in content)}.\n" if content else ""
    rows = "".join(f"| `{name}` | {_cell(field['description'])} |\n" for name, field in fields.items())
    return f"\n| body field | description |\n|---|---|\n{rows}"


def _clean(text: str | None) -> str:
    paragraphs = re.split(r"\n\s*\n", (text or "").strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _cell(text: str) -> str:
    return text.replace("|", r"\|")


def references(runtime: Runtime) -> dict[str, Callable[[], str]]:
    """The files, and the function that generates each."""
    return {
        "cli.md": cli_reference,
        "settings.md": settings_reference,
        "http.md": lambda: wrap(http_reference(create_app(runtime).openapi())),
        "metrics.md": lambda: metrics_reference(runtime),
        "python.md": lambda: wrap(python_reference()),
        "sinks.md": lambda: sinks_reference((DOCS / "sinks.md").read_text()),
    }


@contextmanager
def example() -> Iterator[Runtime]:
    """A runtime whose stream and view are the example's, without Spark."""
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder) / "shop"
        assert run(["init", str(workspace)]) == 0
        runtime = Runtime.open(Workspace.open(workspace), "http://127.0.0.1")
        try:
            runtime.definitions.take_over()
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
