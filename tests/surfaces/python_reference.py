"""Makes docs/python.md from the names, signatures and docstrings of the API."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import headrace
from headrace.client.connect import Connection
from headrace.ingest.receiver import IngestReply, TokenState
from headrace.serve.answer import Answer
from headrace.serve.explanation import ExplainedEvent, Explanation
from headrace.sql.answer import SqlAnswer

CLASSES = (Connection, Answer, SqlAnswer, Explanation, ExplainedEvent, IngestReply, TokenState)
INTRODUCTION = """\
# Python

```python
import headrace as hr

with hr.connect("my-workspace") as shop:  # a folder, or a URL; through its server if one runs
    event = {"visitor": "ann", "page": "/home", "status": 200, "bytes": 512, "at": "2026-03-01T12:00:00Z"}
    reply = shop.send("visits", event)  # or a list of such, a DataFrame, an Arrow table, bytes, a Path
    shop.wait(reply.token, timeout=10)  # until every view has it

    answer = shop.ask("traffic", key={"page": "/home"}, start="-1h", window="5m", order="newest")
    frame = answer.pandas()  # or rows(), arrow()
    top = shop.sql("SELECT page, sum(hits) AS hits FROM traffic GROUP BY page ORDER BY hits DESC", limit=10)
    total = shop.ask("traffic", by=[], window="all").rows()
```

Definitions are written with the same package: `hr.Stream`, `hr.View`, `hr.window` and the aggregates, in
`definitions/*.py` ([definitions](definitions.md)). Every failure is a `HeadraceError` with `code`, `message`, `found`,
`expected` and `fix`; `str(error)` is the sentence that the command line prints.

## What to ask

| parameter of `ask` | what it does |
|---|---|
| `key` | `{"page": "/home"}` keeps rows with this key; a list of values means any of them, None is NULL; a list of such mappings means any of these |
| `by` | keys to keep, the others are merged; `[]` gives the grand total |
| `start`, `end` | closed-open bounds: a datetime, a date, ISO 8601, or relative to the newest event (`"-1h"`, a negative timedelta, `"now"`) |
| `window`, `every` | size of the windows and how far apart they start: `"5m"` or a timedelta; `window="all"` is one window over all time, or over `[start, end)` |
| `order` | `"oldest"` windows first, as without it, or `"newest"`; keys are in ascending order within a window |
| `limit`, `cursor` | at most so many rows, up to 10,000; go on behind the answer that had this `next_cursor` |
| `version_as_of`, `timestamp_as_of` | what the view said in the [past](time-travel.md) |

**Answers are whole.** `ask` and `sql` give all rows, unless `limit` is given. `ask` reads them page by page, 10,000 at
a time. The view goes on meanwhile: a row never comes twice, one that was there from the first page to the last is never
missing, and each row is as of its own page. `answer.commits` says how many commits of the log all rows have; rows of
later pages may have more. If the view is edited in between, reading starts again. Where all rows have to be as of one
moment, `sql("SELECT * FROM traffic")` reads one snapshot; its answer is whole or, above 64 MB, an error. With a `limit`,
`next_cursor` goes on behind the last row of an `ask`, and `more_rows` says how many follow (None: not counted).

## What to send

`send` takes one event, a mapping of fields; many of them, any iterable; a pandas DataFrame, an Arrow table or record
batch, or a table of another library that gives Arrow streams, such as Polars; bytes in a [format](formats.md) that is
told by its looks; a file or a folder by its `Path`. Columns of a table are fields, a missing value is NULL, and the
index of a DataFrame is a field if it has a name. Tables go in requests of about 4 MB, column by column. Rows that do not
fit the stream are in `reply.refused` by their number, and the others are kept.
"""  # noqa: E501 - a row of a table is one line


def python_reference() -> str:
    """Every public name, with what it does."""
    parts = [INTRODUCTION, "\n## Names of the package\n"]
    for name in sorted(headrace.__all__, key=str.lower):
        value = getattr(headrace, name)
        if inspect.isfunction(value):
            parts.append(_function(f"hr.{name}", value))
        else:
            parts.append(f"\n**`hr.{name}`**: {_text(value.__doc__)}\n")
    for of in CLASSES:
        parts.append(f"\n## {of.__name__}\n\n{_text(of.__doc__)}\n")
        fields = _fields(of)
        if fields:
            parts.append("\n| field | type | what it is |\n|---|---|---|\n")
            parts += [f"| `{name}` | `{type_}` | {what} |\n" for name, type_, what in fields]
        parts += [_member(name, value) for name, value in members(of) if name not in {field[0] for field in fields}]
    return "".join(parts)


def members(of: type) -> list[tuple[str, Any]]:
    """The public methods and properties that a class itself defines, in their order."""
    return [(name, value) for name, value in vars(of).items() if not name.startswith("_")]


def _member(name: str, value: Any) -> str:
    if isinstance(value, property):
        return f"\n**`{name}`**: {_text(value.__doc__)}\n"
    return _function(name, value.__func__ if isinstance(value, classmethod) else value)


def _function(name: str, value: Callable[..., Any]) -> str:
    signature = inspect.signature(value)
    given = [parameter for own, parameter in signature.parameters.items() if own not in ("self", "cls")]
    shown, named = [], False
    for parameter in given:
        if parameter.kind is parameter.KEYWORD_ONLY and not named:
            shown, named = [*shown, "*"], True
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        shown.append(f"{parameter.name}: {parameter.annotation}{default}")
    return f"\n**`{name}({', '.join(shown)}) -> {signature.return_annotation}`**\n\n{_text(value.__doc__)}\n"


def _fields(of: type) -> list[tuple[str, str, str]]:
    """The fields of a dataclass, with the comment behind each."""
    if not hasattr(of, "__dataclass_fields__"):
        return []
    found = re.findall(r"^    (\w+): ([^=#\n]+?)(?: = [^#\n]+)?(?:  # (.*))?$", inspect.getsource(of), re.MULTILINE)
    comments = {name: (type_, what) for name, type_, what in found}
    types = {name: str(field.type) for name, field in of.__dataclass_fields__.items()}
    return [(name, type_.replace("|", r"\|"), comments.get(name, ("", ""))[1]) for name, type_ in types.items()]


def _text(doc: str | None) -> str:
    paragraphs = re.split(r"\n\s*\n", (doc or "").strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
