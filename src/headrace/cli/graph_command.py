"""`headrace graph`: streams, tables, views, sinks and alerts, and what reads what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from headrace.cli.common_options import JsonOption, WorkspaceOption, open_connection
from headrace.cli.output import console, plural, print_json, say
from headrace.errors import HeadraceError, UsageError
from headrace.lazy import later

if TYPE_CHECKING:
    from headrace.server.status import GraphStatus, NodeStatus
    from headrace.web.page import graph_page
else:  # loaded by their first use
    graph_page = later("headrace.web.page.graph_page")

NOTHING = "nothing is declared yet: `headrace init` makes an example"
GAP = 2


def graph(
    svg: Annotated[Path | None, typer.Option("--svg", metavar="FILE", help="Write a picture to this file.")] = None,
    workspace: WorkspaceOption = ".",
    as_json: JsonOption = False,
) -> None:
    """Show the dependencies of all definitions, with rates.

    Prints a tree: below each stream and table, the views, sinks and alerts that read it. What reads several inputs is
    shown completely below the first of them, and as `see above` below the others.
    """
    if svg is not None and as_json:
        raise UsageError("--svg and --json cannot be combined", fix="give one of them")
    with open_connection(workspace) as connection:
        status = connection.verbs.graph()
    if as_json:
        print_json(status)
    elif svg is not None:
        _write(svg, status)
    elif not status.nodes:
        console().print(NOTHING)
    else:
        for line in graph_lines(status.nodes):
            console().print(line)


def _write(file: Path, status: GraphStatus) -> None:
    try:
        file.write_text(graph_page.graph_svg(status, alone=True), encoding="utf-8")
    except OSError as error:
        raise HeadraceError(f"file '{file}' cannot be written: {error.strerror}") from error
    say(f"Wrote {plural(len(status.nodes), 'node')} to {file}.")


def graph_lines(nodes: Sequence[NodeStatus]) -> Iterator[Text]:
    """A tree from each node that reads nothing, a line per node."""
    readers: dict[str, list[NodeStatus]] = {}
    for node in nodes:
        for source in node.reads:
            readers.setdefault(source, []).append(node)
    lines: list[tuple[str, NodeStatus, bool]] = []
    done: set[str] = set()

    def add(node: NodeStatus, first: str, rest: str) -> None:
        again = node.name in done
        lines.append((f"{first}{node.name}", node, again))
        if again:
            return
        done.add(node.name)
        below = readers.get(node.name, [])
        for place, reader in enumerate(below):
            last = place == len(below) - 1
            add(reader, f"{rest}{'└─ ' if last else '├─ '}", f"{rest}{'   ' if last else '│  '}")

    for node in nodes:
        if not node.reads:
            add(node, "", "")
    width = max(len(text) for text, _, _ in lines) + GAP
    for text, node, again in lines:
        line = "see above" if again else graph_page.node_line(node)
        yield Text.assemble(text, " " * (width - len(text)), (line, "red" if node.problem and not again else "dim"))
