"""Tables and text for a screen of any width. Words stay whole, so that they can be copied.

Of a table that does not fit, columns are left out first, then rows become lines; text is wrapped at spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

WRAP_AT = 400  # where the text of a table is wrapped if the screen is wider
GAPS = (3, 2)  # between columns: as long as they fit, and on a narrow screen
UNBROKEN = 26  # a value of up to so many characters, such as a time, is wrapped only if nothing else helps
NOTHING = ("", "–")

_WORD = re.compile(r"\S+")

Cell = str | Text


@dataclass(frozen=True)
class _Form:
    """How the columns fit: which of them, how wide each is, and how far apart."""

    places: tuple[int, ...]
    widths: tuple[int, ...]
    gap: int

    @property
    def total(self) -> int:
        """The width of the table."""
        return sum(self.widths) + self.gap * (len(self.widths) - 1)


class FittedTable:
    """Rows below titles, without frames. Titles in `right` are of numbers.

    What does not fit on the screen is left out: first columns without a value, then those in `optional`, in this order.
    If the others do not fit either, each row is printed as lines of a title and a value. There, only words of the
    titles in `fold` are cut.
    """

    def __init__(
        self,
        titles: Sequence[str],
        rows: Iterable[Sequence[Cell]],
        right: Iterable[str] = (),
        optional: Sequence[str] = (),
        hint: str = "--wide shows all",
        fold: Iterable[str] = (),
    ) -> None:
        self._titles = list(titles)
        # Text, not markup: a value such as [red] is data.
        self._rows = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in rows]
        self._right = set(right)
        self._optional = [title for title in optional if title in self._titles]
        self._hint = hint
        self._fold = set(fold)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width
        form = next((form for form in self._forms() if form.total <= width), None)
        if form is None:
            yield from self._records()
            return
        yield self._table(form, min(width, max(WRAP_AT, form.total)))
        hidden = [title for title in self._optional if self._titles.index(title) not in form.places]
        hidden = [title for title in hidden if not self._is_empty(self._titles.index(title))]
        if hidden:
            yield Text(f"not shown: {', '.join(hidden)} ({self._hint})", style="dim")

    def _forms(self) -> Iterator[_Form]:
        """The forms of the table, best first, each with the least widths of its columns."""
        places = list(range(len(self._titles)))
        whole = [self._least(place, UNBROKEN) for place in places]
        for gap in GAPS:
            yield _Form(tuple(places), tuple(whole), gap)
        empty = [self._titles[place] for place in places[1:] if self._is_empty(place)]
        for title in [*reversed(empty), *self._optional]:
            places = [place for place in places if self._titles[place] != title]
            yield _Form(tuple(places), tuple(whole[place] for place in places), GAPS[-1])
        yield _Form(tuple(places), tuple(self._least(place, 0) for place in places), GAPS[-1])

    def _is_empty(self, place: int) -> bool:
        return all(row[place].plain in NOTHING for row in self._rows)

    def _least(self, place: int, unbroken: int) -> int:
        """The width that a column needs, if values of up to `unbroken` characters stay on one line."""
        cells = (row[place].plain for row in self._rows)
        needs = [cell_len(text) if cell_len(text) <= unbroken else _longest_word(text) for text in cells]
        return max(*needs, _longest_word(self._titles[place]), 1)

    def _most(self, place: int) -> int:
        texts = [self._titles[place], *(row[place].plain for row in self._rows)]
        return max(cell_len(line) for text in texts for line in (text.splitlines() or [""]))

    def _table(self, form: _Form, room: int) -> Table:
        padding = (0, 1, 0, form.gap - 2)  # the divider between columns is a space, and part of the gap
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold", padding=padding)
        most = [self._most(place) for place in form.places]
        widths = _spread(most, form.widths, room - form.gap * (len(form.places) - 1))
        for place, width in zip(form.places, widths, strict=True):
            title = self._titles[place]
            justify = "right" if title in self._right else "left"
            table.add_column(title, justify=justify, overflow="fold", width=width)  # type: ignore[arg-type]
        for row in self._rows:
            table.add_row(*(row[place] for place in form.places))
        return table

    def _records(self) -> Iterator[Text | Words]:
        """Each row as lines of a title and a value; values that are empty are left out."""
        width = max(map(cell_len, self._titles)) + GAPS[-1]
        for number, row in enumerate(self._rows):
            if number:
                yield Text()
            for title, cell in zip(self._titles, row, strict=True):
                if cell.plain:
                    line = Text.assemble((title, "bold"), " " * (width - cell_len(title)), cell)
                    yield Words(line, indent=width, fold=title in self._fold)


def _longest_word(text: str) -> int:
    return max(map(cell_len, text.split()), default=0)


def _spread(most: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths between least and most whose sum is at most `room`; narrow columns get what they need first."""
    widths = list(least)
    spare = room - sum(least)
    places = sorted(range(len(least)), key=lambda place: most[place] - least[place])
    for rank, place in enumerate(places):
        extra = max(min(most[place] - least[place], spare // (len(places) - rank)), 0)
        widths[place] += extra
        spare -= extra
    return widths


@dataclass(frozen=True)
class Words:
    """Text; the lines that continue it are indented. With `fold`, a word that is longer than a line is cut."""

    text: Text
    indent: int
    fold: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.text.split(allow_blank=True):
            breaks = list(_breaks(line.plain, options.max_width, self.indent, fold=self.fold))
            for number, piece in enumerate(line.divide(breaks)):
                piece.rstrip()
                lead = Text(" " * self.indent if number else "")
                yield Text.assemble(lead, piece, no_wrap=True, overflow="ignore")


def _breaks(line: str, width: int, indent: int, *, fold: bool) -> Iterator[int]:
    """Where each further line begins."""
    begin, lead = 0, 0
    for word in _WORD.finditer(line):
        is_first = lead + cell_len(line[begin : word.start()]) <= indent
        if not is_first and lead + cell_len(line[begin : word.end()]) > width:
            yield word.start()
            begin, lead = word.start(), indent
        while fold and lead + cell_len(line[begin : word.end()]) > width:
            at = max(begin, word.start()) + 1
            while lead + cell_len(line[begin : at + 1]) <= width:
                at += 1
            yield at
            begin, lead = at, indent


class WordConsole(Console):
    """A console that does not cut words. Text is data, neither markup nor emoji codes."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print as `rich` does, but wrap text as `Words`."""
        super().print(*objects, **{"overflow": "ignore", "crop": False, "markup": False, "emoji": False, **options})

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render; text outside of tables, which have their own way, is wrapped as `Words`."""
        free = options is not None and options.overflow == "ignore" and not options.no_wrap
        if free and isinstance(renderable, Text) and renderable.no_wrap is None:
            renderable = Words(renderable, indent=len(renderable.plain) - len(renderable.plain.lstrip()))
        return super().render(renderable, options)
