"""`headrace ask`: a question to a view, once or every second, or about many keys."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.console import Console, Group, RenderableType
from rich.text import Text

from headrace.api.shared_options import QUESTION
from headrace.cli.common_options import (
    JsonOption,
    WideOption,
    WorkspaceOption,
    complete_view,
    open_connection,
    shared_options,
)
from headrace.cli.fitted_table import FittedTable
from headrace.cli.output import (
    cell,
    console,
    freshness,
    key_cell,
    plain_cell,
    plural,
    print_json,
    version_of,
    view_state,
)
from headrace.cli.waiting import waiting
from headrace.errors import QuestionError, UsageError
from headrace.format import within
from headrace.lazy import later
from headrace.name_encoding import shell
from headrace.serve.answer import Answer
from headrace.serve.question import HIGHEST_LIMIT, NULL, Question, read_key
from headrace.spark.jobs import Job

if TYPE_CHECKING:
    from rich import live as rich_live

    from headrace.api.connect import Connection
else:  # loaded by their first use
    rich_live = later("rich.live")

STANDARD_INPUT = "-"


def look_up(connection: Connection, view: str, file: str, options: Mapping[str, Any]) -> Question:
    """The lookup of the keys in a file."""
    keys: list[Mapping[str, Any]] = []
    name: str | None = None
    for number, line in enumerate(_read(file).splitlines(), 1):
        if line.lstrip().startswith(b"{"):
            keys.append(_read_object(line, file, number))
        elif line.strip():
            name = name or _only_key(connection, view)
            keys.append({name: read_key(line.decode(errors="replace"))})
    if not keys:
        raise QuestionError(f"'{file}' has no keys", expected='a line for each, such as {"page": "/home"}')
    return Question.lookup_of(view, keys, **{name: value for name, value in options.items() if value is not None})


def refuse_beside_keys(options: Mapping[str, Any]) -> None:
    """Refuse options that say which rows of all keys are wanted."""
    for name, value in options.items():
        if value:
            raise QuestionError(
                f"--keys-from gives every row of its keys, so it takes no {name}", fix="leave one of them out"
            )


def _read(file: str) -> bytes:
    if file == STANDARD_INPUT:
        return sys.stdin.buffer.read()
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise UsageError(
            f"'{file}' cannot be read: {error.strerror}", expected="a file of keys, or - for input"
        ) from error


def _read_object(line: bytes, file: str, number: int) -> Mapping[str, Any]:
    try:
        content: Mapping[str, Any] = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise QuestionError(
            f"'{file}' line {number} is not JSON: {error}", expected='an object, such as {"page": "/home"}'
        ) from error
    return content


def _only_key(connection: Connection, view: str) -> str:
    """The name of the view's key, if it has one; a view that does not exist is told when it is asked."""
    views = {status.name: status.keys for status in connection.verbs.views()}
    views |= {each.name: tuple(column.name for column in each.columns) for each in connection.verbs.logical_views()}
    keys = views.get(view, ("key",))
    if len(keys) != 1:
        raise QuestionError(
            f"view '{view}' has {len(keys)} keys, so a value alone names none of its rows",
            expected='a JSON object per line, such as {"' + '": …, "'.join(keys) + '": …}',
        )
    return keys[0]


REFRESH_S = 1.0
ERROR = "error"  # in a cell without a value; the reason is below the table
ESTIMATE = "~"  # before a value that is an estimate where others of its column are exact
SCREENFUL = 50  # rows on a terminal, without --limit
MISSING_SHOWN = 5  # keys of a lookup without rows
Read = Callable[[Question, Job | None], Answer]
OPTIONAL = ("window_end", "settled")  # columns that a narrow screen leaves out
AROUND_ROWS = 12  # lines of the screen for titles and footer


@shared_options(QUESTION)
def ask(
    view: Annotated[str, typer.Argument(help="View to query.", metavar="VIEW", autocompletion=complete_view)],
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", "-k", metavar="NAME=VALUE", help="Only rows with this key; can be repeated. \\N is NULL."
        ),
    ] = None,
    *,
    options: Mapping[str, str] = MappingProxyType({}),
    oldest_first: Annotated[bool, typer.Option("--oldest-first", help="Show the oldest windows first.")] = False,
    limit: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help=f"Maximum number of rows, or all; default: LIMIT of the view, {SCREENFUL} on a terminal, 1,000.",
            show_default=False,
        ),
    ] = None,
    cursor: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="Continue after an earlier answer, by its cursor.")
    ] = None,
    settled_only: Annotated[bool, typer.Option("--settled-only", help="Only rows that are settled.")] = False,
    corrections: Annotated[
        bool,
        typer.Option(
            "--corrections",
            help="Show the number of events of each row, and how many of them arrived after the row had settled.",
        ),
    ] = False,
    keys_from: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Look up many keys: one JSON object per line, or one value per line if the view has one key; - is "
            "standard input. Rows are in the order of the keys.",
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Repeat every second until Ctrl-C.")] = False,
    workspace: WorkspaceOption = ".",
    wide: WideOption = False,
    as_json: JsonOption = False,
) -> None:
    """Query a view. Prints rows, their freshness, and which of them are settled.

    The newest windows are printed first.
    """
    given_limit = limit
    whole = limit is not None and limit.strip().lower() == "all"
    if whole and watch:
        raise QuestionError("--watch shows one page", found="--limit all", fix="give a number, or leave one out")
    if limit is not None and not whole and not _is_page(limit):
        raise QuestionError("limit is out of range", found=repr(limit), expected=f"1 to {HIGHEST_LIMIT}, or all")
    screen = limit is None and not as_json and sys.stdout.isatty()
    if whole:
        limit = str(HIGHEST_LIMIT)  # of a page: LIMIT of the view does not apply
    settings: dict[str, str | None] = {**options, "limit": limit, "cursor": cursor}
    settings["order"] = "oldest" if oldest_first else "newest"
    settings |= {name: "true" for name, on in (("settled_only", settled_only), ("corrections", corrections)) if on}
    parameters = [read_key_option(text) for text in key or []]
    parameters += [(name, value) for name, value in settings.items() if value is not None]
    question = Question.from_text(view, parameters)
    if keys_from is not None:
        refuse_beside_keys({"--key": key, "--by": options.get("by"), "--limit": given_limit, "--cursor": cursor})
    with open_connection(workspace) as connection:
        if keys_from is not None:
            question = look_up(connection, view, keys_from, {**settings, "limit": None})
        read = connection.whole if whole else partial(_read_screen, connection.answer) if screen else connection.answer
        if question.as_of is not None:
            answer = _ask_as_of(read, question, watch)
        elif watch:
            _watch(lambda: read(question), as_json=as_json)
            return
        else:
            answer = read(question)
    if as_json:
        print_json(answer.as_dict())
        return
    out = console(wide=wide)
    out.print(render(answer))
    if not answer.values:
        for hint in _null_hints(parameters):
            out.print(hint)


def _is_page(limit: str) -> bool:
    """Whether a page may have so many rows."""
    try:
        return 1 <= int(limit) <= HIGHEST_LIMIT
    except ValueError:
        return False


def _read_screen(read: Read, question: Question, job: Job | None = None) -> Answer:
    """What the view gives without a limit, or the first rows of it if they do not fit on a screen."""
    answer = read(question, job)
    return answer if len(answer.values) <= SCREENFUL else read(replace(question, limit=SCREENFUL), job)


def _ask_as_of(read: Callable[[Question, Job], Answer], question: Question, watch: bool) -> Answer:
    if watch:
        raise QuestionError("an answer as of an earlier time does not change", found="--watch", fix="leave it out")
    job = Job()
    with waiting("reading the log") as show:
        show(job.progress)
        return read(question, job)


def _watch(answer: Callable[[], Answer], *, as_json: bool) -> None:
    """Show the answer every second; Ctrl-C is the normal end, not a failure."""
    with suppress(KeyboardInterrupt):
        if as_json:
            while True:
                print_json(answer().as_dict())
                sys.stdout.flush()
                time.sleep(REFRESH_S)
        out = console()
        with rich_live.Live(render(answer(), _fitting(out)), console=out, auto_refresh=False) as live:
            while True:
                time.sleep(REFRESH_S)
                live.update(render(answer(), _fitting(out)), refresh=True)


def _fitting(out: Console) -> int:
    """How many rows fit on the screen."""
    return max(1, out.height - AROUND_ROWS)


def read_key_option(text: str) -> tuple[str, str]:
    """NAME=VALUE of --key as a parameter of a question."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise QuestionError(f"--key '{text}' is not a key and a value", expected="such as --key page=/home")
    return f"key.{name}", value


def _null_hints(parameters: Sequence[tuple[str, str]]) -> list[Text]:
    """How a missing value is written, for each key that was asked for as the text NULL."""
    keys = [name.removeprefix("key.") for name, value in parameters if name.startswith("key.") and value == "NULL"]
    return [
        Text(f"--key {shell(f'{key}=NULL')} is the text NULL; a missing value is --key {shell(f'{key}={NULL}')}")
        for key in keys
    ]


def render(answer: Answer, most: int | None = None) -> RenderableType:
    """At most this many rows as a table, with version and freshness below."""
    names = [name for name, _ in answer.columns]
    keys = names.index("window_start") if "window_start" in names else 0
    # Of a logical view any column may be asked for by --key.
    show = (cell if answer.parts is None else plain_cell, key_cell)
    rows = answer.values[:most]
    hidden_columns = [name for name in ("window_start", "window_end") if _is_unbounded(answer, name)]
    hidden_columns += [] if _has_settled(answer) else ["settled"]
    columns = [(i, name) for i, name in enumerate(names) if name not in hidden_columns]
    numbers = [name for name, of in answer.columns if of.is_numeric]
    failed = {(error.row, error.column) for error in answer.errors}
    estimated = {(at, name) for name, places in answer.estimates.items() for at in places}
    cells = [
        [
            ERROR
            if (at, name) in failed
            else ESTIMATE * ((at, name) in estimated) + _cell(name, row[i], show[i < keys]) + _bound(answer, name, at)
            for i, name in columns
        ]
        for at, row in enumerate(rows)
    ]
    body: Any = FittedTable([name for _, name in columns], cells, numbers, OPTIONAL) if cells else Text("no rows")
    hidden = len(answer.values) - len(cells)
    lines = [*([f"… and {plural(hidden, 'row')} more"] if hidden else []), *footer(answer)]
    return Group(body, Text(), *(Text(line, style="dim") for line in lines))


def _is_unbounded(answer: Answer, name: str) -> bool:
    """Whether the windows of all rows lack this bound."""
    if answer.windows is None:
        return answer.parts is None  # of a logical view it is a column like any other
    bound = "start" if name == "window_start" else "end"
    has_windows = answer.windows["window_ms"] is not None or "window" in answer.windows
    return not has_windows and answer.windows[bound] is None


def _cell(name: str, value: Any, show: Callable[[Any], str]) -> str:
    if name == "settled":
        return "settled" if value else "provisional"
    return show(value)


def _bound(answer: Answer, name: str, at: int) -> str:
    """What follows a value that is scaled from a sample."""
    return within(answer.bounds[name][at] if name in answer.bounds else None)


def footer(answer: Answer) -> list[str]:
    """The metadata of the answer: version, commits, freshness, settled rows, error bounds."""
    newest = f", newest event {answer.newest_event:%Y-%m-%d %H:%M:%S} UTC" if answer.newest_event else ""
    fresh = freshness(answer.freshness_ms, answer.freshness_reason)
    settled_index = [name for name, _ in answer.columns].index("settled") if _has_settled(answer) else None
    settled_rows = sum(bool(row[settled_index]) for row in answer.values) if settled_index is not None else 0
    if answer.parts is not None:
        return _footer_of_parts(answer, answer.parts, fresh, settled_rows if settled_index is not None else None)
    on_time = sum(answer.events.values()) - answer.corrections
    lines = [
        f"{version_of(answer.view, answer.version, answer.commits)}{newest} · freshness: {fresh}",
        plural(len(answer.values), "row")
        + (
            f": {settled_rows:,} settled, {len(answer.values) - settled_rows:,} provisional"
            if settled_index is not None
            else ""
        )
        + f" · events: {answer.events.get('batch', 0):,} batch, {answer.events.get('speed', 0):,} speed"
        + f" · {on_time:,} on time + {plural(answer.corrections, 'correction')}",
    ]
    lines += _missing(answer)
    lines += [f"{name}: {error}" for name, error in answer.stated_errors().items()]
    reasons = Counter((error.column, error.reason) for error in answer.errors)
    lines += [f"{ERROR} in {name} of {plural(count, 'row')}: {why}" for (name, why), count in reasons.items()]
    if answer.stalled:
        lines.append(f"stalled: {answer.stalled}")
    return lines + _more(answer)


def _footer_of_parts(
    answer: Answer, parts: Mapping[str, Mapping[str, Any]], fresh: str, settled_rows: int | None
) -> list[str]:
    """The metadata of an answer of a logical view: the state of each view that it was computed from."""
    settled = "" if settled_rows is None else f": {settled_rows:,} settled"
    lines = [f"{plural(len(answer.values), 'row')}{settled} · logical view · freshness: {fresh}"]
    for name, part in parts.items():
        head, *rest = view_state(name, part)
        lines += [f"from {head}", *rest]
    return [*lines, *_missing(answer), *_more(answer)]


def _missing(answer: Answer) -> list[str]:
    if not answer.missing:
        return []
    keys = ", ".join(_key_text(key) for key in answer.missing[:MISSING_SHOWN])
    more = ", …" if len(answer.missing) > MISSING_SHOWN else ""
    return [f"no rows for {plural(len(answer.missing), 'key')}: {keys}{more}"]


def _more(answer: Answer) -> list[str]:
    if not answer.next_cursor:
        return []
    more = "more rows" if answer.more_rows is None else f"{plural(answer.more_rows, 'more row')}"
    return [f"{more}: --cursor {answer.next_cursor} continues after these; --limit all shows all"]


def _key_text(key: Mapping[str, Any]) -> str:
    """A key of a lookup in words."""
    return " ".join(f"{name}={key_cell(value)}" for name, value in key.items())


def _has_settled(answer: Answer) -> bool:
    """Whether its rows say if they are settled: without windows they never are, and it is not shown."""
    windowless = answer.windows is None and answer.parts is None
    return not windowless and any(name == "settled" for name, _ in answer.columns)
