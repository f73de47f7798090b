"""Output of commands: tables and JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson

from headrace.cli.error_output import wrapped
from headrace.format import commits_of, digits, nested, number, version_shown
from headrace.format import count as count
from headrace.format import freshness as freshness
from headrace.format import plural as plural
from headrace.format import size as size
from headrace.format import span as span
from headrace.lazy import later

if TYPE_CHECKING:
    from rich.console import Console

    from headrace.cli import fitted_table
    from headrace.cli.fitted_table import FittedTable
else:  # loaded by their first use
    fitted_table = later("headrace.cli.fitted_table")

UNLIMITED = 1_000_000  # the width without a terminal, and with --wide


def console(*, stderr: bool = False, wide: bool = False) -> Console:
    """The console; without a terminal it has no colours, and lines are as long as they need to be, as with `wide`."""
    stream = sys.stderr if stderr else sys.stdout
    return fitted_table.WordConsole(
        file=stream, highlight=False, emoji=False, width=None if stream.isatty() and not wide else UNLIMITED
    )


def say(text: str, *, err: bool = False) -> None:
    """Print a sentence; on a terminal it is wrapped at spaces."""
    stream = sys.stderr if err else sys.stdout
    stream.write(f"{wrapped(text, stream)}\n")


def print_json(content: Any) -> None:
    """One JSON value on standard output."""
    sys.stdout.write(orjson.dumps(content, option=orjson.OPT_INDENT_2).decode() + "\n")


def view_state(name: str, state: Mapping[str, Any]) -> list[str]:
    """What an answer says of one of the views that it was computed from."""
    fresh = freshness(state["freshness_ms"], state["freshness_reason"])
    lines = [f"{name}: {version_of(name, state['version'], state['commits'])} · freshness: {fresh}"]
    lines += [f"{name}.{column}: {error}" for column, error in state["approximate"].items()]
    lines += [
        f"{name}.{column} is NULL in {plural(error['rows'], 'row')}: {error['reason']}"
        for column, error in state["errors"].items()
    ]
    return [*lines, f"{name} is stalled: {state['stalled']}"] if state["stalled"] else lines


def version_of(name: str, version: int | None, commits: Mapping[str, int]) -> str:
    """The version of a view and its commits; that of a table is the number of its commits."""
    text = f"version {count(version_shown(name, version, commits))}"
    return text if name in commits else f"{text} · as of {commits_of(commits)}"


def record_table(
    records: Sequence[Mapping[str, str]], left: Sequence[str], optional: Sequence[str] = ()
) -> FittedTable:
    """A table of records with the same titles; those in `left` are not numbers."""
    titles = list(records[0])
    rows = [[record[title] for title in titles] for record in records]
    return fitted_table.FittedTable(titles, rows, [title for title in titles if title not in left], optional)


def key_cell(value: Any) -> str:
    """A key, as `--key` takes it: numbers have all their digits and no thousands separators."""
    return str(value) if isinstance(value, float) else plain_cell(value)


def plain_cell(value: Any) -> str:
    """A value that may be a key: its numbers have no thousands separators, so a year is 2026."""
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return digits(value) if is_number else cell(value)


def cell(value: Any) -> str:
    """A value of an answer; times in UTC, with a fraction of a second only if it is not 0."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | Decimal):
        return number(value)
    if isinstance(value, datetime):
        time = value.astimezone(UTC) if value.tzinfo else value
        return time.replace(tzinfo=None).isoformat(sep=" ")  # strftime would drop the zeros of early years
    if isinstance(value, list | dict):
        return nested(value, plain_cell)
    return value.hex() if isinstance(value, bytes) else str(value)


def printable(text: str) -> str:
    """Text from data for a terminal: control characters are escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
