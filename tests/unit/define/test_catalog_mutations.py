"""Definitions with slips at random places: each mistake is a DefinitionError with a place and its line."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from headrace.define.catalog import parse
from headrace.errors import DefinitionError
from headrace.language.source_text import SourceText, each, tokenize

TEXTS = [path.read_text() for path in sorted((Path(__file__).parents[2] / "day_one").glob("*.sql"))]
PIECES = [
    "(", ")", ",", ";", "'", '"', "`", "[", ".", ":", "::", "->", "->>", "#>>", "*", "-", "§", "\n", "/*", "E'",
    "now()", "SELECT", "FROM", "WHERE", "GROUP BY", "OVER", "CREATE", "AS", "EMIT", "WINDOW TUMBLING", "INTERVAL",
    "DISTINCT", "EXTRACT(", "HAVING", "ORDER BY", "LIMIT",
]  # fmt: skip


@st.composite
def definitions(draw: st.DrawFn) -> str:
    """A text with some tokens removed, repeated elsewhere or put in."""
    text = draw(st.sampled_from(TEXTS))
    places = [(token.start, token.end) for token in tokenize(SourceText(text))][:-1]
    for _ in range(draw(st.integers(1, 4))):
        (start, end), (other_start, other_end) = draw(st.sampled_from(places)), draw(st.sampled_from(places))
        piece = draw(st.sampled_from(["", text[other_start:other_end], *PIECES]))
        text = f"{text[:start]} {piece} {text[end if draw(st.booleans()) else start :]}"
    return text


@given(definitions())
def test_a_slip_is_a_mistake_with_a_place(text: str) -> None:
    try:
        parse(text, "a.sql")
    except DefinitionError as error:
        for mistake in each(error):
            assert mistake.where is not None
            assert mistake.excerpt is not None
            start, end = mistake.replaces or (0, 0)
            assert 0 <= start <= end <= len(text)
            assert mistake.replaces is None or mistake.write is not None
