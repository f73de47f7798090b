"""Tables that are aligned on a wide screen and stacked, each cell with its title, on a narrow one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from headrace.web.page.html import Html, Part, tag

Cell = Part
_ROLES = {"table": "table", "group": "rowgroup", "tr": "row", "col": "columnheader", "td": "cell"}


def table(
    titles: Sequence[str],
    rows: Iterable[Sequence[Cell]],
    *,
    label: str,
    numbers: Iterable[str] = (),
    stacked: bool = False,
    minor: Iterable[str] = (),
) -> Html:
    """A table; titles in `numbers` are aligned right, those in `minor` left out on a narrow screen.

    A cell that is None belongs to the one above it.
    """
    numbers, minor = set(numbers), set(minor)
    kinds = {t: f"{'number ' * (t in numbers)}{'minor' * (t in minor)}".strip() or None for t in titles}
    # Told outright, since a browser forgets that a table is one when its cells are stacked.
    roles = _ROLES if stacked else {}
    head = [tag("th", title, scope="col", class_=kinds.get(title), role=roles.get("col")) for title in titles]
    made = tag(
        "table",
        tag("thead", tag("tr", head, role=roles.get("tr")), role=roles.get("group")),
        tag("tbody", _body(titles, list(rows), kinds, roles), role=roles.get("group")),
        class_="stacked" if stacked else None,
        role=roles.get("table"),
    )
    # A table may be wider than the screen: then its frame scrolls, for the keyboard too.
    return tag("div", made, class_="scroll", role="region", aria_label=label, tabindex=0)


def _body(
    titles: Sequence[str], rows: Sequence[Sequence[Cell]], kinds: Mapping[str, str | None], roles: Mapping[str, str]
) -> Iterator[Html]:
    for at, row in enumerate(rows):
        cells = [
            tag(
                "td",
                cell,
                data_title=title if roles else None,
                class_=kinds.get(title),
                role=roles.get("td"),
                rowspan=_reach(rows, at, column),
            )
            for column, (title, cell) in enumerate(zip(titles, row, strict=True))
            if cell is not None
        ]
        yield tag("tr", cells, role=roles.get("tr"))


def _reach(rows: Sequence[Sequence[Cell]], at: int, column: int) -> int | None:
    """How many rows a cell spans, if more than its own."""
    end = at + 1
    while end < len(rows) and rows[end][column] is None:
        end += 1
    return end - at if end - at > 1 else None
