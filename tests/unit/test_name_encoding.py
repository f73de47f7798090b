"""Names of any characters as file names and parts of cursors."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.deliver.event_page import EventCursor, UnionCursor
from headrace.ingest.receiver import make_token, read_token
from headrace.name_encoding import decode_name, encode_name
from headrace.serve.question_times import read_as_of, write_commits
from headrace.transport.position import Position

NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=63)


@given(NAMES)
def test_an_encoded_name_reads_back_and_stays_in_its_folder(name: str) -> None:
    encoded = encode_name(name)
    assert re.fullmatch(r"[A-Za-z0-9_~]+", encoded)
    assert decode_name(encoded) == name


@pytest.mark.parametrize("name", ["visits", "Page_views2", "a__b"])
def test_a_plain_name_stays_as_it_is(name: str) -> None:
    assert encode_name(name) == name


@given(st.lists(st.tuples(NAMES, st.integers(0, 10**6)), min_size=1, max_size=4, unique_by=lambda pair: pair[0]))
def test_cursors_and_tokens_of_any_names(parts: list[tuple[str, int]]) -> None:
    cursor = UnionCursor(tuple((name, EventCursor(number, number)) for name, number in parts))
    assert UnionCursor.from_text(cursor.to_text()) == cursor
    name, number = parts[0]
    assert read_token(make_token(name, Position.at(number))) == (name, Position.at(number))


@given(st.dictionaries(NAMES, st.integers(0, 99), min_size=1, max_size=3))
def test_commits_of_streams_as_text(commits: dict[str, int]) -> None:
    as_of = read_as_of(write_commits(commits), None)
    assert as_of is not None
    assert dict(as_of.of_streams or ()) == commits
