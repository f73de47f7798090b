"""UNIQUE (…) WITHIN … in SQL and Python: one object, old fingerprints, mistakes with their place."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

import headrace as hr
from headrace.define.catalog import Catalog, parse
from headrace.define.fingerprint import fingerprint, from_json, to_json
from headrace.define.model import Stream, UniqueEvents
from headrace.errors import DefinitionError
from headrace.plan.differences import compare
from tests import wording

FIELDS = "id STRING NOT NULL, amount DECIMAL(12,2), at TIMESTAMP NOT NULL, tags ARRAY<STRING>, whole STRUCT<id: INT>"
TIME = "WATERMARK FOR at AS at - INTERVAL 1 MINUTE"


def stream_of(clause: str) -> Stream:
    return parse(f"CREATE STREAM payments ({FIELDS}, {TIME}{clause});").streams["payments"]


DAY = stream_of(", UNIQUE (id) WITHIN INTERVAL 1 DAY")


def in_python(**options: object) -> Stream:
    return hr.Stream("payments", FIELDS, event_time="at", patience="1 minute", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "clause",
    [
        ", unique (ID) within interval '1' day",
        ", UNIQUE (id) WITHIN 1 DAY",
        ", UNIQUE (id) WITHIN (24 HOURS)",
        ", UNIQUE (id) WITHIN '1 day'",
        ", CONSTRAINT once UNIQUE (id) WITHIN INTERVAL 1 DAY",
    ],
)
def test_spellings(clause: str) -> None:
    assert stream_of(clause) == DAY
    assert DAY.unique == UniqueEvents(("id",), 86_400_000)


def test_after_a_field() -> None:
    sql = f"CREATE STREAM payments ({FIELDS.replace('NOT NULL,', 'NOT NULL UNIQUE WITHIN 1 DAY,', 1)}, {TIME});"
    assert parse(sql).streams["payments"] == DAY


@pytest.mark.parametrize("unique", ["id", ("id",), ["ID"]])
@pytest.mark.parametrize("within", ["1 day", "24h", timedelta(days=1)])
def test_python_makes_the_same(unique: object, within: object) -> None:
    assert in_python(unique=unique, within=within) == DAY
    assert in_python(unique=("id", "at"), within="90m") == stream_of(", UNIQUE (id, at) WITHIN 90 MINUTES")


def test_json_and_fingerprints() -> None:
    assert from_json(json.loads(json.dumps(to_json(DAY)))) == DAY
    plain = stream_of("")
    assert "unique" not in to_json(plain), "streams from before there was UNIQUE keep their fingerprint"
    assert fingerprint(plain) != fingerprint(DAY)


@pytest.mark.parametrize(
    ("clause", "place", "values"),
    [
        (", UNIQUE (id)", 1, ('UNIQUE', 'WITHIN INTERVAL', '1', 'DAY')),
        (", UNIQUE (id) NOT ENFORCED", 1, ('UNIQUE',)),
        (", UNIQUE (idd) WITHIN 1 DAY", 9, ('UNIQUE', 'idd')),
        (", UNIQUE (tags) WITHIN 1 DAY", 9, ('tags', 'UNIQUE', 'ARRAY', 'STRING')),
        (", UNIQUE (whole) WITHIN 1 DAY", 9, ('whole_id', 'AS')),
        (", UNIQUE (id) WITHIN INTERVAL 0 DAYS", 1, ('0',)),
        (", UNIQUE (id) WITHIN 1 MONTH", 20, ()),
        (", UNIQUE (id, ID) WITHIN 1 DAY", 1, ('UNIQUE',)),
        (", UNIQUE (id) WITHIN 1 DAY, UNIQUE (at) WITHIN 1 DAY", 27, ('UNIQUE',)),
        (", UNIQUE () WITHIN 1 DAY", 9, ()),
    ],
)  # fmt: skip
def test_mistakes_in_unique(clause: str, place: int, values: tuple[str, ...]) -> None:
    with pytest.raises(DefinitionError) as error:
        stream_of(clause)
    wording.check(error.value, *values)
    assert error.value.where is not None
    start = len(f"CREATE STREAM payments ({FIELDS}, {TIME}") + 2  # after the comma
    assert error.value.where.column == start + place


@pytest.mark.parametrize(
    ("options", "values"),
    [
        ({"unique": "id"}, ('1',)),
        ({"within": "1 day"}, ('payments',)),
        ({"unique": (), "within": "1 day"}, ()),
        ({"unique": (1,), "within": "1 day"}, ('1',)),
        ({"unique": "nope", "within": "1 day"}, ('UNIQUE', 'nope')),
        ({"unique": "id", "within": "0s"}, ('UNIQUE', '0')),
    ],
)  # fmt: skip
def test_mistakes_in_unique_in_python(options: dict[str, object], values: tuple[str, ...]) -> None:
    with pytest.raises(DefinitionError) as error:
        in_python(**options)
    wording.check(error.value, *values)
    assert error.value.where is not None
    assert error.value.where.file == __file__


def test_in_a_list_of_fields_it_is_an_argument() -> None:
    with wording.raises(DefinitionError, "UNIQUE", 1):
        hr.Stream("payments", "id STRING, UNIQUE (id) WITHIN 1 DAY")


def test_a_table_has_none() -> None:
    with wording.raises(DefinitionError, "users"):
        parse("CREATE TABLE users (id STRING PRIMARY KEY, UNIQUE (id) WITHIN 1 DAY)")


def test_a_table_enforces_none() -> None:
    with wording.raises(DefinitionError, "users", "UNIQUE", "PRIMARY KEY"):
        parse("CREATE TABLE users (id STRING PRIMARY KEY, mail STRING UNIQUE)")


@pytest.mark.parametrize("between", ["UNIQUE (id) WITHIN 1 DAY", "WATERMARK FOR at AS at, UNIQUE (id) WITHIN 1 DAY"])
def test_a_derived_stream_has_none(between: str) -> None:
    sql = f"CREATE STREAM s ({FIELDS}, {TIME}); CREATE STREAM t ({between}) AS SELECT * FROM s;"
    with wording.raises(DefinitionError, "t", "UNIQUE"):
        parse(sql)


@pytest.mark.parametrize(
    ("before", "after", "values"),
    [
        ("", ", UNIQUE (id) WITHIN 1 DAY", ('1',)),
        (", UNIQUE (id) WITHIN 1 DAY", ", UNIQUE (id, at) WITHIN 2 HOURS", ('1', '2')),
        (", UNIQUE (id) WITHIN 1 DAY", "", ('1',)),
    ],
)  # fmt: skip
def test_a_change_is_free(before: str, after: str, values: tuple[str, ...]) -> None:
    running, target = (Catalog({"payments": stream_of(each)}) for each in (before, after))
    (change,) = compare(running, target).changes
    assert (change.kind, change.reason) == (
        "change",
        "free: it applies from the next commit on; earlier events stay as they were judged",
    )
    wording.check(change.details[0], *values)


def test_a_plan_shows_it() -> None:
    (change,) = compare(Catalog(), Catalog({"payments": DAY})).changes
    wording.check(change.details, 1)
