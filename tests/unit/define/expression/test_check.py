"""Expressions: one canonical text, the right type, and an error that says what to write."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.define.expression.check import parse_expression
from headrace.errors import DefinitionError
from headrace.language.source_text import escape
from headrace.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, decimal

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
    ("text", "says"),
    [
        # names
        ("statsu = 1", "1:1: the stream has no field 'statsu'; did you mean 'status'?"),
        ("zzz = 1", "it has page, status"),
        ("other.page", "'other.page' is not defined here"),
        ("lowr(page)", "the function lowr is not available in definitions; did you mean 'lower'?"),
        ("qqqqqq(page)", "docs/functions.md lists those that are"),
        ("now()", "now is not deterministic"),
        ("current_date", "current_date is not deterministic"),
        ("unix_timestamp()", "unix_timestamp is not deterministic"),
        ("rand() < 0.1", "rand is not deterministic"),
        ("decimal(status)", "write CAST(… AS DECIMAL)"),
        ("sum(bytes) + 1", "the aggregate sum is not allowed in an expression that is computed for each event"),
        ("lower(DISTINCT page)", "lower is not an aggregate, so it takes no DISTINCT"),
        ("lower(page) FILTER (WHERE ok)", "lower is not an aggregate, so it takes no FILTER"),
        # arguments
        ("lower()", "lower does not take 0 arguments; expected lower(text STRING)"),
        ("lower(page, page)", "lower does not take 2 arguments"),
        ("lower(status)", "found INT (status); expected STRING; write CAST(status AS STRING)"),
        ("sqrt(page)", "sqrt: 'x' has an invalid value; found STRING (page); expected NUMBER"),
        ("abs(NULL)", "found VOID (NULL)"),
        ("to_date(status)", "expected STRING or TIME"),
        ("date_trunc('hours', at)", "expected one of 'year', 'quarter'"),
        ("parse_url(page, 'host')", "expected one of 'HOST'"),
        ("sha2(page, 100)", "expected 224, 256, 384 or 512"),
        ("split_part(page, ',', 0)", "expected a constant INT other than 0"),
        ("split_part(page, ',', status)", "expected a constant INT other than 0"),
        ("lpad(page, 100000)", "expected a constant INT from -1000 to 1000"),
        ("regexp_extract(page, '(')", "the pattern of regexp_extract cannot be used: it is not valid (missing ): ()"),
        ("regexp_extract(page, page)", "expected a constant pattern"),
        ("regexp_extract(page, 'a')", "group 1 of a pattern that has 0"),
        ("regexp_extract(page, '(a)', 2)", "group 2 of a pattern that has 1"),
        ("regexp_replace(page, 'a', page)", "expected a constant text"),
        ("regexp_replace(page, 'a', '$1')", "a $ names a group of the pattern"),
        ("regexp_replace(page, 'a', r'\\')", "escapes the character after it"),
        ("to_date(page, 'nonsense')", "'nonsense' is not a format of times: the letters n cannot be read"),
        ("abs(CAST(price AS DECIMAL(38,2)))", "a DECIMAL of more than 34 digits"),
        # types
        ("page + 1", "+ takes numbers; found STRING (page); write CAST(page AS DOUBLE)"),
        ("at - at", "write unix_millis(at) - unix_millis(at)"),
        ("day - day", "write datediff(day, day)"),
        ("ratio DIV 2", "DIV takes whole numbers"),
        ("status + NULL", "+ with NULL is NULL"),
        ("status = 'a'", "a comparison: the types are not compatible; found INT (status), STRING ('a')"),
        ("status IN (1, 'a')", "the types are not compatible"),
        ("ok = 1", "the types are not compatible"),
        ("at > 'yesterday'", "'yesterday' is not a TIMESTAMP"),
        ("at > INTERVAL 1 DAY", "an INTERVAL cannot be compared"),
        ("status + INTERVAL 1 DAY", "an INTERVAL can only be added to or subtracted from a TIMESTAMP"),
        ("INTERVAL 1 DAY", "an INTERVAL is allowed only next to a TIMESTAMP"),
        ("NULL", "NULL alone has no type"),
        ("coalesce(page, 1)", "coalesce: the types are not compatible"),
        ("CASE WHEN ok THEN 1 ELSE 'a' END", "CASE: the types are not compatible"),
        ("status AND ok", "AND takes conditions; found INT (status); expected BOOLEAN"),
        ("NOT status", "NOT takes conditions"),
        ("CASE WHEN status THEN 1 END", "WHEN takes conditions"),
        ("status IS TRUE", "IS TRUE takes a condition"),
        ("status LIKE 'a'", "LIKE takes a text; found INT (status)"),
        ("page LIKE page", "the pattern of LIKE must be a constant text"),
        (r"page LIKE 'a\\x'", r"the pattern of LIKE is not valid"),
        ("to_date(page, 'Q yyyy')", "Q, the quarter, cannot be read, only written by date_format"),
        ("to_date(page, 'yyyyyyyyy')", "the letters yyyyyyyyy cannot be read; there are y M"),
        ("to_date(page, 'YYYY-ww')", "parts of week dates, which Spark does not have; use y, M and d, or D"),
        ("to_date(page, 'yyyyMd')", "two numbers of any width are next to each other"),
        ("to_date(page, 'yyyy-MM]')", "a ] in it has no ["),
        ("to_date(page, 'X z')", "it has two time zones"),
        ("date_format(at, 'nonsense')", "expected a constant pattern such as 'yyyy-MM-dd HH:mm:ss'"),
        ("page RLIKE '['", "the pattern of RLIKE cannot be used: it is not valid (missing ]: [)"),
        ("page RLIKE 'a{'", "a bare { is not available; found 'a{'; write \\{ for the character"),
        ("CAST(bytes AS TIMESTAMP)", "write timestamp_seconds(bytes) or timestamp_millis(bytes)"),
        ("CAST(at AS BIGINT)", "write unix_seconds(at) or unix_millis(at)"),
        ("CAST(ok AS DATE)", "CAST of BOOLEAN to DATE is not supported"),
        ("CAST(page AS BYTES)", "the type BYTES is not supported; the nearest is STRING"),
        ("CAST(page AS ARRAY<INT>)", "CAST of STRING to ARRAY<INT> is not supported"),
        ("CAST(page AS STRNG)", "the type 'STRNG' is unknown"),
        ("CAST(page AS DECIMAL(40,2))", "a DECIMAL has 1 to 38 digits"),
        ("CAST(page AS 5)", "expected a type, such as STRING"),
        # syntax
        ("", "found the end; expected a field, a constant or a function"),
        ("status >", "1:9: syntax error; found the end"),
        ("(status", "found the end; expected ')' after the expression in parentheses"),
        ("status 5", "found the number 5; expected an operator or the end of the expression"),
        ("status 'x'", "found the text 'x'"),
        ("end + 1", "write `end` in backticks if it is a name"),
        ("page NOT 'x'", "expected IN, BETWEEN, LIKE or RLIKE after NOT"),
        ("page IS 'x'", "IS compares with NULL, TRUE and FALSE only; write ="),
        ("page IN ()", "the list of IN is empty"),
        ("page IN (SELECT 1)", "a query inside an expression is not supported"),
        ("(SELECT 1)", "a query inside an expression is not supported"),
        ("count(*) OVER ()", "count(…) OVER is not supported"),
        ("*", "* is allowed only in count(*)"),
        ("CASE ok END", "expected WHEN after CASE"),
        ("CASE WHEN ok THEN 1", "expected END after CASE … WHEN … THEN …"),
        ("CASE WHEN ok 1 END", "expected THEN after the condition of WHEN"),
        ("status BETWEEN 1", "expected AND after the lower bound of BETWEEN"),
        ("CAST(page INT)", "expected AS after the value of CAST"),
        ('page = "/home"', "write '/home', in single quotes, for a text"),
        ("page = 'x", "a quote is not closed; expected a closing '"),
        ("page /* x", "a comment is not closed; expected */"),
        ("status # 1", "the character '#' is not allowed here"),
        (r"page = '\0'", "a text holds a NUL"),
        ("1.5F", "the suffix F of a number is not supported"),
        ("1.5L", "1.5L is not a whole number"),
        ("9223372036854775808L", "does not fit a BIGINT"),
        ("1e999", "does not fit a DOUBLE"),
        ("1e3BD", "a DECIMAL is written without an exponent"),
        ("1" * 39, "a number of more than 38 digits"),
        ("1.2.3", "found the number .3"),
        ("DATE '2026-02-30'", "'2026-02-30' is not a DATE; expected for example DATE '2026-01-31'"),
        ("TIMESTAMP 'now'", "'now' is not a TIMESTAMP"),
        ("CAST('now' AS TIMESTAMP)", "'now' is not a TIMESTAMP"),
        ("to_date('today')", "'today' is not a DATE"),
        (
            "CAST(lower('NOW') AS TIMESTAMP)",
            "a constant time must be a literal; found lower('NOW'); write TIMESTAMP '…'",
        ),
        ("at - INTERVAL 1 MONTH", "has no fixed length"),
        ("at - INTERVAL minute", "expected"),
        ("(" * 200 + "1" + ")" * 200, "the expression is nested too deeply"),
        ("1" + " + 1" * 5000, "the expression is too long"),
        ("- " * 5000 + "1", "the expression is nested too deeply"),
    ],
)
def test_each_mistake_says_what_to_do(text, says):
    with pytest.raises(DefinitionError) as e:
        read(text)
    assert says in str(e.value)
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
