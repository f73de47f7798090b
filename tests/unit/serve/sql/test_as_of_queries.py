"""VERSION AS OF and TIMESTAMP AS OF are extracted from a query, and nothing else."""

from __future__ import annotations

import pytest

from headrace.define.query_rules import QueryError
from headrace.serve.sql.as_of_queries import AsOfTable, extract_as_of
from tests import wording


@pytest.mark.parametrize(
    ("query", "expected"),
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
def test_as_of_becomes_a_table(query: str, expected: str) -> None:
    assert extract_as_of(query)[0] == expected


@pytest.mark.parametrize(
    ("as_of", "values"),
    [
        ("VERSION AS OF -1", ("version_as_of", "-1")),
        ("VERSION AS OF - 1", ("version_as_of", "- 1")),
        ("VERSION AS OF 1.5", ("version_as_of", "1.5")),
        ("VERSION AS OF 'text'", ("version_as_of", "text")),
        ("VERSION AS OF b", ("version_as_of", "b")),
        ("VERSION AS OF NULL WHERE x", ("version_as_of", "NULL")),
        ("TIMESTAMP AS OF 3", ("timestamp_as_of", "3", "ISO", "8601")),
        ("TIMESTAMP AS OF now() - 1", ("timestamp_as_of", "now")),
        ("TIMESTAMP AS OF 'noon'", ("timestamp_as_of", "noon")),
    ],
)
def test_an_invalid_as_of_has_the_message_of_ask(as_of: str, values: tuple[str, ...]) -> None:
    with pytest.raises(QueryError) as error:
        extract_as_of(f"SELECT x FROM a {as_of}")
    fields = error.value.fields
    wording.check(f"{fields['message']}; found {fields['found']}; expected {fields['expected']}", *values)


def test_each_as_of_table_is_listed_once() -> None:
    assert extract_as_of("SELECT 1 FROM a VERSION AS OF 3, b TIMESTAMP AS OF '2026-03-01' c, a VERSION AS OF 3 d")[
        1
    ] == [
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
def test_other_queries_are_unchanged(query: str) -> None:
    assert extract_as_of(query) == (query, [])
