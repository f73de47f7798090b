"""Expressions: one canonical text, the right type, and an error that says what to write."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import DefinitionError
from headrace.language.check import parse_expression
from headrace.language.source_text import escape
from headrace.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, decimal
from tests import wording

TYPES = {
    "page": STRING, "status": INT, "bytes": BIGINT, "price": decimal(10, 2), "ratio": DOUBLE, "ok": BOOLEAN,
    "day": DATE, "at": TIMESTAMP, "date": DATE, "end": INT, "Mixed": STRING,
}  # fmt: skip


def read(text):
    return parse_expression(text, TYPES)


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("STATUS>=500", "status >= 500"),
        ("( ( status ) ) >= (500)", "status >= 500"),
        ("`status` -- the code\n >= /* five /* hundred */ */ 500", "status >= 500"),
        ("mixed", "Mixed"),
        ("`end` + 1", "`end` + 1"),
        ("date", "`date`"),
        ("status != 1", "status <> 1"),
        ("status == 1", "status = 1"),
        ("ok and (status = 1 and page = 'x')", "ok AND status = 1 AND page = 'x'"),
        ("ok or (ok and ok)", "ok OR ok AND ok"),
        ("(ok or ok) and ok", "(ok OR ok) AND ok"),
        ("not (ok or ok)", "NOT (ok OR ok)"),
        ("!ok", "NOT ok"),
        ("not (page is null)", "page IS NOT NULL"),
        ("not page in ('a','b')", "page NOT IN ('a', 'b')"),
        ("not status between 1 and 2", "status NOT BETWEEN 1 AND 2"),
        ("page regexp 'a'", "page RLIKE 'a'"),
        ("page is distinct from 'x'", "NOT page <=> 'x'"),
        ("page is not distinct from 'x'", "page <=> 'x'"),
        ("(status = 1) is null", "(status = 1) IS NULL"),
        ("status = 1 is null", "(status = 1) IS NULL"),
        ("status = 1 = ok", "(status = 1) = ok"),
        ("status - (1 - 2)", "status - (1 - 2)"),
        ("(status - 1) - 2", "status - 1 - 2"),
        ("status + 2 * 3", "status + 2 * 3"),
        ("(status + 2) * 3", "(status + 2) * 3"),
        ("- - 1", "-(-1)"),
        ("status - -1", "status - -1"),
        ("-status", "-status"),
        ("+status", "status"),
        ("status div 2 % 3", "status DIV 2 % 3"),
        ("ucase(page)", "upper(page)"),
        ("nvl(page, 'x')", "coalesce(page, 'x')"),
        ("page || '-' || page", "concat(page, '-', page)"),
        ("case status when 1 then 'a' else 'b' end", "CASE WHEN status = 1 THEN 'a' ELSE 'b' END"),
        ("status::string", "CAST(status AS STRING)"),
        ("cast(status as varchar(20))", "CAST(status AS STRING)"),
        ("try_cast(page as numeric(5))", "TRY_CAST(page AS DECIMAL(5,0))"),
        ("'it''s'", r"'it\'s'"),
        (r"r'\d'", r"'\\d'"),
        (r"'\u0041\n'", r"'A\n'"),
        ("'${x}'", r"'\u0024{x}'"),
        ("at > '2026-01-31'", "at > TIMESTAMP '2026-01-31 00:00:00'"),
        ("at > '2026-01-31T12:00+02:00'", "at > TIMESTAMP '2026-01-31 10:00:00'"),
        ("day in ('2026-1-2', date '2026-01-03')", "day IN (DATE '2026-01-02', DATE '2026-01-03')"),
        ("at - interval '90' minutes", "at - INTERVAL '90' MINUTE"),
        ("at - interval 24 hours", "at - INTERVAL '1' DAY"),
        ("at + interval '250 ms'", "at + INTERVAL '0.25' SECOND"),
        (".5", "0.5BD"),
        ("1.50", "1.50BD"),
        ("1e3", "1000.0D"),
        ("3000000000", "3000000000L"),
        ("007", "7"),
        ("cast('2026-1-2' as date)", "DATE '2026-01-02'"),
        ("to_timestamp('2026-01-02')", "TIMESTAMP '2026-01-02 00:00:00'"),
    ],
)
def test_one_canonical_text(text, sql):
    assert read(text).sql == sql
    assert read(sql) == read(text)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("status / 2", DOUBLE),
        ("status + bytes", BIGINT),
        ("status DIV 2", BIGINT),
        ("price + 1", decimal(11, 2)),
        ("price * price", decimal(21, 4)),
        ("price / status", decimal(21, 13)),
        ("price + ratio", DOUBLE),
        ("ceil(ratio)", BIGINT),
        ("ceil(price)", decimal(9, 0)),
        ("round(price, 1)", decimal(10, 1)),
        ("coalesce(status, bytes)", BIGINT),
        ("coalesce(NULL, page)", STRING),
        ("if(ok, day, at)", TIMESTAMP),
        ("date_trunc('HOUR', at)", TIMESTAMP),
        ("year(day)", INT),
        ("2147483648", BIGINT),
        ("-2147483648", INT),
        ("0.05", decimal(2, 2)),
        ("12345678901234567890", decimal(20, 0)),
        ("length(page) > 3", BOOLEAN),
    ],
)
def test_types(text, type_):
    assert read(text).type == type_


@pytest.mark.parametrize(
    ("text", "values"),
    [
        # names
        ("statsu = 1", ("1:1", "statsu", "status")),
        ("zzz = 1", ()),
        ("other.page", ("other.page",)),
        ("lowr(page)", ("lower",)),
        ("qqqqqq(page)", ()),
        ("now()", ()),
        ("current_date", ("current_date",)),
        ("unix_timestamp()", ("unix_timestamp",)),
        ("rand() < 0.1", ()),
        ("decimal(status)", ("CAST(… AS DECIMAL)",)),
        ("sum(bytes) + 1", ()),
        ("lower(DISTINCT page)", ("DISTINCT",)),
        ("lower(page) FILTER (WHERE ok)", ("FILTER",)),
        # arguments
        ("lower()", ("0", "lower(text STRING)")),
        ("lower(page, page)", ("2",)),
        ("lower(status)", ("INT", "CAST(status AS STRING)")),
        ("sqrt(page)", ("x", "STRING", "NUMBER")),
        ("abs(NULL)", ("VOID", "NULL")),
        ("to_date(status)", ("STRING", "TIME")),
        ("date_trunc('hours', at)", ("year", "quarter")),
        ("parse_url(page, 'host')", ("HOST",)),
        ("sha2(page, 100)", ("224", "256", "384", "512")),
        ("split_part(page, ',', 0)", ("INT", "0")),
        ("split_part(page, ',', status)", ("INT", "0")),
        ("lpad(page, 100000)", ("INT", "1000")),
        ("regexp_extract(page, '(')", ("regexp_extract",)),
        ("regexp_extract(page, page)", ()),
        ("regexp_extract(page, 'a')", ("1", "0")),
        ("regexp_extract(page, '(a)', 2)", ("2", "1")),
        ("regexp_replace(page, 'a', page)", ()),
        ("regexp_replace(page, 'a', '$1')", ()),
        ("regexp_replace(page, 'a', r'\\')", ()),
        ("to_date(page, 'nonsense')", ("nonsense",)),
        ("abs(CAST(price AS DECIMAL(38,2)))", ("DECIMAL", "34")),
        # types
        ("page + 1", ("STRING", "CAST(page AS DOUBLE)")),
        ("at - at", ("unix_millis(at)",)),
        ("day - day", ("datediff(day, day)",)),
        ("ratio DIV 2", ("DIV",)),
        ("status + NULL", ("NULL",)),
        ("status = 'a'", ("INT", "STRING", "a")),
        ("status IN (1, 'a')", ()),
        ("ok = 1", ()),
        ("at > 'yesterday'", ("yesterday", "TIMESTAMP")),
        ("at > INTERVAL 1 DAY", ("INTERVAL",)),
        ("status + INTERVAL 1 DAY", ("INTERVAL", "TIMESTAMP")),
        ("INTERVAL 1 DAY", ("INTERVAL", "TIMESTAMP")),
        ("NULL", ("NULL",)),
        ("coalesce(page, 1)", ()),
        ("CASE WHEN ok THEN 1 ELSE 'a' END", ("CASE",)),
        ("status AND ok", ("AND", "INT", "BOOLEAN")),
        ("NOT status", ("NOT",)),
        ("CASE WHEN status THEN 1 END", ("WHEN",)),
        ("status IS TRUE", ("IS TRUE",)),
        ("status LIKE 'a'", ("LIKE", "INT")),
        ("page LIKE page", ("LIKE",)),
        (r"page LIKE 'a\\x'", ("LIKE",)),
        ("to_date(page, 'Q yyyy')", ("date_format",)),
        ("to_date(page, 'yyyyyyyyy')", ()),
        ("to_date(page, 'YYYY-ww')", ()),
        ("to_date(page, 'yyyyMd')", ()),
        ("to_date(page, 'yyyy-MM]')", ()),
        ("to_date(page, 'X z')", ()),
        ("date_format(at, 'nonsense')", ("yyyy-MM-dd HH:mm:ss",)),
        ("page RLIKE '['", ("RLIKE",)),
        ("page RLIKE 'a{'", ("a{",)),
        ("CAST(bytes AS TIMESTAMP)", ("timestamp_seconds(bytes)", "timestamp_millis(bytes)")),
        ("CAST(at AS BIGINT)", ("unix_seconds(at)", "unix_millis(at)")),
        ("CAST(ok AS DATE)", ("CAST", "BOOLEAN", "DATE")),
        ("CAST(page AS BYTES)", ("BYTES", "STRING")),
        ("CAST(page AS ARRAY<INT>)", ("CAST", "STRING", "ARRAY", "INT")),
        ("CAST(page AS STRNG)", ("STRNG",)),
        ("CAST(page AS DECIMAL(40,2))", ("DECIMAL", "1", "38")),
        ("CAST(page AS 5)", ("STRING",)),
        # syntax
        ("", ()),
        ("status >", ("1:9",)),
        ("(status", (")",)),
        ("status 5", ("5",)),
        ("status 'x'", ("x",)),
        ("end + 1", ("end",)),
        ("page NOT 'x'", ("IN", "BETWEEN", "RLIKE", "NOT")),
        ("page IS 'x'", ("IS", "NULL", "TRUE", "FALSE")),
        ("page IN ()", ("IN",)),
        ("page IN (SELECT 1)", ()),
        ("(SELECT 1)", ()),
        ("count(*) OVER ()", ("count(…)", "OVER")),
        ("*", ("count(*)",)),
        ("CASE ok END", ("WHEN", "CASE")),
        ("CASE WHEN ok THEN 1", ("END", "CASE", "WHEN", "THEN")),
        ("CASE WHEN ok 1 END", ("THEN", "WHEN")),
        ("status BETWEEN 1", ("AND", "BETWEEN")),
        ("CAST(page INT)", ("CAST",)),
        ('page = "/home"', ("/home",)),
        ("page = 'x", ()),
        ("page /* x", ()),
        ("status # 1", ("#",)),
        (r"page = '\0'", ("NUL",)),
        ("1.5F", ()),
        ("1.5L", ("1",)),
        ("9223372036854775808L", ("BIGINT",)),
        ("1e999", ("DOUBLE",)),
        ("1e3BD", ("DECIMAL",)),
        ("1" * 39, ("38",)),
        ("1.2.3", ()),
        ("DATE '2026-02-30'", ("2026-02-30", "DATE", "2026-01-31")),
        ("TIMESTAMP 'now'", ("now", "TIMESTAMP")),
        ("CAST('now' AS TIMESTAMP)", ("now", "TIMESTAMP")),
        ("to_date('today')", ("today", "DATE")),
        (
            "CAST(lower('NOW') AS TIMESTAMP)",
            ("lower('NOW')", "TIMESTAMP", "…"),
        ),
        ("at - INTERVAL 1 MONTH", ()),
        ("at - INTERVAL minute", ()),
        ("(" * 200 + "1" + ")" * 200, ()),
        ("1" + " + 1" * 5000, ()),
        ("- " * 5000 + "1", ()),
    ],
)
def test_each_mistake_says_what_to_do(text, values):
    with pytest.raises(DefinitionError) as e:
        read(text)
    wording.check(e.value, *values)
    assert e.value.where is not None


def test_a_mistake_has_its_place():
    with pytest.raises(DefinitionError) as e:
        read("status = 1\n  AND lower(bytes) = 'x'")
    assert (e.value.where.line, e.value.where.column) == (2, 13)


FIELDS = {"INT": ["status", "`end`"], "STRING": ["page", "mixed"], "BOOLEAN": ["ok"]}
numbers = st.deferred(
    lambda: st.one_of(
        st.sampled_from([*FIELDS["INT"], "bytes", "price", "ratio"]),
        st.integers(-(2**63), 2**64).map(str),
        st.builds("({} {} {})".format, numbers, st.sampled_from(["+", "-", "*", "/", "%"]), numbers),
        st.builds("- {}".format, numbers),
        st.builds("CASE WHEN {} THEN {} ELSE {} END".format, truths, numbers, numbers),
        st.builds("length({})".format, texts),
    )
)
texts = st.deferred(
    lambda: st.one_of(
        st.sampled_from(FIELDS["STRING"]),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8).map(escape),
        st.builds("lower({})".format, texts),
        st.builds("{} || {}".format, texts, texts),
    )
)
truths = st.deferred(
    lambda: st.one_of(
        st.sampled_from(FIELDS["BOOLEAN"]),
        st.builds("({} {} {})".format, truths, st.sampled_from(["AND", "OR", "=", "<=>"]), truths),
        st.builds("NOT {}".format, truths),
        st.builds("({} {} {})".format, numbers, st.sampled_from(["<", "=", "<>", ">="]), numbers),
        st.builds("({} {} ({}, {}))".format, numbers, st.sampled_from(["IN", "NOT IN"]), numbers, numbers),
        st.builds("({} BETWEEN {} AND {})".format, numbers, numbers, numbers),
        st.builds("(({}) IS {})".format, truths, st.sampled_from(["NULL", "NOT NULL", "TRUE", "NOT FALSE"])),
    )
)


@given(st.one_of(numbers, texts, truths))
def test_the_canonical_text_of_a_canonical_text_is_the_same(text):
    expression = read(text)
    assert read(expression.sql) == expression
    assert read(f"(\t{expression.sql}\n)") == expression


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_any_text_survives_as_a_literal(text):
    assert read(escape(text)).sql == escape(text)


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text):
    with suppress(DefinitionError):
        read(text)
