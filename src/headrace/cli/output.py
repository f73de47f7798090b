"""What commands print: tables for people, JSON for programs, one line for a failure."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from headrace.disk import from_system
from headrace.errors import DefinitionErrors, HeadraceError
from headrace.format import count as count
from headrace.format import digits, number
from headrace.format import freshness as freshness
from headrace.format import plural as plural
from headrace.format import size as size
from headrace.format import span as span

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PIPED_WIDTH = 400  # a pipe has no width: do not cut what a program reads


def console(*, stderr: bool = False) -> Console:
    """Where to print; without a terminal no colours and no cutting."""
    from rich.console import Console  # a tenth of a second that --json and --help need not pay

    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, highlight=False, width=None if stream.isatty() else PIPED_WIDTH)


def print_json(content: Any) -> None:
    """One JSON value on standard output."""
    import orjson

    sys.stdout.write(orjson.dumps(content, option=orjson.OPT_INDENT_2).decode() + "\n")


def make_table(titles: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[str] = ()) -> Table:
    """A table without frames; titles in `right` are of numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold", padding=(0, 1))
    numbers = set(right)
    for title in titles:
        table.add_column(title, justify="right" if title in numbers else "left", overflow="fold")
    for row in rows:
        # Text, not markup: a value such as [red] is data.
        table.add_row(*(Text(cell) for cell in row))
    return table


def key_cell(value: Any) -> str:
    """A value that names something: a year is 2026, not 2,026."""
    is_number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    return digits(value) if is_number else cell(value)


def cell(value: Any) -> str:
    """A value of an answer; times in UTC, to the second unless they have more to say."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | Decimal):
        return number(value)
    if isinstance(value, datetime):
        shown = value.astimezone(UTC) if value.tzinfo else value
        return shown.replace(tzinfo=None).isoformat(sep=" ")  # strftime would drop the zeros of early years
    return value.hex() if isinstance(value, bytes) else str(value)


def print_error(error: BaseException, *, as_json: bool) -> int:
    """Say what failed, on standard error, and give the exit code."""
    if os.environ.get("HEADRACE_DEBUG") == "1":
        traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, OSError):
        error = from_system(error) or error
    if isinstance(error, HeadraceError):
        shown, code = error, error.exit_code
    else:
        said = str(error).strip().splitlines()
        name = type(error).__name__
        shown = HeadraceError(
            f"{name}: {said[0]}" if said else name, fix="HEADRACE_DEBUG=1 shows the stack trace; please report it"
        )
        code = 1
    if as_json:
        import orjson

        sys.stderr.write(orjson.dumps({"error": shown.as_dict()}).decode() + "\n")
        return code
    sentences = [str(e) for e in shown.errors] if isinstance(shown, DefinitionErrors) else str(shown).splitlines()
    for sentence in sentences:
        sys.stderr.write(f"error: {sentence}\n")
    return code


def printable(text: str) -> str:
    """Text of others for a terminal: what would move its cursor or change its colours is escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
