"""Every mistake of every statement of every file is reported in one run, each with its line and a caret."""

# ruff: noqa: E501 - one statement per line

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from headrace.api.encoding import read_error
from headrace.cli.error_output import print_error
from headrace.define.catalog import load, parse
from headrace.errors import DefinitionError
from headrace.language.source_text import each
from tests import wording

STREAM = "CREATE STREAM requests (host STRING, ms INT, at TIMESTAMP, WATERMARK FOR at AS at);\n"


def mistakes_of(text: str) -> list[DefinitionError]:
    with pytest.raises(DefinitionError) as caught:
        parse(text, "a.sql")
    return each(caught.value)


def test_the_caret_is_under_the_mistake() -> None:
    (mistake,) = mistakes_of(
        STREAM + "CREATE MATERIALIZED VIEW a AS\n\tSELECT host, coutn(*) AS n\nFROM requests GROUP BY host;"
    )
    assert mistake.excerpt == "3 |  SELECT host, coutn(*) AS n\n  |               ^"
    assert mistake.as_dict()["excerpt"] == mistake.excerpt


def test_a_long_line_is_cut_around_the_mistake() -> None:
    columns = ", ".join(f"max(ms) AS most_{i}" for i in range(30))
    (mistake,) = mistakes_of(
        STREAM
        + f"CREATE MATERIALIZED VIEW a AS SELECT {columns}, coutn(*) AS n, {columns.replace('most', 'm')} FROM requests;"
    )
    line, caret = (mistake.excerpt or "").split("\n")
    assert len(line) < 120
    assert line[caret.index("^") :].startswith("coutn(*)")


@pytest.mark.parametrize(
    "broken",
    [
        "CREATE MATERIALIZED VIEW b AS SELECT host § count(*) AS n FROM requests;",
        "CREATE MATERIALIZED VIEW b AS SELECT count(*) AS n FROM requests WHERE host = 'x;",
        "CREATE MATERIALIZED VIEW b AS SELECT count(*) AS n FROM requests WHERE `host = 'x';",
        "CREATE MATERIALIZED VIEW b AS SELECT FROM requests;",
        "CREATE MATERIALIZED b;",
        "SELECT host FROM requests;",
        "CREATE STREAM b (x INT, y;",
    ],
)
def test_a_broken_statement_hides_no_mistake_of_another(broken: str) -> None:
    before = "CREATE MATERIALIZED VIEW a AS SELECT foo(host) AS f, count(*) AS n FROM requests GROUP BY 1;\n"
    after = "CREATE MATERIALIZED VIEW c AS SELECT sum(mss) AS s FROM requests WHERE host = 'y';\n"
    mistakes = mistakes_of(STREAM + before + broken + "\n" + after)
    lines = [mistake.where.line for mistake in mistakes if mistake.where]
    assert {2, 3, 4} == set(lines)


def test_a_stream_that_does_not_exist_is_reported_beside_other_mistakes() -> None:
    text = (
        STREAM + "CREATE STREAM broken (a BYTES);\nCREATE MATERIALIZED VIEW a AS SELECT count(*) AS n FROM request;\n"
    )
    text += "CREATE MATERIALIZED VIEW b AS SELECT count(*) AS n FROM broken;"
    assert [mistake.where.line for mistake in mistakes_of(text) if mistake.where] == [2, 3]


def test_files_in_sql_and_python_show_their_lines(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text(STREAM + "CREATE MATERIALIZED VIEW a AS SELECT sum(host) AS s FROM requests;")
    (tmp_path / "b.py").write_text("import headrace as hr\nodd = hr.Stream('odd', 'a BYTES')\n")
    with pytest.raises(DefinitionError) as caught:
        load(tmp_path)
    excerpts = [mistake.excerpt or "" for mistake in each(caught.value)]
    assert ["sum(host)" in excerpts[0], "hr.Stream('odd'" in excerpts[1]] == [True, True]


def test_python_shows_the_lines_below_the_message() -> None:
    try:
        parse(STREAM + "CREATE MATERIALIZED VIEW a AS SELECT coutn(*) FROM requests;", "a.sql")
    except DefinitionError as error:
        shown = "".join(traceback.format_exception(error))
    assert (
        "2 | CREATE MATERIALIZED VIEW a AS SELECT coutn(*) FROM requests;\n  |                                      ^"
        in shown
    )


def test_an_error_from_a_server_shows_the_same() -> None:
    with pytest.raises(DefinitionError) as caught:
        parse(STREAM + "CREATE TABLE t AS SELECT count(*) AS n FROM requests;\nCREATE STREAM x (a BYTES);", "a.sql")
    far = read_error(caught.value.as_dict(), 400)
    assert far.as_dict() == caught.value.as_dict()
    assert far.__notes__ == caught.value.__notes__


def test_the_command_line_shows_lines_and_no_colours_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse("CREATE STREAM x (a BYTES);", "a.sql")
    assert print_error(caught.value, as_json=False) == 2
    wording.check(capsys.readouterr().err, "1:20", "BYTES", "STRING", "CREATE STREAM")


@pytest.mark.parametrize(
    ("body", "columns"),
    [
        ("SELECT host count(*) AS n, sum(mss) AS s FROM requests WHERE okk GROUP BY host", ["count", "mss", "okk"]),
        ("SELECT host, sum(mss) AS s FROM requests WHERE host = = 'a' GROUP BY hots", ["mss", "= 'a'", "hots"]),
        ("SELECT host, sum(mss) AS s, FROM requests WHERE host AND GROUP BY host, , window(at, 'x')", ["mss", "FROM", "GROUP", ", window", "'x'"]),
        ("SELECT host, count(* AS n FROM requests WHERE okk GROUP BY host", ["AS n", "okk"]),
        ("SELECT EXTRACT(HOUR FROM at) AS h, foo(1) AS f, max(ms + ) AS m FROM requests GROUP BY 1", ["foo", ") AS m"]),
    ],
)  # fmt: skip
def test_a_syntax_error_hides_no_mistake_of_other_parts(body: str, columns: list[str]) -> None:
    statement = f"CREATE MATERIALIZED VIEW v AS {body};"
    mistakes = mistakes_of(STREAM + statement)
    assert [mistake.where.column for mistake in mistakes if mistake.where] == [statement.index(c) + 1 for c in columns]
