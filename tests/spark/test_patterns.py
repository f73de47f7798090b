"""Patterns give the same in a view, a computed field and plain Python, and no text makes Java overflow its stack."""

from __future__ import annotations

import re
from typing import Any

import duckdb
import pytest

from headrace.define.catalog import parse
from headrace.engine import duckdb_terms
from headrace.engine.duckdb_terms import duckdb_sql
from headrace.engine.spark_relations import with_computed
from headrace.engine.spark_views import for_spark, spark_view
from headrace.language.check import parse_expression
from headrace.language.functions import TABLE
from headrace.language.source_text import escape
from headrace.language.terms import Expression
from headrace.maintain.partials_job import partials
from headrace.types import STRING

TEXTS = [
    "", "a", "abba", "abc", "foo.bar.com", "foo.bar.c", 'say "it\\"s" now', "x=12;y=7", "  padded\t", "[12/May/2024]",
    "line\nnext", "line\n", "carriage\r", "ünïcode straße", "😀a😀b", "GET /a/b?c=1 HTTP/1.1", "K", "a b  c", "É",
    "aaa", None,
]  # fmt: skip
# Patterns with the same meaning in RE2 and in Python with re.ASCII.
PATTERNS = [
    "^(a|b)*$", r"([a-z0-9-]+\.)+[a-z]{2,}", r'"(?:[^"\\]|\\.)*"', r"(\w+)=(\d+)", r"\[([^\]]+)\]", r"^(\S+) (\S+)",
    r"(\s+)", "(.)(.)", "(?s)^(.*)$", "a|ab|abc", r"(?i)get|k", "[^a-z]+", r"(\d{1,3})", "(a+)+", r"\b\w",
    r"(?m)^(\w+)$",
]  # fmt: skip


def expressions() -> list[tuple[str, Any]]:
    """Each function with each pattern, as SQL and as Python."""
    pairs: list[tuple[str, Any]] = []
    for pattern in PATTERNS:
        end_of_text = pattern if "(?m)" in pattern else re.sub(r"\$$", r"\\Z", pattern)
        compiled, quoted = re.compile(end_of_text, re.ASCII), escape(pattern)
        pairs += [
            (f"s RLIKE {quoted}", lambda text, p=compiled: p.search(text) is not None),
            (f"s NOT RLIKE {quoted}", lambda text, p=compiled: p.search(text) is None),
            (f"regexp_like(s, {quoted})", lambda text, p=compiled: p.search(text) is not None),
            (f"regexp_extract(s, {quoted}, 0)", lambda text, p=compiled: ((m := p.search(text)) and m[0]) or ""),
            (f"regexp_replace(s, {quoted}, '<$0>')", lambda text, p=compiled: replaced(p, text)),
        ]
        if compiled.groups:
            last = compiled.groups
            pairs.append(
                (
                    f"regexp_extract(s, {quoted}, {last})",
                    lambda text, p=compiled, n=last: ((m := p.search(text)) and m[n]) or "",
                )
            )
        if not compiled.search(""):
            pairs.append((f"split(s, {quoted})[1]", lambda text, p=compiled: dict(enumerate(parts(p, text))).get(1)))
    return pairs


def replaced(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda match: f"<{match[0]}>", text)


def parts(pattern: re.Pattern[str], text: str) -> list[str]:
    ends = [0, *(at for match in pattern.finditer(text) for at in match.span()), len(text)]
    return [text[start:end] for start, end in zip(ends[::2], ends[1::2], strict=True)]


def values(spark: Any, texts: list[str | None], originals: list[Expression]) -> list[tuple[Any, ...]]:
    """A column of values for each expression, as the job of a view computes them."""
    frame = spark.createDataFrame([(text,) for text in texts], "s STRING").coalesce(1)
    translated, matches = for_spark(originals, {"s": STRING})
    rows = with_computed(frame, matches).selectExpr(*(f"{e.sql} AS c{i}" for i, e in enumerate(translated))).collect()
    return list(zip(*rows, strict=True))


def test_views_computed_fields_and_python_agree(spark):
    every = [(parse_expression(sql, {"s": STRING}), of) for sql, of in expressions()]
    database = duckdb.connect()
    database.execute("CREATE TABLE events (s VARCHAR)")
    database.executemany("INSERT INTO events VALUES (?)", [[text] for text in TEXTS])
    for (expression, of), in_view in zip(every, values(spark, TEXTS, [e for e, _ in every]), strict=True):
        sql = duckdb_sql(expression, {"s": STRING})
        in_python = tuple(None if text is None else of(text) for text in TEXTS)
        assert tuple(row[0] for row in database.execute(f"SELECT {sql} FROM events").fetchall()) == in_python, sql
        assert in_view == in_python, expression.sql


@pytest.mark.parametrize("length", [12_000, 2_000_000])
def test_no_length_of_text_overflows_a_stack(spark, length):
    """With Java's own engine the first of these needs some 500 bytes of stack for each character."""
    texts: list[str | None] = ["ab" * (length // 2), "ab" * (length // 2) + "c", None]
    patterns = ["^(a|b)*$", "^(a|b|ab)*?$", "^(a+b+)+$", "(a|b)*c", "^(?:[^c]|cc)*$"]
    conditions = [parse_expression(f"s RLIKE {escape(pattern)}", {"s": STRING}) for pattern in patterns]
    first, second, *others = values(spark, texts, conditions)
    assert first == second == others[0] == (True, False, None)
    assert others[1:] == [(False, True, None), (True, False, None)]
    length_of_match = parse_expression("length(regexp_extract(s, '^((a|b)*)', 1))", {"s": STRING})
    assert values(spark, texts, [length_of_match]) == [(length, length, None)]


def test_patterns_in_every_place_of_a_view(spark):
    catalog = parse(
        """
        CREATE STREAM events (s STRING, n INT);
        CREATE MATERIALIZED VIEW v AS
        SELECT regexp_extract(s, '^((a|b)*)', 1) AS letters, split(s, '-')[1] AS part,
               count(*) FILTER (WHERE s RLIKE '^(a|b)*-1$') AS ones,
               max(regexp_replace(lower(regexp_extract(s, '(x|y)*$', 0)), '(x)', '$1$1')) AS ends
        FROM events WHERE s NOT RLIKE '^(z|q)+' AND n > 0 GROUP BY letters, part;
        """
    )
    stream, view = catalog.streams["events"], catalog.views["v"]
    texts = ["abba-1", "abba-1-x", "ab" * 20_000 + "-2-xyx", "zq", "c", None]
    rows = [(text, 1) for text in texts] + [("abba-1", 0)]
    reserved = ["0L AS _commit", *(f"TIMESTAMP '2026-01-01 00:00:00' AS {name}" for name in ("_arrived", "_newest"))]
    events = spark.createDataFrame(rows, "s STRING, n INT").coalesce(1).selectExpr("*", *reserved)
    partial_rows = partials(events, stream, view, 0).collect()
    assert {(row["letters"], row["part"], row[-2], row[-1]) for row in partial_rows} == {
        ("abba", "1", 1, "xx"),
        ("ab" * 20_000, "2", 0, "xxyxx"),
        ("", None, 0, ""),
    }
    assert len(spark_view(stream, view).computed) == 6


def test_every_function_that_takes_a_pattern_is_run_by_re2():
    taking = {function.name for function in TABLE if any(p.kind == "REGEX" for p in function.parameters)}
    assert {*taking, "RLIKE"} == set(duckdb_terms.PATTERNS)
