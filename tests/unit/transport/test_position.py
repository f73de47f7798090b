"""Positions: offsets of partitions, partly ordered, as data and as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.ingest.receiver import make_token, merge_tokens, read_token
from headrace.transport.position import START, Position

positions = st.lists(st.integers(0, 1 << 48), max_size=5).map(lambda offsets: Position(tuple(offsets)))


@given(positions, positions)
def test_merge_is_the_first_position_that_covers_both(one: Position, two: Position) -> None:
    both = one.merge(two)
    assert both == two.merge(one)
    assert both.covers(one)
    assert both.covers(two)
    assert (both == one) == one.covers(two)
    assert both.merge(START) == both


@given(positions)
def test_a_position_is_the_same_as_data_and_in_a_token(position: Position) -> None:
    assert Position.from_json(position.to_json()) == position
    assert Position.from_text(position.to_text()) == position
    assert read_token(make_token("visits", position)) == ("visits", position)


def test_partitions_that_are_not_named_are_at_their_start() -> None:
    assert Position((5, 0, 0)) == Position.at(5)
    assert Position((0, 0)) == START
    assert (Position.at(7, 2).offset(2), Position.at(7, 2).offset(9)) == (7, 0)
    assert not Position((5, 1)).covers(Position((4, 2)))
    assert not Position((4, 2)).covers(Position((5, 1)))
    with pytest.raises(ValueError, match="negative"):
        Position((-1,))


def test_one_partition_is_a_plain_number() -> None:
    """As workspaces and tokens of one partition always were."""
    assert (START.to_json(), Position.at(30).to_json(), Position((1, 2)).to_json()) == (0, 30, [1, 2])
    assert (START.to_text(), Position.at(30).to_text()) == ("0", "1e")
    assert (Position((1, 10)).to_text(), Position.at(10, 1).to_text()) == ("0-1_1-a", "1-a")


@pytest.mark.parametrize(
    "token", ["", "visits", "visits.", "visits.-1", "visits.x", "visits.1_2", "visits.fffff-1", ".5"]
)
def test_other_texts_are_no_tokens(token: str) -> None:
    assert read_token(token) is None


def test_a_token_that_stands_for_two() -> None:
    assert merge_tokens("", "visits.a") == merge_tokens("visits.a", "") == merge_tokens("visits.2", "visits.a")
    assert merge_tokens("visits.2", "visits.1-a") == "visits.0-2_1-a"
