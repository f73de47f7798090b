"""Tables as definitions: their two parts, JSON, and their place in a catalog."""

from __future__ import annotations

from headrace.define.catalog import Catalog
from headrace.define.fingerprint import fingerprint, from_json, to_json
from headrace.define.model import Field, Table
from headrace.define.relation import Branch, Project, Relation
from headrace.define.tables import changes_of, view_of
from headrace.types import BOOLEAN, STRING, TIMESTAMP, Expression

USERS = Table("users", (Field("id", STRING), Field("plan", STRING), Field("my city", STRING)), ("id",))
_READS = (("person", STRING), ("place", STRING), ("at", TIMESTAMP))
_MOVES = Branch("moves", _READS, (Project(tuple((name, Expression(name, of)) for name, of in _READS)),))
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
    assert stream.relation == view.relation == LIVES.relation
    assert view.streams == ("moves",)
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
