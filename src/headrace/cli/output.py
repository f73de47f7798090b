"""Output of commands: tables and JSON."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import orjson
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.format import count as count
from headrace.format import digits, nested, number
from headrace.format import freshness as freshness
from headrace.format import plural as plural
from headrace.format import size as size
from headrace.format import span as span

WIDE = 120  # columns of a screen that has room for everything
PIPED_WIDTH = 400  # without a terminal: lines must not be truncated


def console(*, stderr: bool = False) -> Console:
    """The console; without a terminal it has no colours and does not truncate."""
    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, highlight=False, width=None if stream.isatty() else PIPED_WIDTH)


def print_json(content: Any) -> None:
    """One JSON value on standard output."""
    sys.stdout.write(orjson.dumps(content, option=orjson.OPT_INDENT_2).decode() + "\n")


def view_state(name: str, state: Mapping[str, Any]) -> list[str]:
    """What an answer says of one of the views that it was computed from."""
    commits = ", ".join(f"{stream} commit {number:,}" for stream, number in state["commits"].items())
    fresh = freshness(state["freshness_ms"], state["freshness_reason"])
    lines = [f"{name}: version {state['version']} · as of {commits} · freshness: {fresh}"]
    lines += [f"{name}.{column}: {error}" for column, error in state["approximate"].items()]
    lines += [
        f"{name}.{column} is NULL in {plural(error['rows'], 'row')}: {error['reason']}"
        for column, error in state["errors"].items()
    ]
    return [*lines, f"{name} is stalled: {state['stalled']}"] if state["stalled"] else lines


def make_table(titles: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[str] = ()) -> Table:
    """A table without frames; columns with titles in `right` are right-aligned."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold", padding=(0, 1))
    numbers = set(right)
    for title in titles:
        table.add_column(title, justify="right" if title in numbers else "left", overflow="fold")
    for row in rows:
        # Text, not markup: a value such as [red] is data.
        table.add_row(*(Text(cell) for cell in row))
    return table


def key_cell(value: Any) -> str:
    """A key: its numbers have no thousands separators, so a year is 2026."""
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
        return nested(value, key_cell)
    return value.hex() if isinstance(value, bytes) else str(value)


def printable(text: str) -> str:
    """Text from data for a terminal: control characters are escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def fit_table(
    cells: list[dict[str, str]], width: int, *, left_titles: Sequence[str], wide_titles: Sequence[str]
) -> Table:
    """A table; a narrow screen omits the columns with `wide_titles`."""
    titles = [title for title in cells[0] if width >= WIDE or title not in wide_titles]
    rows = [[row[title] for title in titles] for row in cells]
    return make_table(titles, rows, [title for title in titles if title not in left_titles])
