"""Which rows a sample keeps: chosen evenly, independently of each other, and cheaply."""

from __future__ import annotations

import re
from typing import Any

import duckdb
import numpy as np
import pytest

from headrace.define.derived_rows import DerivedRows
from headrace.define.model import Field, Stream
from headrace.define.relation import Explode, Project, SampleRows
from headrace.define.row_builder import Inputs, apply
from headrace.define.sampling import duckdb_condition, make_sample, share_of, spark_condition
from headrace.errors import DefinitionError
from headrace.language.source_text import SourceText
from headrace.language.statements.select_rows import read_sample
from headrace.language.syntax import SampleClause
from headrace.language.terms import Expression
from headrace.language.token_cursor import TokenCursor
from headrace.types import BIGINT, DOUBLE, STRING, array
from tests import wording

ROWS = 200_000
CLICKS = Stream(
    "clicks", (Field("user_id", STRING), Field("dur_ms", BIGINT), Field("score", DOUBLE), Field("tags", array(STRING)))
)


@pytest.fixture(scope="module")
def events() -> Any:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute(
        f"CREATE TABLE events AS SELECT i AS _position, 'user-' || (i % 20000) AS user_id, i AS number "
        f"FROM range({ROWS}) t(i)"
    )
    yield connection
    connection.close()


def kept(events: Any, sample: SampleRows, *keys: str, stream: str = "clicks") -> np.ndarray:
    condition = duckdb_condition(sample, stream, keys)
    rows = events.sql(f"SELECT coalesce({condition}, false) AS kept FROM events ORDER BY _position")
    return np.asarray(rows.fetchnumpy()["kept"], dtype=bool)


@pytest.mark.parametrize("percent", [0.1, 1, 10, 50, 99.9, 100])
@pytest.mark.parametrize("by", [(), ("number",)])
def test_the_share_is_right(events: Any, percent: float, by: tuple[str, ...]) -> None:
    sample = SampleRows(percent, 3, tuple(Expression.stored(name, BIGINT) for name in by))
    share = percent / 100
    spread = (ROWS * share * (1 - share)) ** 0.5
    assert abs(kept(events, sample, *by).sum() - ROWS * share) <= 5 * spread


def test_rows_are_independent_of_their_neighbours_and_of_other_seeds_and_streams(events: Any) -> None:
    first = kept(events, SampleRows(10.0))
    others = [kept(events, SampleRows(10.0, seed)) for seed in range(1, 8)]
    others += [kept(events, SampleRows(10.0), stream="visits")]
    others += [np.roll(first, lag) for lag in (1, 2, 3, 8, 100, 1000, 65_536)]
    correlations = [np.corrcoef(first, other)[0, 1] * ROWS**0.5 for other in others]
    assert max(map(abs, correlations)) < 5  # standard deviations


def test_numbers_kept_of_each_thousand_are_spread_like_those_of_coins(events: Any) -> None:
    counts = kept(events, SampleRows(10.0)).reshape(-1, 1000).sum(axis=1)
    assert 0.7 < counts.var() / 90 < 1.3


def test_a_key_is_kept_with_all_of_its_rows_or_not_at_all(events: Any) -> None:
    sample = SampleRows(10.0, 0, (Expression.field("user_id", STRING),))
    by_user = kept(events, sample, "user_id").reshape(-1, 20_000)
    assert (by_user == by_user[0]).all()
    assert 1_800 < by_user[0].sum() < 2_200
    elsewhere = kept(events, sample, "user_id", stream="orders").reshape(-1, 20_000)
    assert (elsewhere == by_user).all()  # the same users of every stream


def test_null_is_a_key_like_others(events: Any) -> None:
    keys = (Expression.field("user_id", STRING),)
    chosen = [kept(events, SampleRows(50.0, seed, keys), "CAST(NULL AS VARCHAR)") for seed in range(40)]
    assert {bool(each.all()) for each in chosen} == {True, False}
    assert all(each.all() or not each.any() for each in chosen)


@pytest.mark.parametrize(
    ("condition", "calls"), [(duckdb_condition, {"xor"}), (spark_condition, {"shiftright"})], ids=["duckdb", "spark"]
)
def test_a_row_costs_some_arithmetic_and_no_text_or_digest(condition: Any, calls: set[str]) -> None:
    sql = condition(SampleRows(10.0), "clicks", ())
    assert set(re.findall(r"([A-Za-z]\w*)\s*\(", sql)) == calls
    assert "CAST" not in sql


def test_a_sample_of_a_sample_is_independent_of_it() -> None:
    rows = DerivedRows.of(CLICKS).sample(50).sample(20)
    assert [step.seed for step in rows.branches[0].steps if isinstance(step, SampleRows)] == [0, 1]
    share = share_of(rows.relation())
    assert share is not None
    assert share.percent == 10
    with wording.raises(DefinitionError, 7):
        DerivedRows.of(CLICKS).sample(50, seed=7).sample(20, seed=7)


@pytest.mark.parametrize("percent", [0, -1, 100.5, float("nan")])
def test_shares_out_of_range_are_refused(percent: float) -> None:
    with wording.raises(DefinitionError):
        make_sample(percent, None, (), ())


def test_keys_whose_texts_differ_between_engines_are_refused() -> None:
    with wording.raises(DefinitionError, "CAST(score AS STRING)"):
        DerivedRows.of(CLICKS).sample(10, [Expression.field("score", DOUBLE)])


def test_the_error_is_known_only_where_each_row_was_chosen_by_itself() -> None:
    rows = DerivedRows.of(CLICKS)
    user = Expression.field("user_id", STRING)
    tags = Expression.field("tags", array(STRING))
    explode = Explode(tags, ("tag",), (STRING,))
    assert share_of(rows.relation()) is None
    assert [share.clustered for share in map(share_of, (
        rows.sample(10).relation(), rows.sample(10, [user]).relation(), rows.sample(10).then(explode).relation(),
        rows.sample(10).union(rows.sample(10)).relation(),
    )) if share] == [False, True, True, True]  # fmt: skip


def test_different_shares_of_the_parts_of_a_union_cannot_be_scaled() -> None:
    rows = DerivedRows.of(CLICKS)
    with wording.raises(DefinitionError, 10):
        share_of(rows.sample(10).union(rows).relation())


def read(text: str) -> SampleClause:
    return read_sample(TokenCursor(SourceText(text)))


def test_tablesample_is_read() -> None:
    for text in ("(10 PERCENT)", "BERNOULLI (10)", "bernoulli (10 percent)", "(1e1)"):
        clause = read(f"TABLESAMPLE {text}")
        assert (clause.percent, clause.seed, clause.keys) == (10.0, None, ())
    clause = read("TABLESAMPLE (2.5 PERCENT) BY (user_id, lower(url)) REPEATABLE (42)")
    assert (clause.percent, clause.seed, len(clause.keys)) == (2.5, 42, 2)
    other_order = read("TABLESAMPLE (1) REPEATABLE (7) BY (user_id)")
    assert (other_order.seed, len(other_order.keys)) == (7, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(100 ROWS)", "TABLESAMPLE (10 PERCENT)"),
        ("(BUCKET 3 OUT OF 20 ON user_id)", "write TABLESAMPLE (5 PERCENT) BY (user_id)"),
        ("SYSTEM (10)", "write BERNOULLI"),
        ("(ten PERCENT)", "a number of percent"),
        ("(10 PERCENT) REPEATABLE (x)", "a whole number as the seed"),
        ("10 PERCENT", "("),
    ],
)
def test_other_forms_are_refused_with_what_to_write(text: str, message: str) -> None:
    with pytest.raises(DefinitionError) as caught:
        read(f"TABLESAMPLE {text}")
    assert message in str(caught.value)


def test_keys_are_columns_of_the_rows() -> None:
    source = SourceText("TABLESAMPLE (10 PERCENT) BY (user_id)")
    clause, inputs = read_sample(TokenCursor(source)), Inputs(source, {})
    assert apply(clause, DerivedRows.of(CLICKS), inputs).branches[0].steps == (
        SampleRows(10.0, 0, (Expression.field("user_id", STRING),)),
    )
    projected = DerivedRows.of(CLICKS).select([("who", Expression.field("user_id", STRING))])
    assert isinstance(projected.branches[0].steps[0], Project)
    with pytest.raises(DefinitionError, match="user_id"):
        apply(clause, projected, inputs)
