"""Tables as definitions: their two parts, JSON, and their place in a catalog."""

from __future__ import annotations

from typing import Any

import pytest

import headrace as hr
from headrace.define.catalog import Catalog, parse
from headrace.define.fingerprint import fingerprint, from_json, to_json
from headrace.define.model import Field, Over, Table
from headrace.define.relation import Branch, Project, Relation
from headrace.define.table_parts import changes_of, view_of
from headrace.errors import DefinitionError
from headrace.language.terms import Expression
from headrace.plan.differences import compare
from headrace.plan.edits import classify
from headrace.types import BOOLEAN, STRING, TIMESTAMP
from tests import wording

USERS = Table("users", (Field("id", STRING), Field("plan", STRING), Field("my city", STRING)), ("id",))
_READS = (("person", STRING), ("place", STRING), ("at", TIMESTAMP))
_MOVES = Branch("moves", _READS, (Project(tuple((name, Expression.field(name, of)) for name, of in _READS)),))
LIVES = Table(
    "lives", tuple(Field(*read) for read in _READS), ("person",), "at", relation=Relation((_MOVES,), _READS, "at")
)


def test_changes_of_a_declared_table() -> None:
    stream = changes_of(USERS)
    assert (stream.name, stream.relation) == ("users", None)
    assert stream.fields[0] == Field("id", STRING, nullable=False)
    assert stream.fields[-1] == Field("_deleted", BOOLEAN)


def test_view_of_a_declared_table() -> None:
    view = view_of(USERS)
    assert (view.name, view.streams, [key.name for key in view.keys]) == ("users", ("users",), ["id"])
    assert view.shape is not None
    assert [output.name for output in view.shape.outputs] == ["plan", "my city"]
    assert dict(view.reads)["_deleted"] == BOOLEAN
    assert from_json(to_json(view)) == view


def test_a_table_of_keys_only() -> None:
    view = view_of(Table("vip", (Field("user_id", STRING),), ("user_id",)))
    assert view.shape is not None
    assert view.shape.only_keys
    assert from_json(to_json(view)) == view


def test_parts_of_a_derived_table() -> None:
    stream, view = changes_of(LIVES), view_of(LIVES)
    assert stream.relation == LIVES.relation
    assert (view.streams, view.relation) == (("moves",), None)  # these are the events of the stream as they are
    assert [field.name for field in stream.fields] == ["person", "place", "at"]


def test_json_and_fingerprint() -> None:
    for table in (USERS, LIVES):
        assert from_json(to_json(table)) == table
    assert fingerprint(USERS) != fingerprint(LIVES)


def test_a_catalog_has_the_parts_of_its_tables() -> None:
    catalog = Catalog.of([USERS])
    assert list(catalog.tables) == list(catalog.streams) == list(catalog.views) == ["users"]
    assert catalog.definitions == (USERS,)
    assert len(catalog) == 1


def test_sql_and_python_make_equal_tables() -> None:
    sql = parse("CREATE TABLE users (id STRING PRIMARY KEY, plan STRING, `my city` STRING)").tables["users"]
    assert sql == hr.Table("users", "id STRING, plan STRING, `my city` STRING", key="id") == USERS
    constraint = "CREATE TABLE users (id STRING, plan STRING, `my city` STRING, PRIMARY KEY (ID) NOT ENFORCED)"
    assert parse(constraint).tables["users"] == sql


def test_a_table_without_a_key_in_python() -> None:
    with wording.raises(DefinitionError, "users", "STRING PRIMARY KEY"):
        hr.Table("users", "id STRING, plan STRING")


def test_a_key_of_several_columns_and_an_event_time() -> None:
    text = "CREATE TABLE t (b INT, a STRING, at TIMESTAMP NOT NULL, CONSTRAINT k PRIMARY KEY (a, b), WATERMARK FOR at)"
    table = parse(text).tables["t"]
    assert (table.key, table.event_time) == (("a", "b"), "at")
    assert table == hr.Table("t", "b INT, a STRING, at TIMESTAMP NOT NULL", key=["a", "b"], event_time="at")


TAGGED_MOVES = (
    "CREATE STREAM moves (person STRING NOT NULL, place STRING, tags ARRAY<STRING>, at TIMESTAMP NOT NULL, "
    "WATERMARK FOR at AS at - INTERVAL 1 MINUTE);"
)


def moves_stream() -> Any:
    columns = "person STRING NOT NULL, place STRING, tags ARRAY<STRING>, at TIMESTAMP NOT NULL"
    return hr.Stream("moves", columns, event_time="at", patience="1 minute")


@pytest.mark.parametrize(
    ("sql", "query", "options"),
    [
        ("lives PRIMARY KEY (person) AS SELECT person, place, at FROM moves",
         lambda moves: moves.select("person", "place", "at"), {"key": "person"}),
        ("lives PRIMARY KEY (person) AS SELECT person, place FROM moves",
         lambda moves: moves.select("person", "place"), {"key": ["person"]}),
        ("lives PRIMARY KEY (Person, place) AS SELECT person, upper(place) AS place FROM moves WHERE place <> ''",
         lambda moves: moves.where("place <> ''").select("person", place="upper(place)"),
         {"key": ("person", "place")}),
        ("lives PRIMARY KEY (tag) AS SELECT person, at, tag FROM moves LATERAL VIEW explode(tags) t AS tag",
         lambda moves: moves.explode("tags", as_="tag").select("person", "at", "tag"), {"key": "tag"}),
        ("lives (WATERMARK FOR seen AS seen - INTERVAL 5 SECONDS) PRIMARY KEY (person) AS "
         "SELECT person, at AS seen FROM moves",
         lambda moves: moves.select("person", seen="at"),
         {"key": "person", "event_time": "seen", "patience": "5 seconds"}),
    ],
)  # fmt: skip
def test_a_table_over_a_query_in_sql_and_python(sql: str, query: Any, options: dict[str, Any]) -> None:
    written = parse(f"{TAGGED_MOVES} CREATE TABLE {sql};").tables["lives"]
    made = hr.Table("lives", query(moves_stream()), **options)
    assert made == written
    assert fingerprint(view_of(made)) == fingerprint(view_of(written))
    assert fingerprint(made) == fingerprint(written)


def test_a_table_over_a_whole_stream_and_a_view_over_it() -> None:
    sql = parse("""CREATE STREAM moves (person STRING, place STRING);
        CREATE TABLE lives PRIMARY KEY (person) AS SELECT * FROM moves;
        CREATE MATERIALIZED VIEW headcount AS SELECT place, count(*) AS n FROM lives GROUP BY place;""")
    lives = hr.Table("lives", hr.Stream("moves", "person STRING, place STRING"), key="person")
    headcount = hr.View("headcount", lives.group_by("place").agg(n=hr.count()))
    assert lives == sql.tables["lives"]
    assert fingerprint(headcount) == fingerprint(sql.views["headcount"])


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (lambda moves: hr.Table("t", moves.select("person"), key="place"), ("t", "place")),
        (lambda moves: hr.Table("t", moves.select("persn"), key="person"), ("persn",)),
        (lambda moves: hr.Table("t", moves, key=()), ("t",)),
        (lambda moves: hr.Table("t", moves, key="person", source=hr.kafka(topic="t")), ("t",)),
        (lambda moves: hr.Table("t", moves, key="person", patience="1s"), ("event_time",)),
        (lambda moves: hr.Table("t", moves, key="person", event_time="place"), ("place",)),
        (lambda moves: hr.Table("t", moves.group_by("person").agg(n=hr.count()), key="person"), ()),
        (lambda moves: hr.Table("t", hr.Table("u", moves, key="person"), key="person"), ("u",)),
        (lambda moves: hr.Table("t", 3, key="person"), ()),
    ],
)
def test_what_a_table_over_a_query_refuses(make: Any, values: tuple[str, ...]) -> None:
    with pytest.raises(DefinitionError) as error:
        make(moves_stream())
    wording.check(error.value, *values)
    assert error.value.where is not None


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("CREATE TABLE t (a INT)", ("PRIMARY KEY", "WATERMARK")),
        (
            "CREATE STREAM s (a INT); CREATE TABLE t AS SELECT a FROM s",
            ("CREATE TABLE", "PRIMARY KEY"),
        ),
        ("CREATE TABLE t (a INT PRIMARY KEY, b INT PRIMARY KEY)", ("PRIMARY",)),
        ("CREATE TABLE t (a INT, PRIMARY KEY (b))", ("t", "b")),
        ("CREATE TABLE t (a INT PRIMARY KEY, b INT NOT NULL)", ("1:36", "t", "b", "NOT NULL")),
        (
            "CREATE TABLE t (a PRIMARY KEY, b INT)",
            ("1:19", "t", "a", "PRIMARY"),
        ),
        ("CREATE TABLE t (a INT PRIMARY KEY, WATERMARK FOR b AS b)", ("t", "b")),
        ("CREATE TABLE t (a ARRAY<INT> PRIMARY KEY)", ()),
        ("CREATE TABLE t (a INT PRIMARY KEY, m MAP<STRING, INT>)", ("1:36", "t", "m", "MAP")),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a, a))", ("a",)),
        ("CREATE TABLE t (a INT PRIMARY KEY, PRIMARY KEY (a))", ("PRIMARY",)),
        ("CREATE TABLE t (value STRING PRIMARY KEY) FORMAT TEXT", ("TEXT",)),
    ],
)
def test_what_tables_refuse(text: str, values: tuple[str, ...]) -> None:
    with pytest.raises(DefinitionError) as error:
        parse(text)
    wording.check(error.value, *values)
    assert error.value.where is not None


def test_a_table_of_flink_without_key_is_a_stream() -> None:
    catalog = parse("CREATE TABLE t (a INT, at TIMESTAMP, WATERMARK FOR at AS at)")
    assert (list(catalog.streams), list(catalog.tables)) == (["t"], [])


@pytest.mark.parametrize(
    ("before", "after", "texts"),
    [
        ("(id INT PRIMARY KEY, a INT)", "(id INT PRIMARY KEY, a INT, b INT)", ("field added: b INT",)),
        ("(id INT PRIMARY KEY, a INT)", "(id INT PRIMARY KEY)", ("field removed: a INT",)),
        ("(id INT PRIMARY KEY, a INT)", "(id INT PRIMARY KEY, a BIGINT)", ("field a: INT → BIGINT",)),
        ("(id INT PRIMARY KEY, a INT, b INT)", "(id INT PRIMARY KEY, b INT, a INT)", ("the order of the columns",)),
        ("(id INT PRIMARY KEY, a INT)", "(id INT PRIMARY KEY, a INT)", ()),
    ],
)
def test_an_edit_of_a_table_is_told_in_the_words_of_its_definition(
    before: str, after: str, texts: tuple[str, ...]
) -> None:
    old, new = (parse(f"CREATE TABLE users {fields}").views["users"] for fields in (before, after))
    edit = classify(old, new)
    assert tuple(text for text in edit.texts if not text.startswith("type of")) == texts
    assert edit.free == (not texts)


def test_a_table_made_in_another_way_is_built_anew() -> None:
    moves = "CREATE STREAM moves (id INT, a INT);"
    declared = parse("CREATE TABLE users (id INT PRIMARY KEY, a INT)").views["users"]
    derived = parse(moves + "CREATE TABLE users PRIMARY KEY (id) AS SELECT id, a FROM moves").views["users"]
    wording.check(classify(declared, derived).texts)


def test_a_plan_shows_one_table() -> None:
    before = parse("CREATE TABLE users (id STRING PRIMARY KEY, plan STRING)")
    created = compare(Catalog(), before)
    assert [(change.kind, change.what, change.name) for change in created.changes] == [("create", "table", "users")]
    wording.check(created.changes[0].details)
    after = parse("CREATE TABLE users (id STRING PRIMARY KEY, plan STRING, city STRING)")
    (edit,) = compare(before, after).changes
    assert (edit.kind, edit.what, edit.how) == ("change", "table", "build")
    wording.check(edit.details, "STRING")
    (drop,) = compare(before, Catalog()).changes
    assert (drop.kind, drop.what) == ("drop", "table")
    (refused,) = compare(before, parse("CREATE TABLE users (id INT PRIMARY KEY, plan STRING)")).changes
    assert (refused.kind, refused.what) == ("refuse", "table")


MOVES = "CREATE STREAM moves (person STRING NOT NULL, place STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);"


def test_a_table_made_from_a_stream() -> None:
    lives = "CREATE TABLE lives PRIMARY KEY (person) AS SELECT person, upper(place) AS place, at FROM moves;"
    count = "CREATE MATERIALIZED VIEW headcount AS SELECT place, count(*) AS people FROM lives GROUP BY place;"
    catalog = parse(MOVES + lives + count)
    table, view = catalog.tables["lives"], catalog.views["headcount"]
    assert (table.key, table.event_time) == (("person",), "at")
    assert catalog.views["lives"].streams == view.streams == ("moves",)
    assert view.over == Over("lives")
    assert "lives" not in catalog.streams


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("SELECT CAST(place AS INT) AS p, count(*) AS n FROM lives GROUP BY 1", ('CAST',)),
        ("SELECT plce, count(*) AS n FROM lives GROUP BY plce", ('lives', 'plce')),
        ("SELECT i, count(*) AS n FROM (SELECT place AS i FROM lives) GROUP BY i", ('lives',)),
        ("SELECT person, count(*) AS n FROM lives GROUP BY person, session_window(at, '1 hour')", ('lives',)),
        ("SELECT i, count(*) AS n FROM lives LATERAL VIEW explode(split(place, ' ')) t AS i GROUP BY i", ()),
    ],
)  # fmt: skip
def test_what_views_over_tables_refuse(text: str, values: tuple[str, ...]) -> None:
    lives = "CREATE TABLE lives PRIMARY KEY (person) AS SELECT person, place FROM moves;"
    with pytest.raises(DefinitionError) as error:
        parse(f"{MOVES}{lives}CREATE MATERIALIZED VIEW v AS {text}")
    wording.check(error.value, *values)
