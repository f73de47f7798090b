"""The field of a CSV column whose title is not a valid name: "Order ID" is order_id."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Sequence

from headrace.define.definition_rules import LONGEST_NAME, is_plain


def field_names(titles: Sequence[str]) -> list[str]:
    """A field's name for each title: the title itself if it can be one, else the nearest that can."""
    names: list[str] = []
    for number, title in enumerate(titles, 1):
        name = title if is_plain(title) and "__" not in title else _nearest(title, number)
        if name.lower() in (other.lower() for other in names):
            name = f"{name[: LONGEST_NAME - 4]}_{number}"
        names.append(name)
    return names


def match_titles(titles: Sequence[str], fields: Container[str]) -> list[str]:
    """The field of the stream that each title is for; a title without a field stays as it is."""
    return [
        title if title in fields or name not in fields else name
        for title, name in zip(titles, field_names(titles), strict=True)
    ]


def _nearest(title: str, number: int) -> str:
    letters = unicodedata.normalize("NFKD", title.replace("ß", "ss")).encode("ascii", "ignore").decode()
    name = re.sub(r"[^a-z0-9]+", "_", letters.lower()).strip("_")[: LONGEST_NAME - 7].rstrip("_")
    if not name:
        return f"column_{number}"
    if not name[0].isalpha():
        return f"column_{name}"
    return name if is_plain(name) else f"{name}_column"
