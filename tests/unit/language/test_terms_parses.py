"""How often expressions are parsed: those of a text once, stored ones when they are used, none for an answer."""

from __future__ import annotations

import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType

from headrace.define.catalog import parse
from headrace.define.fingerprint import fingerprint, from_json, to_json
from headrace.define.model import Stream, View
from headrace.engine.duckdb_views import duckdb_view
from headrace.engine.spark_views import spark_view
from headrace.language.check import parse_expression
from headrace.language.expressions import parse_tree
from headrace.language.source_text import QUOTED, WORD, SourceText, tokenize
from headrace.language.terms import Expression, conjunction
from headrace.types import BOOLEAN, INT, STRING
from tests.unit.serve.shaped import Views

STREAM = """CREATE STREAM visits (
  page STRING, status INT, bytes BIGINT, half BIGINT AS (status DIV 2), at TIMESTAMP NOT NULL, WATERMARK FOR at AS at
);"""
VIEW = """CREATE MATERIALIZED VIEW traffic AS
SELECT lower(page) AS page, sum(bytes + 1) FILTER (WHERE status > 200) AS bytes, approx_count_distinct(page) / 2 AS half
FROM visits WHERE status <> 304 GROUP BY lower(page), window(at, '1 minute') HAVING count(*) > 1 ORDER BY bytes DESC;"""
TYPES = {"page": STRING, "status": INT, "length": INT}


def texts(of: CodeType, run: Callable[[], object]) -> list[str]:
    """Run something, and return the texts that were given to a function meanwhile."""
    given: list[str] = []

    def note(frame: object, event: str, argument: object) -> None:
        if event == "call" and getattr(frame, "f_code", None) is of:
            given.append(frame.f_locals["source"].text)  # type: ignore[attr-defined]

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(before)
    return given


def parses(run: Callable[[], object]) -> list[str]:
    return texts(parse_tree.__code__, run)


def definitions() -> tuple[Stream, View]:
    catalog = parse(STREAM + VIEW)
    return catalog.streams["visits"], catalog.views["traffic"]


def test_a_text_is_read_once() -> None:
    read = texts(tokenize.__code__, lambda: parse(STREAM + VIEW))
    assert [text for text in read if " " in text] == [STREAM + VIEW], "the other texts are durations"
    assert parses(lambda: parse(STREAM + VIEW)) == []


def test_engines_parse_nothing_of_a_checked_definition() -> None:
    stream, view = definitions()
    assert parses(lambda: (duckdb_view(stream, view), spark_view(stream, view), fingerprint(view), to_json(view))) == []


def test_a_stored_definition_is_parsed_when_it_is_used_and_once() -> None:
    stream, view = (from_json(json.loads(json.dumps(to_json(each)))) for each in definitions())
    assert isinstance(stream, Stream)
    assert isinstance(view, View)
    assert parses(lambda: (fingerprint(stream), fingerprint(view), to_json(view), view == definitions()[1])) == []
    duckdb_view.cache_clear()  # equal definitions may be there
    spark_view.cache_clear()
    first = parses(lambda: (duckdb_view(stream, view), spark_view(stream, view)))
    assert sorted(first) == sorted({each.sql for each in view.expressions})
    spark_view.cache_clear()
    assert parses(lambda: spark_view(stream, view)) == []


def test_an_answer_parses_nothing(tmp_path: Path) -> None:
    views = Views(tmp_path)
    views.add(
        "SELECT k0, approx_count_distinct(i) AS n, approx_count_distinct(i) / 2 AS half, sum(d) / count(*) AS mean "
        "FROM events GROUP BY k0, window(at, '1 minute') HAVING count(*) > 0 ORDER BY mean DESC"
    )
    first = parses(lambda: views.ask())
    mean = [text for text in first if text.startswith("sum")]
    assert (len(first), len(mean)) == (4, 2), "each stored expression once: the mean is an output and in ORDER BY"
    assert parses(lambda: views.ask()) == []
    assert views.ask().approximate.keys() == {"n", "half"}
    views.store.close()


def test_fields_calls_and_substitution() -> None:
    expression = parse_expression("length(page) + status > 3 AND page IS NOT NULL", TYPES)
    assert expression.fields() == {"page", "status"}
    assert expression.calls() == ("length",)
    replaced = expression.term.substitute({"status": parse_expression("length + 1", TYPES).term})
    assert Expression(replaced).sql == "length(page) + (length + 1) > 3 AND page IS NOT NULL"


def test_words_are_those_of_the_text() -> None:
    for text in (
        "CASE WHEN page = 'x y' THEN 1 ELSE status END",
        "CAST(status AS STRING) || page",
        "NOT page LIKE 'a'",
    ):
        expression = parse_expression(text, TYPES)
        tokens = tokenize(SourceText(expression.sql))
        assert expression.term.words() == {token.text for token in tokens if token.kind in (WORD, QUOTED)}


def test_conditions_are_joined_without_their_text() -> None:
    conditions = [parse_expression(text, TYPES) for text in ("status > 1 OR status < 0", "page = 'a' AND status = 2")]
    joined = conjunction(conditions)
    assert joined is not None
    assert joined.sql == "(status > 1 OR status < 0) AND page = 'a' AND status = 2"
    assert joined == parse_expression(joined.sql, TYPES)
    assert conjunction([]) is None


def test_an_expression_is_pickled_as_text() -> None:
    long = parse_expression(" + ".join(["status"] * 200) + " > 0", TYPES)
    assert pickle.loads(pickle.dumps(long)) == long
    assert pickle.loads(pickle.dumps(long)).term == long.term
    raw = Expression.raw("list_sum([1])", BOOLEAN)
    assert pickle.loads(pickle.dumps(raw)) == raw
