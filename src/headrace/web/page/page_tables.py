"""Tables that are aligned on a wide screen and stacked, each cell with its title, on a narrow one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from headrace.html import Html, Part, breakable, tag

Cell = Part
_ROLES = {"table": "table", "group": "rowgroup", "tr": "row", "col": "columnheader", "td": "cell"}


@dataclass(frozen=True)
class TableColumn:
    """A column of a table."""

    title: str
    number: bool = False  # aligned right
    minor: bool = False  # left out on a narrow screen
    sort_path: str | None = None  # the page with the rows sorted by this column
    sorted: Literal["ascending", "descending"] | None = None  # how the rows are sorted by it now

    @property
    def kind(self) -> str | None:
        """The class in the style sheet."""
        return f"{'number ' * self.number}{'minor' * self.minor}".strip() or None


def columns(*titles: str, numbers: Collection[str] = (), minor: Collection[str] = ()) -> list[TableColumn]:
    """Columns by their titles; those in `numbers` are aligned right, those in `minor` left out on a narrow screen."""
    return [TableColumn(title, title in numbers, title in minor) for title in titles]


def table(columns: Sequence[TableColumn], rows: Iterable[Sequence[Cell]], *, label: str, stacked: bool = False) -> Html:
    """A table. A cell that is None is merged with the one above it."""
    # Explicit roles, since browsers drop the table semantics when the cells are not displayed as a table.
    roles = _ROLES if stacked else {}
    head = [_head(column, roles) for column in columns]
    element = tag(
        "table",
        tag("thead", tag("tr", head, role=roles.get("tr")), role=roles.get("group")),
        tag("tbody", _body(columns, list(rows), roles), role=roles.get("group")),
        class_="stacked" if stacked else None,
        role=roles.get("table"),
    )
    # A table may be wider than the screen: then its frame scrolls, for the keyboard too.
    return tag("div", element, class_="scroll", role="region", aria_label=label, tabindex=0)


def _head(column: TableColumn, roles: Mapping[str, str]) -> Html:
    title = breakable(column.title)
    if column.sort_path is not None:
        arrow = {"ascending": "▲", "descending": "▼", None: "↕"}[column.sorted]
        mark = tag("span", arrow, class_="arrow", aria_hidden="true")
        title = tag("a", title, mark, href=column.sort_path, data_stay=True, title=f"sort by {column.title}")
    return tag("th", title, scope="col", class_=column.kind, role=roles.get("col"), aria_sort=column.sorted)


def _body(columns: Sequence[TableColumn], rows: Sequence[Sequence[Cell]], roles: Mapping[str, str]) -> Iterator[Html]:
    for at, row in enumerate(rows):
        cells = [
            tag(
                "td",
                cell,
                data_title=column.title if roles else None,
                class_=column.kind,
                role=roles.get("td"),
                rowspan=_reach(rows, at, place),
            )
            for place, (column, cell) in enumerate(zip(columns, row, strict=True))
            if cell is not None
        ]
        yield tag("tr", cells, role=roles.get("tr"))


def _reach(rows: Sequence[Sequence[Cell]], at: int, column: int) -> int | None:
    """The number of rows that a cell spans, if more than its own."""
    end = at + 1
    while end < len(rows) and rows[end][column] is None:
        end += 1
    return end - at if end - at > 1 else None
