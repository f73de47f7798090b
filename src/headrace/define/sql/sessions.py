"""Sessions in the SELECT of a view: the statement with windows of a fixed size to write in their place."""

from __future__ import annotations

import re
from dataclasses import replace

from headrace.define.expression.hints import NO_SESSIONS, session_gap
from headrace.define.sql.peers import TextEdit
from headrace.define.sql.select import SelectItem, ViewStatement
from headrace.language.source_text import escape
from headrace.language.syntax import Call, Literal, Name, Node, Part
from headrace.language.terms import quote
from headrace.types import INT, STRING

_ALIAS = re.compile(r"\s+(?:AS\s+)?(?:\w+|`[^`]+`|\"[^\"]+\")", re.IGNORECASE)


def without_sessions(select: ViewStatement) -> ViewStatement:
    """The statement with windows where SELECT, or GROUP BY of a statement that is refused anyway, has sessions."""
    edits: list[TextEdit] = []
    items: list[SelectItem] = []
    replacements: dict[str, tuple[Node, str]] = {}  # in GROUP BY, by the names and places of items
    for place, item in enumerate(select.items, start=1):
        node = _fixed(item.node, edits)
        if place <= len(items):  # it has moved
            replacements[str(place)] = Literal(node.at, str(len(items) + 1), INT), str(len(items) + 1)
        if isinstance(node, Call) and node is not item.node and item.alias:
            window = edits.pop()
            replacements[item.alias.lower()] = replacements[str(place)] = node, window.text
            bounds = [
                replace(item, node=Name(node.at, f"window_{bound}"), alias=f"{item.alias}_{bound}")
                for bound in ("start", "end")
            ]
            names = ", ".join(f"window_{bound} AS {quote(f'{item.alias}_{bound}')}" for bound in ("start", "end"))
            alias = _ALIAS.match(select.source.text, window.end)
            edits.append(TextEdit(window.start, alias.end() if alias else window.end, names))
            items += bounds
        else:
            items.append(replace(item, node=node))
    if not (edits or select.peer.reasons):
        return select
    groups = []
    for group in select.groups:
        key = group.name.lower() if isinstance(group, Name) and not group.of else getattr(group, "text", "")
        if key in replacements and group.span:
            written, text = replacements[key]
            edits.append(TextEdit(*group.span, text))
            groups.append(replace(written, span=group.span))
        else:
            groups.append(_fixed(group, edits))
    if not edits:
        return select
    reasons = (*select.peer.reasons, f"{NO_SESSIONS}: meanwhile write windows of a fixed size")
    peer = replace(select.peer, reasons=reasons, edits=(*select.peer.edits, *edits))
    return replace(select, items=tuple(items), groups=tuple(groups), peer=peer)


def _fixed(node: Node, edits: list[TextEdit]) -> Node:
    """The window of a session, or the part of one; other expressions as they are. What to write is added to `edits`."""
    if isinstance(node, Part):
        value = _fixed(node.value, edits)
        return node if value is node.value else replace(node, value=value)
    is_session = isinstance(node, Call) and node.name.lower() == "session_window" and len(node.args) == 2
    if not (is_session and isinstance(node, Call) and node.written):
        return node
    gap = session_gap(node)
    time, written = node.written.arguments
    edits.append(TextEdit(node.at, node.written.end, f"window({time}, {escape(gap) if gap else written})"))
    size = Literal(node.at, gap, STRING) if gap else node.args[1]
    return replace(node, name="window", args=(node.args[0], size))
