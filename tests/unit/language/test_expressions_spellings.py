"""Spellings of standard SQL and other systems that mean an expression or a type of ours."""

# ruff: noqa: E501 - one case per line

from __future__ import annotations

import pytest

from headrace.define.catalog import parse
from headrace.errors import DefinitionError
from headrace.language.check import parse_expression
from headrace.types import BIGINT, DOUBLE, INT, STRING, TIMESTAMP, array, map_of, struct
from tests import wording

TYPES = {
    "url": STRING, "payload": STRING, "n": INT, "x": DOUBLE, "at": TIMESTAMP, "address": struct(("city", STRING)),
}  # fmt: skip


@pytest.mark.parametrize(
    ("written", "means"),
    [
        ("EXTRACT(HOUR FROM at)", "hour(at)"),
        ("extract(week from at)", "weekofyear(at)"),
        ("EXTRACT(DOW FROM at)", "dayofweek(at)"),
        ("EXTRACT(ISODOW FROM at)", "weekday(at) + 1"),
        ("date_part('year', at)", "year(at)"),
        ("EXTRACT(EPOCH FROM at)", "CAST(CAST(unix_micros(at) AS DECIMAL(20,0)) / 1000000 AS DECIMAL(20,6))"),
        ("SUBSTRING(url FROM 2 FOR 3)", "substring(url, 2, 3)"),
        ("SUBSTRING(url FROM 2)", "substring(url, 2)"),
        ("substring(url, 2)", "substring(url, 2)"),
        ("TRIM(BOTH '/' FROM url)", "trim(url, '/')"),
        ("TRIM(LEADING '/' FROM url)", "ltrim(url, '/')"),
        ("TRIM(TRAILING FROM url)", "rtrim(url)"),
        ("TRIM('/' FROM url)", "trim(url, '/')"),
        ("btrim(url, 'xy')", "trim(url, 'xy')"),
        ("trim(url)", "trim(url)"),
        ("POSITION('/' IN url)", "instr(url, '/')"),
        ("strpos(url, '/')", "instr(url, '/')"),
        ("FLOOR(at TO HOUR)", "date_trunc('hour', at)"),
        ("floor(x)", "floor(x)"),
        ("n BETWEEN SYMMETRIC 5 AND 1", "n BETWEEN 5 AND 1 OR n BETWEEN 1 AND 5"),
        ("n NOT BETWEEN SYMMETRIC 5 AND 1", "NOT (n BETWEEN 5 AND 1 OR n BETWEEN 1 AND 5)"),
        ("n BETWEEN ASYMMETRIC 1 AND 5", "n BETWEEN 1 AND 5"),
        ("(n > 1) IS NOT UNKNOWN", "(n > 1) IS NOT NULL"),
        ("date(at)", "CAST(at AS DATE)"),
        ("string(n) || 'x'", "CAST(n AS STRING) || 'x'"),
        ("url LIKE '50!%%' ESCAPE '!'", r"url LIKE r'50\%%'"),
        ("url LIKE 'a!!b!_%' ESCAPE '!'", r"url LIKE r'a!b\_%'"),
        ("url LIKE ANY ('a%', 'b%')", "url LIKE 'a%' OR url LIKE 'b%'"),
        ("url ILIKE ALL ('a%', '%b')", "url ILIKE 'a%' AND url ILIKE '%b'"),
        ("EXTRACT(HOUR FROM at AT TIME ZONE 'Europe/Berlin')", "hour(from_utc_timestamp(at, 'Europe/Berlin'))"),
        ("url ~ '^a'", "url RLIKE '^a'"),
        ("url !~* '^a'", "url NOT RLIKE '(?i)^a'"),
        ("payload->>'country'", "get_json_object(payload, '$.country')"),
        ("payload->>'$.user.id'", "get_json_object(payload, '$.user.id')"),
        ("payload->'user'->>'id'", "get_json_object(payload, '$.user.id')"),
        ("(payload->'user')->>'first name'", "get_json_object(payload, '$.user[\\'first name\\']')"),
        ("payload->'tags'->>0", "get_json_object(payload, '$.tags[0]')"),
        ("(payload->>'n')::int + 1", "CAST(get_json_object(payload, '$.n') AS INT) + 1"),
        ("(payload->'n')::int", "CAST(get_json_object(payload, '$.n') AS INT)"),
        ("payload->>'a' = 'b' AND n > 1", "get_json_object(payload, '$.a') = 'b' AND n > 1"),
        ("payload::jsonb->'user'->>'id'", "get_json_object(payload, '$.user.id')"),
        ("(payload::json)->>'id'", "get_json_object(payload, '$.id')"),
        ("CAST(payload AS JSON)->>'id'", "get_json_object(payload, '$.id')"),
        ("payload #>> '{user,tags,0}'", "get_json_object(payload, '$.user.tags[0]')"),
        ("payload:user.tags[0]", "get_json_object(payload, '$.user.tags[0]')"),
        ("payload:n::int > 5", "CAST(get_json_object(payload, '$.n') AS INT) > 5"),
        ("SAFE_CAST(url AS INT64)", "TRY_CAST(url AS BIGINT)"),
        ("url || E'\\n'", "url || '\\n'"),
        ("address->city", "address.city"),
        ("JSON_VALUE(payload, '$.plan')", "get_json_object(payload, '$.plan')"),
        ("JSON_VALUE(payload, 'lax $.n' RETURNING INT NULL ON EMPTY)", "TRY_CAST(get_json_object(payload, '$.n') AS INT)"),
        ("IIF(n > 1, 'a', 'b')", "if(n > 1, 'a', 'b')"),
        ("at - '1 hour'::interval", "at - INTERVAL 1 HOUR"),
        ("at > TIMESTAMPTZ '2026-01-01 00:00:00+01:00'", "at > TIMESTAMP '2025-12-31 23:00:00'"),
        ("CAST(x AS SMALLINT)", "CAST(x AS INT)"),
        ("x::float", "CAST(x AS DOUBLE)"),
        ('"url" || \'x\'', "url || 'x'"),
    ],
)  # fmt: skip
def test_a_spelling_means_an_expression(written: str, means: str) -> None:
    expression = parse_expression(written, TYPES)
    assert expression == parse_expression(means, TYPES)
    assert parse_expression(expression.sql, TYPES) == expression, "its canonical text means the same"


@pytest.mark.parametrize(
    ("written", "type_"),
    [
        ("TIMESTAMP(3)", TIMESTAMP), ("TIMESTAMP_LTZ(3)", TIMESTAMP), ("TIMESTAMP WITH TIME ZONE", TIMESTAMP),
        ("TIMESTAMP(6) WITH LOCAL TIME ZONE", TIMESTAMP), ("TIMESTAMP WITHOUT TIME ZONE", TIMESTAMP),
        ("TIMESTAMPTZ", TIMESTAMP), ("FLOAT", DOUBLE), ("REAL", DOUBLE), ("DOUBLE PRECISION", DOUBLE),
        ("SMALLINT", INT), ("TINYINT", INT), ("INT8", BIGINT), ("VARCHAR(20)", STRING),
        ("CHARACTER VARYING(20)", STRING), ("CHARACTER(2)", STRING), ("BIGINT[]", array(BIGINT)),
        ("ROW<a INT, b VARCHAR(3)>", struct(("a", INT), ("b", STRING))), ("ROW(a INT)", struct(("a", INT))),
        ("MAP<VARCHAR, INT8>", map_of(BIGINT)), ("TEXT[][]", array(array(STRING))),
    ],
)  # fmt: skip
def test_a_type_has_other_names(written: str, type_: object) -> None:
    (field,) = parse(f"CREATE STREAM s (a {written} NOT NULL)").streams["s"].fields
    assert (field.type, field.nullable) == (type_, False)


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("payload->'user'", ("user",)),
        ("payload->'a'->'b'", ("a", "b")),
        ("'x' = ANY(url)", ("array_contains(x, y)",)),
        ("from_utc_timestamp(at, 'Mars/Base')", ("Europe/Berlin",)),
        ("payload::json", ()),
        ("payload #> '{a,b}'", ("{a,b}",)),
        ("payload.user", ("user",)),
        ("multiIf(n > 1, 'a', n > 0, 'b', 'c')", ("CASE WHEN", "1", "THEN", "a", "0")),
        ("payload->>-1", ()),
        ("EXTRACT(CENTURY FROM at)", ("CENTURY", "YEAR")),
        ("TRIM(BOTH '' FROM url)", ()),
        ("JSON_VALUE(payload, url)", ("JSON_VALUE",)),
        ("toStartOfHour(at)", ("date_trunc('hour', at)",)),
        ("to_char(at, 'YYYY-MM-DD HH24:MI')", ("date_format(at, 'yyyy-MM-dd HH:mm')",)),
        ("JSONExtractString(payload, 'a', 'b')", ("get_json_object(payload, '$.a.b')",)),
        ("time_floor(at, 'PT5M')", ("time_bucket('5 minutes', at)",)),
        ("locate('a', url)", ("instr(url, 'a')",)),
        ("timestampdiff(MINUTE, at, at)", ("unix_seconds(at)", "60")),
    ],
)
def test_another_spelling_is_refused_with_what_to_write(written: str, values: tuple[str, ...]) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse_expression(written, TYPES)
    wording.check(caught.value, *values)
