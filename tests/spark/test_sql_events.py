"""`headrace sql --events`: a SELECT with Spark over the events of the lake, and the errors for other statements."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from headrace.cli.app import run
from headrace.errors import NotReadyError, SqlError
from headrace.serve.sql.event_queries import LakeEvents, running_streams
from headrace.serve.sql.sql_answer import SqlAnswer
from headrace.workspace.applied_catalog import read_running
from headrace.workspace.settings import Workspace
from tests import wording
from tests.unit.lake.dead_lake import DeadLake, stream_of
from tests.waiting import wait_until

STREAMS = """
CREATE STREAM visits (page STRING, tags ARRAY<STRING>, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
CREATE STREAM quiet (n INT);
CREATE STREAM grown (country STRING, n INT);
CREATE STREAM `web "events"/``1``` AS SELECT page AS `the page` FROM visits WHERE page = '/home';
CREATE STREAM tagged AS SELECT page, explode(tags) AS tag FROM visits UNION ALL SELECT country, 'grown' FROM grown;
"""
CHANGES = [
    "DROP VIEW visits",
    "CREATE TEMP VIEW x AS SELECT 1",
    "CREATE TABLE x AS SELECT 1 AS a",
    "INSERT INTO visits SELECT * FROM visits",
    "FROM visits INSERT INTO a SELECT * INSERT INTO b SELECT *",
    "WITH a AS (SELECT 1 AS n) INSERT INTO quiet SELECT * FROM a",
    "SET spark.sql.ansi.enabled = true",
    "ADD JAR '/tmp/x.jar'",
    "CACHE TABLE visits",
    "SHOW TABLES",
    "EXPLAIN SELECT 1",
    "INSERT OVERWRITE DIRECTORY '/tmp/headrace-hostile' USING csv SELECT 1",
    "WITH a AS (SELECT 1) INSERT OVERWRITE DIRECTORY '/tmp/headrace-hostile' USING csv SELECT * FROM a",
    "BEGIN SELECT 1; END",
    "DELETE FROM visits",
    "UPDATE visits SET page = ''",
    "TRUNCATE TABLE visits",
    "EXECUTE IMMEDIATE 'DROP VIEW visits'",
]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Two commits of three visits and a dead letter; a stream without any event; one to which a field was added."""
    folder = tmp_path_factory.mktemp("events") / "shop"
    assert run(["init", str(folder)]) == 0
    (folder / "definitions" / "shop.sql").write_text(STREAMS)
    assert run(["apply", "--yes", "-w", str(folder)]) == 0
    shop = Workspace.open(folder)
    stream = read_running(shop.catalog_file).streams["visits"]
    lake = DeadLake(folder, stream, lake=shop.lake("visits"), journal=shop.journal("visits"))
    lake.add(_visit("/home", ["a"]), _visit("/cart", ["a", "b"]))
    lake.add(_visit("/home", []), b"nonsense")
    lake.close()
    grown = DeadLake(
        folder, stream_of("CREATE STREAM grown (n INT)"), lake=shop.lake("grown"), journal=shop.journal("grown")
    )
    grown.add(b'{"n":1,"country":"de"}', b'{"n":2,"country":5}')
    grown.redefine(read_running(shop.catalog_file).streams["grown"])
    grown.add(b'{"n":3,"country":"fr"}', b'{"n":4,"country":6}')
    grown.close()
    return shop


def _visit(page: str, tags: list[str]) -> bytes:
    return orjson.dumps({"page": page, "tags": tags, "at": "2026-03-01T12:00:00Z"})


@pytest.fixture
def ask(workspace: Workspace, spark: Any) -> Iterator[Any]:
    def sql(query: str, limit: int | None = None) -> SqlAnswer:
        return LakeEvents(workspace, spark).sql(query, limit)

    yield sql
    for name in ("visits", "quiet", "grown", "tagged", 'web "events"/`1`'):
        for table in (name, f"{name}_dead_letters"):
            spark.catalog.dropTempView(table)


def test_events_are_rows_with_reserved_columns(ask: Any) -> None:
    answer = ask("SELECT * FROM Visits ORDER BY _position")
    assert [row["page"] for row in answer.rows()] == ["/home", "/cart", "/home"]
    first = answer.rows()[0]
    assert list(first) == ["page", "tags", "at", "_commit", "_committed_at", "_arrived", "_position", "_value"]
    assert (first["tags"], first["_commit"]) == (["a"], 0)
    assert first["_value"] == _visit("/home", ["a"]).decode()
    assert dict(answer.columns)["tags"] == "ARRAY<STRING>"
    assert (answer.commits, answer.freshness_ms, answer.truncated) == ({"visits": 2}, 0, False)


def test_a_stream_with_a_quoted_name(ask: Any) -> None:
    answer = ask('SELECT count(*) AS n FROM `web "events"/``1``` w JOIN visits v ON w.`the page` = v.page')
    assert answer.rows() == [{"n": 4}]


def test_an_added_field_is_read_from_older_events_too(ask: Any) -> None:
    rows = ask("SELECT country, n, _commit FROM grown ORDER BY n").rows()
    assert [tuple(row.values()) for row in rows] == [("de", 1, 0), (None, 2, 0), ("fr", 3, 1)]
    assert ask("SELECT count(*) AS n FROM grown_dead_letters").rows() == [{"n": 1}]


def test_dead_letters_are_a_table_of_their_own(ask: Any) -> None:
    (dead,) = ask("SELECT _value, _reason, _commit FROM visits_dead_letters").rows()
    assert (dead["_value"], dead["_commit"]) == ("nonsense", 1)
    assert "not JSON" in dead["_reason"]


def test_a_derived_stream_is_a_table(ask: Any) -> None:
    answer = ask("SELECT page, tag, _commit, _stream FROM tagged ORDER BY _stream DESC, _commit, _position, tag")
    assert [tuple(row.values()) for row in answer.rows()] == [
        ("/home", "a", 0, "visits"), ("/cart", "a", 0, "visits"), ("/cart", "b", 0, "visits"),
        ("de", "grown", 0, "grown"), (None, "grown", 0, "grown"), ("fr", "grown", 1, "grown"),
    ]  # fmt: skip
    assert answer.commits == {"visits": 2, "grown": 2}


def test_rows_are_cut_and_streams_without_events_are_empty(ask: Any) -> None:
    cut = ask("SELECT explode(tags) AS tag FROM visits", 2)
    assert (cut.table.num_rows, cut.truncated) == (2, True)
    assert ask("SELECT count(*) AS n FROM quiet").rows() == [{"n": 0}]


def test_progress_counts_tasks(workspace: Workspace, spark: Any) -> None:
    events = LakeEvents(workspace, spark)
    events.sql("SELECT page, count(*) FROM visits GROUP BY page")

    def all_done() -> bool:
        progress = events.progress()
        return progress.done == progress.known > 0

    wait_until(all_done)  # Spark counts a task a little after its rows are there


@pytest.mark.parametrize("query", CHANGES)
def test_only_a_select_is_accepted(ask: Any, query: str) -> None:
    with wording.raises(SqlError, "SELECT"):
        ask(query)


def test_sparks_errors_are_one_sentence(ask: Any, capfd: pytest.CaptureFixture[str]) -> None:
    for query, *values in (
        ("SELECT * FROM visit", "visit", "visits"),
        ("SELECT * FROM nothing_like_it", "nothing_like_it", "visits", "quiet", "grown"),
        ("SELECT v.pag FROM visits AS v", "pag", "page", "visits", "tags", "at", "_commit"),
        ("SELECT zzz FROM quiet", "zzz", "quiet", "n", "_commit"),
    ):
        with wording.raises(SqlError, *values) as caught:
            ask(query)
        assert "\n" not in str(caught.value)
    for query, message in (  # sentences of Spark
        ("SELECT upper(page,\n 1) FROM visits", "Spark cannot run the query: "),
        ("SELEC 1", "Syntax error at or near 'SELEC'"),
        ("SELECT raise_error('oops') FROM visits", "oops"),
        ("SELECT 1; SELECT 2", "Syntax error"),
    ):
        with pytest.raises(SqlError) as caught:
            ask(query)
        assert message in str(caught.value)
        assert "\n" not in str(caught.value), str(caught.value)
        assert "SQLSTATE" not in str(caught.value)
    assert capfd.readouterr() == ("", ""), "nothing but the sentence reaches the terminal"


def test_events_are_read_from_a_folder_where_something_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sql", "--events", "SELECT 1", "-w", "http://127.0.0.1:1"]) == 2
    wording.check(capsys.readouterr().err, "--events")
    (tmp_path / "headrace.toml").write_text("")
    with wording.raises(NotReadyError):
        running_streams(Workspace.open(tmp_path))
