"""Where the parts of a statement are written, and what to write in their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.language.source_text import SourceText


@dataclass(frozen=True)
class TextEdit:
    """A part of the statement, by its offsets, and what to write there."""

    start: int
    end: int
    text: str = ""


@dataclass(frozen=True)
class Outline:
    """Where the parts of a statement begin and end, and what it has of other systems."""

    start: int = 0
    end: int = 0
    groups_at: int = 0  # the end of GROUP BY, or where it belongs
    has_groups: bool = False
    where: tuple[int, int] | None = None  # the offsets of WHERE and its condition
    items_end: int = 0  # of SELECT
    # Of other systems:
    reasons: tuple[str, ...] = ()
    edits: tuple[TextEdit, ...] = ()
    window: tuple[str, ...] = ()  # the size, and the slide if it has one, of WINDOW TUMBLING and HOPPING; the gap
    window_call: str = "window"  # … of WINDOW SESSION, which is session_window
    distinct: bool = False
    grace: str | None = None  # GRACE PERIOD of ksqlDB
    window_names: tuple[str, ...] = ()  # in lower case, w of GROUP BY window(…) AS w


NO_OUTLINE = Outline()


def rewrite(source: SourceText, outline: Outline, groups: Sequence[str] = ()) -> str:
    """Return a statement with its edits, and more items of GROUP BY."""
    edits = list(outline.edits)
    if groups:
        separator = ", " if outline.has_groups else " GROUP BY "
        edits.append(TextEdit(outline.groups_at, outline.groups_at, separator + ", ".join(groups)))
    pieces, offset = [], outline.start
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        pieces += [source.text[offset : edit.start], edit.text]
        offset = max(offset, edit.end)
    text = "".join([*pieces, source.text[offset : outline.end]])
    return " ".join(line.strip() for line in text.splitlines()).replace("  ", " ").strip()
