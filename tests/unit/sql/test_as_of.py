"""VERSION AS OF and TIMESTAMP AS OF are taken out of a query, and nothing else is."""

from __future__ import annotations

import pytest

from headrace.sql.as_of import AsOfTable, take_apart
from headrace.sql.check import Refused


@pytest.mark.parametrize(
    ("query", "made"),
    [
        (
            "SELECT traffic.hits FROM traffic VERSION AS OF 12 WHERE page = 'é'",
            """SELECT traffic.hits FROM "traffic VERSION AS OF 12" AS "traffic" WHERE page = 'é'""",
        ),
        (
            "SELECT * FROM traffic version as of 1 a JOIN traffic VERSION AS OF 2 AS b USING (page)",
            'SELECT * FROM "traffic VERSION AS OF 1" a JOIN "traffic VERSION AS OF 2" AS b USING (page)',
        ),
        (
            """SELECT 'é' FROM "my ""view" /* then */ TIMESTAMP AS OF '2026-03-01' -- end""",
            """SELECT 'é' FROM "my ""view TIMESTAMP AS OF '2026-03-01'" AS "my ""view" -- end""",
        ),
        ("(SELECT 1 FROM a VERSION AS OF 3)", '(SELECT 1 FROM "a VERSION AS OF 3" AS "a")'),
    ],
)
def test_a_past_becomes_a_table(query: str, made: str) -> None:
    assert take_apart(query)[0] == made


@pytest.mark.parametrize(
    ("past", "words"),
    [
        ("VERSION AS OF -1", "version_as_of is not a number of commits; found '-1'; expected the number of commits"),
        ("VERSION AS OF - 1", "version_as_of is not a number of commits; found '- 1'"),
        ("VERSION AS OF 1.5", "version_as_of is not a number of commits; found '1.5'"),
        ("VERSION AS OF 'text'", "version_as_of is not a number of commits; found 'text'"),
        ("VERSION AS OF b", "version_as_of is not a number of commits; found 'b'"),
        ("VERSION AS OF NULL WHERE x", "version_as_of is not a number of commits; found 'NULL'"),
        ("TIMESTAMP AS OF 3", "timestamp_as_of is not a time; found '3'; expected ISO 8601"),
        ("TIMESTAMP AS OF now() - 1", "timestamp_as_of is not a time; found 'now'"),
        ("TIMESTAMP AS OF 'noon'", "timestamp_as_of is not a time; found 'noon'"),
    ],
)
def test_a_past_that_is_none_is_refused_as_by_ask(past: str, words: str) -> None:
    with pytest.raises(Refused) as refused:
        take_apart(f"SELECT x FROM a {past}")
    said = refused.value.said
    assert words in f"{said['message']}; found {said['found']}; expected {said['expected']}"


def test_what_was_named() -> None:
    assert take_apart("SELECT 1 FROM a VERSION AS OF 3, b TIMESTAMP AS OF '2026-03-01' c, a VERSION AS OF 3 d")[1] == [
        AsOfTable("a VERSION AS OF 3", "a", "3", None),
        AsOfTable("b TIMESTAMP AS OF '2026-03-01'", "b", None, "2026-03-01"),
    ]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 'a VERSION AS OF 3' FROM b -- c VERSION AS OF 4",
        "SELECT version AS of FROM a",
        "SELECT 1 FROM VERSION AS OF 3",
        "SELECT timestamp AS of, 3 FROM a",
        "VERSION AS OF 3",
        "",
        "SELECT 'open",
    ],
)
def test_all_else_is_left_as_it_is(query: str) -> None:
    assert take_apart(query) == (query, [])
