"""The builder of derived rows: names, event time, unions, and what pruning leaves."""

import pytest

from headrace.define.derived_rows import EVENT_TIME, DerivedRows
from headrace.define.model import Field, Key, Stream, View
from headrace.define.relation import Branch, Explode, Filter, Join, Project, TableLog
from headrace.define.relation_rewrites import prune, view_over
from headrace.errors import DefinitionError
from headrace.language.check import check, check_condition
from headrace.language.expressions import parse_tree
from headrace.language.source_text import SourceText
from headrace.language.terms import Expression
from headrace.types import BIGINT, DOUBLE, INT, STRING, TIMESTAMP, array, map_of, struct
from tests import wording

ITEM = struct(("sku", STRING), ("qty", INT))
ORDERS = Stream(
    "orders",
    (
        Field("id", BIGINT),
        Field("items", array(ITEM)),
        Field("tags", map_of(STRING)),
        Field("note", STRING),
        Field("at", TIMESTAMP, nullable=False),
    ),
    "at",
    60_000,
)
LINES = Stream("lines", (Field("value", STRING), Field("n", INT)), format="text")


def expression(rows: DerivedRows, text: str) -> Expression:
    source = SourceText(text)
    return check(source, parse_tree(source), rows.scope())


def condition(rows: DerivedRows, text: str) -> Expression:
    source = SourceText(text)
    return check_condition(source, parse_tree(source), rows.scope(), "WHERE")


def select(rows: DerivedRows, **columns: str) -> DerivedRows:
    return rows.select([(name, expression(rows, text)) for name, text in columns.items()])


def test_a_filter_and_a_projection_read_only_what_they_need() -> None:
    rows = DerivedRows.of(ORDERS)
    rows = select(rows.where(condition(rows, "orders.id > 5")), number="id", time="at")
    assert rows.relation().branches == (
        Branch(
            "orders",
            (("id", BIGINT), ("at", TIMESTAMP)),
            (
                Filter(condition(DerivedRows.of(ORDERS), "id > 5")),
                Project((("number", Expression.field("id", BIGINT)), ("time", Expression.field("at", TIMESTAMP)))),
            ),
        ),
    )
    assert rows.relation().fields == (("number", BIGINT), ("time", TIMESTAMP))
    assert rows.relation().event_time == "time"
    assert rows.stream("o").patience_ms == 60_000


def test_the_event_time_is_carried_through_under_its_own_name() -> None:
    rows = select(DerivedRows.of(ORDERS), number="id")
    assert rows.relation().fields == (("number", BIGINT), ("at", TIMESTAMP))
    assert rows.event_time == "at"


def test_the_event_time_has_a_reserved_name_where_another_column_has_its_own() -> None:
    rows = select(DerivedRows.of(ORDERS), at="date_trunc('hour', at)")
    assert rows.relation().fields == (("at", TIMESTAMP), (EVENT_TIME, TIMESTAMP))
    assert rows.event_time == EVENT_TIME
    assert [entry.name for entry in rows.star()] == ["at"]
    again = rows.select([(entry.name, entry.expression) for entry in rows.star()])
    assert again.relation() == rows.relation()


def test_a_stream_without_event_time_has_none_and_may_name_the_arrival() -> None:
    rows = select(DerivedRows.of(LINES), word="value", came="_arrived")
    assert rows.event_time is None
    assert rows.relation().branches[0].reads == (("value", STRING),)


def test_selecting_all_columns_is_no_step() -> None:
    rows = DerivedRows.of(ORDERS)
    rows = rows.select([(entry.name, entry.expression) for entry in rows.star()])
    assert rows.relation().branches[0].steps == ()


def test_explode_adds_columns_beside_the_others() -> None:
    rows = DerivedRows.of(ORDERS)
    rows = rows.explode(expression(rows, "items"), ["i"], of="t", position="place")
    assert expression(rows, "t.i.sku").sql == "i.sku"
    assert expression(rows, "i.qty + place").type == INT
    assert prune(rows.relation(), ["i"]).branches[0] == Branch(
        "orders",
        (("items", array(ITEM)), ("at", TIMESTAMP)),
        (Explode(Expression.field("items", array(ITEM)), ("i",), (ITEM,)),),
    )


def test_explode_of_a_map_makes_key_and_value() -> None:
    rows = DerivedRows.of(ORDERS)
    rows = rows.explode(expression(rows, "tags"))
    assert expression(rows, "concat(key, value)").type == STRING


def test_an_exploded_column_may_have_the_name_of_a_field() -> None:
    rows = DerivedRows.of(ORDERS)
    rows = rows.explode(expression(rows, "items"), ["id"], of="t")
    assert expression(rows, "t.id.sku").sql == "_id_2.sku"
    assert expression(rows, "orders.id").sql == "id"
    with wording.raises(DefinitionError, "id"):
        expression(rows, "id")


def test_only_arrays_and_maps_are_exploded() -> None:
    rows = DerivedRows.of(ORDERS)
    with wording.raises(DefinitionError, "ARRAY", "MAP"):
        rows.explode(expression(rows, "note"))


def test_a_qualifier_without_that_column_names_a_similar_one() -> None:
    with wording.raises(DefinitionError, "nte", "note"):
        expression(DerivedRows.of(ORDERS, "o"), "o.nte")


def test_a_union_matches_columns_by_place_and_casts_to_the_common_type() -> None:
    a = select(DerivedRows.of(ORDERS), n="id", time="at")
    b = select(DerivedRows.of(ORDERS), x="items[0].qty", y="at")
    union = a.union(b).relation()
    assert union.fields == (("n", BIGINT), ("time", TIMESTAMP))
    assert union.event_time == "time"
    assert union.branches[1].steps[-1] == Project(
        (("n", Expression.stored("CAST(items[0].qty AS BIGINT)", BIGINT)), ("time", Expression.field("at", TIMESTAMP)))
    )


def test_a_union_carries_event_times_that_were_not_selected() -> None:
    union = select(DerivedRows.of(ORDERS), word="note").union(select(DerivedRows.of(LINES), w="value")).relation()
    assert union.fields == (("word", STRING), ("at", TIMESTAMP))
    assert union.event_time == "at"
    assert union.branches[1].steps[-1] == Project(
        (("word", Expression.field("value", STRING)), ("at", Expression.field("_arrived", TIMESTAMP)))
    )
    assert union.streams == ("orders", "lines")


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        ({"a": "value", "b": "n"}, ("2", "1")),
        ({"a": "value"}, ("n", "BIGINT", "STRING")),
    ],
)
def test_a_union_of_other_columns_is_refused(columns: dict[str, str], values: tuple[str, ...]) -> None:
    with wording.raises(DefinitionError, *values):
        select(DerivedRows.of(ORDERS), n="id").union(select(DerivedRows.of(LINES), **columns))


def test_a_watermark_sets_event_time_and_patience_anew() -> None:
    rows = select(DerivedRows.of(ORDERS), number="id", sent="to_timestamp(note)").watermark("sent", 5_000)
    relation = rows.relation()
    assert (relation.event_time, relation.patience_of("orders", 60_000)) == ("sent", 5_000)
    assert relation.fields == (("number", BIGINT), ("sent", TIMESTAMP))
    assert relation.branches[0].steps[-1] == Filter(condition(rows, "sent >= TIMESTAMP '1970-01-01 00:00:00'"))
    with wording.raises(DefinitionError, "number", "BIGINT"):
        rows.watermark("number")
    with wording.raises(DefinitionError, "nothing"):
        rows.watermark("nothing")


def test_a_left_join_whose_columns_nobody_reads_is_left_out() -> None:
    log = TableLog("users", (("id", STRING),), None)
    join = Join("users", "left", ((Expression.field("note", STRING), "id"),), log, (("city", "city", STRING),))
    rows = DerivedRows.of(ORDERS).then(join)
    assert prune(rows.relation(), ["id"]).branches[0].steps == ()
    inner = Join("users", "inner", join.keys, log, join.columns)
    pruned = prune(DerivedRows.of(ORDERS).then(inner).relation(), ["id"])
    assert pruned.branches[0].steps == (Join("users", "inner", join.keys, log),)
    assert pruned.branches[0].reads == (("id", BIGINT), ("note", STRING), ("at", TIMESTAMP))


def test_a_view_over_filtered_events_is_a_view_with_a_longer_condition() -> None:
    rows = DerivedRows.of(ORDERS)
    derived = rows.where(condition(rows, "id > 5 OR id < 2")).where(condition(rows, "note <> ''")).stream("some")
    view = View("v", ("some",), (Key("id", Expression.field("id", BIGINT)),), (), reads=(("id", BIGINT),))
    made = view_over(view, derived)
    assert (made.relation, made.streams) == (None, ("orders",))
    assert made.where == Expression.stored("(id > 5 OR id < 2) AND note <> ''", condition(rows, "TRUE").type)
    assert made.reads == (("id", BIGINT), ("note", STRING))


def test_a_view_over_other_rows_holds_their_relation() -> None:
    derived = select(DerivedRows.of(ORDERS), big="CAST(id AS DOUBLE)", note="note").stream("some")
    view = View("v", ("some",), (Key("big", Expression.field("big", DOUBLE)),), (), reads=(("big", DOUBLE),))
    made = view_over(view, derived)
    assert made.relation is not None
    assert made.relation.fields == (("big", DOUBLE), ("at", TIMESTAMP))
    assert made.reads_of("orders") == (("id", BIGINT), ("at", TIMESTAMP))


def test_column_names_are_checked() -> None:
    with wording.raises(DefinitionError, "a", "A"):
        select(DerivedRows.of(ORDERS), a="id", A="note")
    with wording.raises(DefinitionError):
        select(DerivedRows.of(ORDERS), _a="id")


def test_leaving_out_columns_is_no_step_unless_a_later_column_has_such_a_name() -> None:
    rows = DerivedRows.of(ORDERS)
    few = select(rows.where(condition(rows, "id > 5")), items="items", at="at")
    assert [type(step) for step in few.relation().branches[0].steps] == [Filter]
    again = few.explode(expression(few, "items"), ["id"])
    assert [type(step) for step in again.relation().branches[0].steps] == [Filter, Project, Explode]
