"""Makes docs/python.md from the names, signatures and docstrings of the API."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import headrace
from headrace.api.connect import Connection, StreamDeadLetters
from headrace.api.consumer import ReceivedBatch, ReceivedEvent, Subscription
from headrace.api.declaration import Verb
from headrace.api.objects import ConnectedStream, ConnectedView
from headrace.deliver.event_page import StreamEvent
from headrace.ingest.receiver import IngestReply, TokenState
from headrace.serve.answer import Answer
from headrace.serve.explanation import ExplainedEvent, Explanation
from headrace.serve.sql.sql_answer import SqlAnswer

CLASSES = (
    Connection,
    StreamDeadLetters,
    ConnectedView,
    ConnectedStream,
    Answer,
    SqlAnswer,
    Explanation,
    ExplainedEvent,
    IngestReply,
    TokenState,
    StreamEvent,
    Subscription,
    ReceivedBatch,
    ReceivedEvent,
)
_MODULE = re.compile(r"\b(?!hr\.)[a-z_]+\.(?=[A-Z])")  # before the name of a class
INTRODUCTION = """\
# Python

```python
import headrace as hr

with hr.connect("my-workspace") as shop:  # a folder or a URL
    event = {"visitor": "ann", "page": "/home", "status": 200, "bytes": 512, "at": "2026-03-01T12:00:00Z"}
    reply = shop.send("visits", event)  # or a list, a DataFrame, an Arrow table, bytes, a Path
    shop.wait(reply.token, timeout=10)  # until every view has it

    answer = shop.ask("traffic", key={"page": "/home"}, start="-1h", window="5m", order="newest")
    frame = answer.pandas()  # or rows(), arrow()
    top = shop.sql("SELECT page, sum(hits) AS hits FROM traffic GROUP BY page ORDER BY hits DESC", limit=10)
    total = shop.ask("traffic", by=[], window="all").rows()
```

For a folder, the connection uses the server if one is running. Definitions in `definitions/*.py` use the same package:
`hr.Stream`, `hr.View`, `hr.window` and the aggregates ([definitions](definitions.md)). Every error is a `HeadraceError`
with `code`, `message`, `found`, `expected` and `fix`; `str(error)` is the line that the command line prints.

## Queries

| parameter of `ask` | description |
|---|---|
| `key` | `{"page": "/home"}` selects rows with this key; a list of values selects any of them; None is NULL; a list of mappings selects rows that match any of them |
| `by` | keys to group by; the others are merged; `[]` gives the grand total |
| `start`, `end` | start (inclusive) and end (exclusive): a datetime, a date, ISO 8601, or relative to the newest event (`"-1h"`, a negative timedelta, `"now"`). `start="-90m", window="all"` is the last 90 minutes to the newest event as one row per key, if the panes of the view tile them (`window(at, '1 minute')`) |
| `window`, `every` | window size and interval between window starts: `"5m"` or a timedelta; `window="all"` is one window from start to end |
| `zone` | time zone of calendar windows (`window="1 month"`, `"week"`, `"1 day"`), and of `start` and `end` without an offset: `"Europe/Berlin"` |
| `cumulate` | running totals: windows grow by this step until they have the size of `window` |
| `order` | which windows come first: `"oldest"` (default) or `"newest"`; within a window rows are ordered by key |
| `settled_only` | only rows that are settled; `limit` counts these |
| `corrections` | rows also have `events`, how many events are in them, and `corrections`, how many of these came after the row had settled |
| `limit`, `cursor` | maximum number of rows, up to 10,000; `next_cursor` of the previous answer |
| `version_as_of`, `timestamp_as_of` | query an [earlier state](time-travel.md); of a view over several streams, `version_as_of` is a mapping such as `answer.commits` |

`ask` and `sql` return all rows unless `limit` is given. `ask` reads pages of 10,000 rows. The view is updated between
pages: no row comes twice, and a row that exists from the first page to the last is never missing. All rows include at
least the commits in `answer.commits`; rows of later pages may include more. If the view is edited, reading starts
again. To read all rows as of one moment, use `sql("SELECT * FROM traffic")`, which fails above 64 MB. With a `limit`,
`next_cursor` continues after the last row of an `ask`, and `more_rows` is the number of remaining rows (None: not
counted).

`shop.lookup("traffic", [{"page": "/home"}, {"page": "/cart"}], start="-1h", window="all")` reads many keys at once: up
to 10,000 keys and rows, in the order of the keys. `missing` of the answer lists the keys that have no row.

## Notebooks

```python
traffic = hr.connect("my-workspace").view("traffic")
traffic  # shows the view: freshness, totals over time as a chart, the newest rows
traffic.df(start="-1h")  # a pandas data frame; arrow() for an Arrow table, ask() for an answer
```

Answers, views, streams and lists of them have an HTML form, which notebooks show: rows, freshness, how many events were
on time and how many were corrections, and a small chart. It has no scripts and loads nothing.

## Sending

`send` takes one event (a mapping of fields), an iterable of events, a pandas DataFrame, an Arrow table or record batch,
a table of another library that exports Arrow streams, such as Polars, bytes in any [format](formats.md), or the `Path`
of a file or folder. The columns of a table are fields, missing values are NULL, and the index of a DataFrame is a field
if it has a name. Tables are sent in requests of about 4 MB. Rows that do not match the stream are listed in
`reply.refused` by row number; the others are stored.
"""  # noqa: E501 - a row of a table is one line


def python_reference() -> str:
    """Every public name with its description."""
    parts = [INTRODUCTION, "\n## Package\n"]
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
            parts.append("\n| field | type | description |\n|---|---|---|\n")
            parts += [f"| `{name}` | `{type_}` | {what} |\n" for name, type_, what in fields]
        parts += [_member(name, value) for name, value in members(of) if name not in {field[0] for field in fields}]
    return "".join(parts)


def members(of: type) -> list[tuple[str, Any]]:
    """The public methods and properties that a class itself defines, in their order."""
    return [(name, value) for name, value in vars(of).items() if not name.startswith("_") and name != "invoke"]


def _member(name: str, value: Any) -> str:
    if isinstance(value, property):
        return f"\n**`{name}`**: {_text(value.__doc__)}\n"
    if isinstance(value, Verb):
        return _verb(name, value)
    return _function(name, value.__func__ if isinstance(value, classmethod) else value)


def _function(name: str, value: Callable[..., Any]) -> str:
    signature = inspect.signature(value)
    parameters = [parameter for own, parameter in signature.parameters.items() if own not in ("self", "cls")]
    return _described(name, parameters, signature.return_annotation, value.__doc__)


def _described(name: str, parameters: list[inspect.Parameter], returns: str, doc: str | None) -> str:
    texts, has_star = [], False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not has_star:
            texts, has_star = [*texts, "*"], True
        star = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        has_star = has_star or bool(star)
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        texts.append(f"{star}{parameter.name}: {parameter.annotation}{default}")
    signature = _MODULE.sub("", f"{name}({', '.join(texts)}) -> {returns}")
    return f"\n**`{signature}`**\n\n{_text(doc)}\n"


def _verb(name: str, verb: Verb[..., Any]) -> str:
    """A method that is declared as a verb."""
    parameters = list(inspect.signature(verb.request).parameters.values())
    about = "".join(f"\n- `{field}`: {each.about}" for field, each in verb.parameters().items())
    return _described(name, parameters, verb.reply.name, inspect.cleandoc(verb.text)) + (f"{about}\n" if about else "")


def _fields(of: type) -> list[tuple[str, str, str]]:
    """The fields of a dataclass, with the comment behind each."""
    if not hasattr(of, "__dataclass_fields__"):
        return []
    lines = re.findall(r"^    (\w+): ([^=#\n]+?)(?: = [^#\n]+)?(?:  # (.*))?$", inspect.getsource(of), re.MULTILINE)
    comments = {name: (type_, what) for name, type_, what in lines}
    types = {name: str(field.type) for name, field in of.__dataclass_fields__.items()}
    return [(name, type_.replace("|", r"\|"), comments.get(name, ("", ""))[1]) for name, type_ in types.items()]


def _text(doc: str | None) -> str:
    paragraphs = re.split(r"\n\s*\n", (doc or "").strip())
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
