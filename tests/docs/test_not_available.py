"""What a page or a message calls not available, not supported or not implemented is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headrace.define.catalog import parse
from headrace.errors import DefinitionError, WorkspaceError
from headrace.workspace.settings import Workspace
from tests import wording
from tests.docs.sources import sentences_of

ROOT = Path(__file__).parents[2]
WORDS = re.compile(r"not (?:yet )?(?:available|supported|implemented)")
DECLARED = """
CREATE STREAM clicks (id STRING NOT NULL, url STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
CREATE STREAM orders (id STRING NOT NULL, n INT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
CREATE TABLE users (id STRING PRIMARY KEY, plan STRING);
CREATE TABLE places (country STRING, code INT, name STRING, PRIMARY KEY (country, code));
CREATE TABLE latest PRIMARY KEY (id) AS SELECT id, n FROM orders;
CREATE TABLE both PRIMARY KEY (id) AS SELECT id, at FROM clicks UNION ALL SELECT id, at FROM orders;
CREATE MATERIALIZED VIEW totals AS SELECT id, count(*) AS hits FROM clicks GROUP BY id;
"""
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM"
JOIN = f"{VIEW} clicks c JOIN orders o ON c.id = o.id"
WITHIN = f"{JOIN} AND o.at BETWEEN c.at AND c.at + INTERVAL 1 HOUR"
WITHIN_KSQL = (
    "CREATE STREAM s AS SELECT c.id, o.n FROM clicks c JOIN orders o WITHIN 1 HOUR ON c.id = o.id EMIT CHANGES"
)
TABLES = "CREATE TABLE t PRIMARY KEY (id) AS SELECT u.id, l.n FROM users u JOIN latest l ON u.id = l.id"
MATCH = f"{VIEW} clicks MATCH_RECOGNIZE (PARTITION BY id ORDER BY at PATTERN (a b) DEFINE a AS url = 'x')"
# By a part of the line of the page: definitions that do what it says is not there.
PAGES: dict[str, list[str]] = {
    "if its jar is not available": [],  # a program of another project
    "failOnDataLoss": ["CREATE STREAM k (a INT) WITH (connector = 'kafka', topic = 't', failOnDataLoss = 'false')"],
    "stream-stream joins": [JOIN, WITHIN],
    "stream-stream join, table-table join": [JOIN, WITHIN_KSQL, TABLES],
    "regular, interval and window joins of two streams": [JOIN, WITHIN],
    "`MATCH_RECOGNIZE`": [MATCH],
    "`JoinBolt` of two streams": [JOIN],
    "| ticks |": [],  # a call of a bolt
    "object storage is not supported yet": ["CREATE SINK k FROM totals WITH (connector = 'files', path = 's3://bucket/rows')"],
    "clusters are not supported yet": [],  # a setting, below
    "## What is not supported": [],  # its table, below
}  # fmt: skip
# By words of each row under "What is not supported" of docs/joins.md.
JOINS = {
    "a join of two streams |": [JOIN],
    "a join of two streams within a time": [WITHIN],
    "RIGHT, FULL, NATURAL, CROSS JOIN": [
        f"{VIEW} clicks c {kind} JOIN users u ON c.id = u.id" for kind in ("RIGHT", "FULL")
    ] + [f"{VIEW} clicks NATURAL JOIN users", f"{VIEW} clicks CROSS JOIN users", f"{VIEW} clicks, users"],
    "with that primary key |": [
        f"{VIEW} clicks c JOIN places p ON c.id = p.country",
        f"{VIEW} clicks c JOIN users u ON c.id < u.id",
    ],
    "AS SELECT of several streams": [f"{VIEW} clicks c JOIN both b ON c.id = b.id"],
    "a table that joins another": [f"{VIEW} latest l JOIN users u ON l.id = u.id"],
}  # fmt: skip

# Statements whose refusal says so. Most others are in tests/unit.
STATEMENTS = [
    f"{VIEW} clicks GROUP BY count_window(5)",
    f"{VIEW} clicks WHERE url SIMILAR TO 'a'",
    f"{VIEW} clicks TABLESAMPLE (BUCKET 1 OUT OF 4)",
    f"{VIEW} clicks GROUP BY id ORDER BY ALL",
    f"{VIEW} clicks GROUP BY CEIL(at TO HOUR)",
    f"{VIEW} clicks GROUP BY JSON_VALUE(url, '$.a' DEFAULT 'x' ON EMPTY)",
    "CREATE MATERIALIZED VIEW v AS SELECT DISTINCT ON (id) id, url FROM clicks",
    "CREATE STREAM s AS SELECT * FROM clicks LATERAL VIEW explode(explode(split(url, ' '))) t AS w",
    "CREATE STREAM s AS SELECT *, lag(url) OVER (PARTITION BY id ORDER BY at) AS p FROM clicks",
    "CREATE STREAM s AS SELECT * FROM CHANGES(totals)",
    "CREATE STREAM s (a INT) FORMAT UPSERT ENCODE JSON",
    "CREATE VIEW v (a, b) AS SELECT id, hits FROM totals",
]
# Places in the source where no sentence of tests/wording can be met, and why.
ELSEWHERE = {
    "workspace/settings.py": "the text of the setting; `test_a_cluster_is_refused`",
    "engine/spark_relations.py": "rows that are not in a workspace, which no command reads",
    "web/body.py": "of HTTP: tests/surfaces/test_http_formats.py",
}


def pages() -> list[Path]:
    found = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    return [page for page in found if "decisions" not in page.parts]


def refused(definition: str) -> str:
    with pytest.raises(DefinitionError) as error:
        parse(f"{DECLARED}{definition};")
    return str(error.value)


def test_the_examples_need_only_what_is_declared() -> None:
    assert {"users", "places", "latest", "both"} == set(parse(DECLARED).tables)


def test_every_line_of_a_page_has_its_definitions() -> None:
    lines = [f"{page.relative_to(ROOT)}: {line}" for page in pages() for line in page.read_text().splitlines()]
    said = [line for line in lines if WORDS.search(line)]
    assert [line for line in said if not any(part in line for part in PAGES)] == []
    assert [part for part in PAGES if not any(part in line for line in said)] == []


@pytest.mark.parametrize("part", [part for part, definitions in PAGES.items() if definitions])
def test_what_a_page_calls_not_available_is_refused(part: str) -> None:
    for definition in PAGES[part]:
        assert refused(definition)


@pytest.mark.parametrize("statement", STATEMENTS)
def test_what_a_message_calls_not_available_is_refused(statement: str) -> None:
    message = refused(statement)
    assert WORDS.search(message)
    wording.check(message)


@pytest.mark.parametrize("row", JOINS)
def test_joins_that_are_not_supported_are_refused(row: str) -> None:
    for definition in JOINS[row]:
        assert refused(definition)


def test_every_join_that_is_not_supported_has_its_definitions() -> None:
    table = (ROOT / "docs" / "joins.md").read_text().partition("## What is not supported")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ") and not line.startswith("| | ")]
    assert [[part for part in JOINS if part in row] for row in rows] == [[part] for part in JOINS]


def test_a_cluster_is_refused(tmp_path: Path) -> None:
    (tmp_path / "headrace.toml").write_text('spark_master = "spark://host:7077"\n')
    with pytest.raises(WorkspaceError) as error:
        Workspace.open(tmp_path)
    assert "spark://host:7077" in str(error.value)


def test_every_such_message_is_met_by_a_test() -> None:
    """Of each message with these words, tests/wording has the sentence, which a test met where something is refused."""
    texts = "\n".join(file.read_text() for file in wording.FOLDER.rglob("*.txt"))
    unmet = [
        f"{place}: {pattern}"
        for place, pattern in sentences_of(WORDS)
        if not re.search(pattern, texts) and place.partition(":")[0] not in ELSEWHERE
    ]
    assert not unmet
