"""What definitions say about expressions is what Spark does, and DuckDB computes fields as Spark would."""

# ruff: noqa: E501 - one case per line

from __future__ import annotations

import itertools
import random

import duckdb
import pytest

from headrace.engine.duckdb_terms import ALLOWED, duckdb_sql
from headrace.engine.spark_relations import with_computed
from headrace.engine.spark_views import for_spark
from headrace.engine.time_functions import register
from headrace.errors import DefinitionError
from headrace.language.check import parse_expression
from headrace.language.coercion import CASTS
from headrace.language.datetime_patterns import is_ours, refuse_time_pattern
from headrace.language.functions import TABLE
from headrace.language.source_text import escape
from headrace.language.terms import Expression
from headrace.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, array, decimal, map_of, struct

from .expressions import COMPUTED, DERIVED, SAMPLES, chunks, computed_expression

TYPES = {
    "s": STRING, "t": STRING, "i": INT, "b": BIGINT, "d": DOUBLE, "m": decimal(10, 2), "w": decimal(38, 10),
    "k": BOOLEAN, "y": DATE, "at": TIMESTAMP,
}  # fmt: skip
ROWS = """
  ('Hello 12', '2024-01-02', 7, 7000000000L, 2.5D, 12.34, 1.5, true, DATE '2024-02-03', TIMESTAMP '2024-02-03 04:05:06.789'),
  (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  ('', '%zz', -2147483648, -9223372036854775807L - 1, double('NaN'), -99999999.99, -9999999999999999999999999999.9999999999,
   true, DATE '0001-01-01', TIMESTAMP '0001-01-01 00:00:00'),
  ('http://[bad url', '{bad', 2147483647, 9223372036854775807L, double('Infinity'), 99999999.99,
   9999999999999999999999999999.9999999999, false, DATE '9999-12-31', TIMESTAMP '9999-12-31 23:59:59.999999'),
  (r'\\', '$[', 0, 0L, 0.0D, 0, 0, false, DATE '1970-01-01', TIMESTAMP '1970-01-01 00:00:00'),
  (r'$1 \\1', 'ß😀', -1, -1L, double('-Infinity'), -1, -1, false, DATE '1969-12-31', TIMESTAMP '1969-12-31 23:59:59.999999')
"""
COLUMNS = ", ".join(f"CAST({name} AS {type_}) AS {name}" for name, type_ in TYPES.items())
NESTED = {
    "l": (array(STRING), "if(s IS NULL, NULL, array(s, NULL, t))"),
    "g": (array(INT), "if(i = 0, array(), array(i, NULL, 2))"),
    "p": (struct(("a", INT), ("end", STRING), ("in", struct(("x", DOUBLE)))),
          "if(i IS NULL, NULL, named_struct('a', i, 'end', s, 'in', named_struct('x', d)))"),
    "q": (array(struct(("n", BIGINT))), "if(b IS NULL, NULL, array(named_struct('n', b), NULL))"),
    "h": (map_of(INT), "if(i IS NULL, NULL, map('k', i, '', NULL))"),
}  # fmt: skip
ALL_TYPES = {**TYPES, **{name: type_ for name, (type_, _) in NESTED.items()}}
EXAMPLES = {
    "STRING": ["s"], "INT": ["i", "2"], "DOUBLE": ["d"], "NUMBER": ["i", "b", "d", "m", "w", "1", "1.5"],
    "INTEGER": ["i", "b"], "TIME": ["y", "at"], "TIMESTAMP": ["at"], "BOOLEAN": ["k"], "ANY": ["s", "i", "at"],
    "SAME": ["i", "b", "d", "m", "w", "1", "NULL"], "REGEX": ["'(a)(b)'"], "TEXT": ["'$1'"], "UNIT": ["'hour'", "'WEEK'"],
    "ZONE": ["'Europe/Berlin'", "'UTC'"], "FORMAT": ["'yyyy-MM-dd'"], "PATTERN": ["'yyyy-MM-dd'", "'d MMM[ yyyy] h a'"],
    "PART": ["'HOST'"], "GROUP": ["1"], "COUNT": ["1", "-1"], "BITS": ["256"],
    "INDEX": ["1", "-2"], "STRING|TIME": ["s", "y", "at"], "NESTED": ["l", "h", "q"], "ARRAY": ["l", "g"], "MAP": ["h"],
    "INT|STRING": ["1", "-1", "s"],
}  # fmt: skip
NUMBERS = ["i", "b", "d", "m", "w", "1", "10", "1.5", "-3", "5000000000", "1e2", "12345678901234567890"]
SOME_OF_EACH_TYPE = {"STRING": "s", "BOOLEAN": "k", "DATE": "y", "TIMESTAMP": "at", "INT": "i", "BIGINT": "b",
                     "DOUBLE": "d", "DECIMAL": "m"}  # fmt: skip
FURTHER = [
    "at + INTERVAL 1 DAY", "at - INTERVAL 250 MILLISECONDS", "at - INTERVAL '90' MINUTE", "at + INTERVAL '0.5' SECOND",
    "s LIKE 'a%'", "s RLIKE 'a+'", "s ILIKE r'%\\_x'", "k IS NOT TRUE", "s <=> t", "s IS DISTINCT FROM t", "s || t || 'x'",
    "at > '2024-01-01'", "y = '2024-01-01'", "y BETWEEN '2024-01-01' AND at", "at IN (y, '2024-01-01')", "y = at",
    "coalesce(y, at)", "coalesce(s, t)", "nullif(s, t)", "if(k, y, at)", "0.05", "0.00", "100.", ".5", "1L", "1.50BD",
    "-2147483648", "-9223372036854775808", "2147483648", "TRUE", "DATE '2024-1-2'", "1e-5", "1e300", "- -1",
    "TIMESTAMP '2024-01-01T00:00:00+02:00'", "TIMESTAMP '2024-01-01 00:00:00.25'", "date_add(y, i)", "date_sub(y, i)",
    "regexp_replace(s, 'a', 'b')", "get_json_object(t, t)", "parse_url(s, 'QUERY', t)", "substring(s, i, i)",
    "left(s, i)", "right(s, i)", "split_part(s, t, -2147483648)", "lpad(s, 1000, t)", "translate(s, t, s)",
    "to_timestamp(s, 'yyyy-MM-dd HH:mm:ss')", "date_format(at, 'yyyy-MM-dd')", "b * b", "-b", "b DIV 0", "b DIV -1",
    "b % 0", "b % -1", "pmod(b, -1)", "pmod(b, 0)", "w * w", "w / m", "round(d, 1000)", "round(b, -1000)",
    "round(w, -30)", "width_bucket(d, 0, 1, 10)", "timestamp_micros(b)", "timestamp_seconds(i)", "pow(d, d)",
    "p.a", "p.`end`", "p.in.x + 1", "P.A", "l[0]", "l[i]", "l[-1]", "g[2147483647] + 1", "q[0].n", "q[1].n", "h['k']", "h[s]",
    "split(s, ' ')[0]", "split(s, '[lo]+')[i]", "element_at(q, 1).n", "map_keys(h)[0]", "map_values(h)[1]", "p IS NULL",
    "size(split(t, '-'))", "l IS NOT NULL", "array_contains(g, 2L)", "array_contains(g, 1.5)", "coalesce(h['x'], g[0], p.a)",
    "CASE WHEN k THEN l END", "array_max(map_values(h))",
]  # fmt: skip


def candidates() -> list[str]:
    """Expressions over every function with every kind of argument, every operator and every cast."""
    texts = []
    for function in TABLE:
        needed = tuple(p for p in function.parameters if not (p.optional or p.repeats))
        for parameters in {needed, function.parameters}:
            choices = itertools.product(*(EXAMPLES[p.kind] for p in parameters))
            texts += [f"{function.name}({', '.join(arguments)})" for arguments in choices]
    for a, b in itertools.product(NUMBERS, NUMBERS):
        texts += [f"{a} {op} {b}" for op in ("+", "-", "*", "/", "%", "DIV", "<", "<=>")]
        texts += [f"CASE WHEN k THEN {a} ELSE {b} END", f"{a} IN ({b}, 1)"]
    for source, targets in CASTS.items():
        for to in targets:
            texts += [f"CAST({SOME_OF_EACH_TYPE[source]} AS {to})", f"TRY_CAST({SOME_OF_EACH_TYPE[source]} AS {to})"]
    return [*texts, *FURTHER]


def accepted_or_none(text: str) -> Expression | None:
    try:
        return parse_expression(text, ALL_TYPES)
    except DefinitionError:
        return None


def expressions() -> list[Expression]:
    return list(dict.fromkeys(filter(None, map(accepted_or_none, candidates()))))


@pytest.fixture(scope="module")
def events(spark):
    frame = spark.sql(f"SELECT {COLUMNS} FROM VALUES {ROWS} AS v({', '.join(TYPES)})").coalesce(1)
    frame = frame.selectExpr(
        "*", *(f"CAST({sql} AS {type_}) AS {name}" for name, (type_, sql) in NESTED.items())
    ).cache()
    yield frame
    frame.unpersist()


def failures(expressions, run):
    """What `run` raises for which expressions, found by halving."""
    try:
        return run(expressions)
    except Exception as e:
        if len(expressions) == 1:
            return [f"{expressions[0].sql}: {str(e)[:200]}"]
        half = len(expressions) // 2
        return failures(expressions[:half], run) + failures(expressions[half:], run)


def test_every_function_is_tried():
    names = {expression.sql.partition("(")[0] for expression in expressions()}
    assert {function.name for function in TABLE} - names == {"timestamp_millis", "timestamp_seconds"} - names


def test_types_are_sparks(events):
    def mistyped(expressions):
        fields = events.selectExpr(*(f"{e.sql} AS c{i}" for i, e in enumerate(expressions))).schema.fields
        pairs = zip(expressions, (f.dataType.simpleString().upper() for f in fields), strict=True)
        plain = [(e, theirs, str(e.type).replace(", ", ",").replace(": ", ":").upper()) for e, theirs in pairs]
        return [f"{e.sql}: ours {e.type}, Spark's {theirs}" for e, theirs, ours in plain if theirs != ours]

    problems = [failure for chunk in chunks(expressions(), 100) for failure in failures(chunk, mistyped)]
    assert problems == []


def test_no_value_makes_spark_fail(events):
    def run(expressions):
        spark_expressions, matches = for_spark(expressions, ALL_TYPES)
        columns = [f"{e.sql} AS c{i}" for i, e in enumerate(spark_expressions)]
        with_computed(events, matches).selectExpr(*columns).write.format("noop").mode("overwrite").save()
        return []

    sample = random.Random(7).sample(expressions(), 60) + [parse_expression(text, ALL_TYPES) for text in FURTHER]
    by_function = {e.sql.partition("(")[0]: e for e in expressions()}
    problems = [f for chunk in chunks([*sample, *by_function.values()], 50) for f in failures(chunk, run)]
    assert problems == []


def test_every_accepted_format_works_in_spark(events):
    """Of each letter, however often: whatever a definition accepts, Spark writes and reads."""
    forms = [letter * count for letter in "yMdHhmsSaEDXxVOzQeLu" for count in range(1, 11)]
    texts = [f"date_format(at, '{form}')" for form in forms] + [
        f"to_timestamp(t, '{form}')" for form in forms if refuse_time_pattern(form) is None and not is_ours(form)
    ]
    valid = [expression for text in texts if (expression := accepted_or_none(text))]
    assert len(valid) > 80

    def run(expressions):
        columns = [f"{e.sql} AS c{i}" for i, e in enumerate(expressions)]
        events.selectExpr(*columns).write.format("noop").mode("overwrite").save()
        return []

    assert failures(valid, run) == []


def test_the_key_of_a_url_is_no_pattern(spark):
    keys = ["a", "(", "a.b", "(a|b)*", r"\E", r"\Q\E(", "[", "c"]
    values = ", ".join(f"('http://x.com/?a=1&a.b=2&c=3&axb=4', {escape(key)})" for key in keys)
    frame = spark.sql(f"SELECT * FROM VALUES {values} AS v(s, t)").coalesce(1)
    texts = ["parse_url(s, 'QUERY', t)", "parse_url(s, 'QUERY', 'a.b')"]
    spark_expressions, _ = for_spark([parse_expression(text, TYPES) for text in texts], TYPES)
    rows = frame.selectExpr(*(e.sql for e in spark_expressions)).collect()
    assert [row[0] for row in rows] == ["1", None, "2", None, None, None, None, "3"]
    assert {row[1] for row in rows} == {"2"}


def test_any_keyword_of_spark_can_name_a_field(spark):
    names = [row[0].lower() for row in spark.sql("SELECT keyword FROM sql_keywords()").collect()]
    frame = spark.range(1).selectExpr(*(f"{i} AS `{name}`" for i, name in enumerate(names)))
    shapes = ["{0}", "CASE WHEN {0} + 1 IS NULL THEN 0 ELSE greatest(-(-{0}), {0}) END"]
    for shape in shapes:
        expressions = [parse_expression(shape.format(f"`{name}`"), dict.fromkeys(names, INT)) for name in names]
        row = frame.selectExpr(*(f"{e.sql} AS c{i}" for i, e in enumerate(expressions))).first()
        assert list(row) == list(range(len(names)))


def test_texts_read_back_as_they_were(spark):
    texts = ["it's", "a\\b", "\\", "\\'", "\n\t\r", "%_\\%", "--", "/* */", "`x`", "ünïcode 😀", "${x}", "\\u0041", '"']
    row = spark.range(1).selectExpr(*(f"{escape(text)} AS c{i}" for i, text in enumerate(texts))).first()
    assert list(row) == texts


def test_canonical_text_means_what_was_written(spark):
    """Random trees, written with all parentheses: Spark gives them and their canonical text the same values."""
    choose = random.Random(11)

    def number(depth):
        if depth == 0:
            return choose.choice(["i", "j", "3", "-2", "0"])
        op = choose.choice(["+", "-", "*", "%", "neg", "case"])
        if op == "neg":
            return f"(- {number(depth - 1)})"
        if op == "case":
            return f"(CASE WHEN {truth(depth - 1)} THEN {number(depth - 1)} ELSE {number(depth - 1)} END)"
        return f"({number(depth - 1)} {op} {number(depth - 1)})"

    def truth(depth):
        if depth == 0:
            return choose.choice(["k", "TRUE", "(i > j)"])
        op = choose.choice(["AND", "OR", "NOT", "=", "<=>", "IS NULL", "IS NOT TRUE", "IN", "BETWEEN", "cmp"])
        a, b = truth(depth - 1), truth(depth - 1)
        if op in ("AND", "OR", "=", "<=>"):
            return f"({a} {op} {b})"
        if op in ("IS NULL", "IS NOT TRUE"):
            return f"({a} {op})"
        if op == "NOT":
            return f"(NOT {a})"
        m, n, o = (number(depth - 1) for _ in range(3))
        return {"IN": f"({m} NOT IN ({n}, {o}))", "BETWEEN": f"({m} BETWEEN {n} AND {o})"}.get(op, f"({m} < {n})")

    texts = [choose.choice([number, truth])(choose.randint(1, 4)) for _ in range(300)]
    types = {"i": INT, "j": INT, "k": BOOLEAN}
    frame = spark.sql("SELECT * FROM VALUES (1, 2, true), (-5, 3, false), (0, NULL, NULL) AS v(i, j, k)").coalesce(1)
    for chunk in chunks(texts, 50):
        canonical = [parse_expression(text, types).sql for text in chunk]
        as_written = frame.selectExpr(*(f"{text} AS c{i}" for i, text in enumerate(chunk))).collect()
        assert frame.selectExpr(*(f"{text} AS c{i}" for i, text in enumerate(canonical))).collect() == as_written


# -- computed fields

# Known differences, documented in docs/streams.md: overflow is NULL, 'ß' in capitals, dates such as '2024' are NULL.


def sample_rows() -> list[tuple]:
    longest = max(len(values) for _, values in SAMPLES.values())
    return [tuple(values[i % len(values)] for _, values in SAMPLES.values()) for i in range(longest * 3)]


def literal(value: object) -> str:
    return "NULL" if value is None else escape(value) if isinstance(value, str) else str(value)


def test_every_function_of_computed_fields_is_compared():
    used = {function for function in ALLOWED if any(f"{function}(" in text for text in COMPUTED)}
    assert used == set(ALLOWED)


def test_duckdb_computes_what_spark_would(spark):
    types = {name: type_ for name, (type_, _) in SAMPLES.items()}
    rows = ", ".join(f"({', '.join(map(literal, row))})" for row in sample_rows())
    casts = ", ".join(f"CAST({name} AS {type_}) AS {name}" for name, type_ in types.items())
    frame = spark.sql(f"SELECT {casts} FROM VALUES {rows} AS v({', '.join(types)})").coalesce(1)
    frame = frame.selectExpr("*", *(f"CAST({sql} AS {type_}) AS {name}" for name, (type_, sql) in DERIVED.items()))
    types |= {name: type_ for name, (type_, _) in DERIVED.items()}
    expressions = [computed_expression(text) for text in COMPUTED]
    spark_expressions, matches = for_spark(expressions, types)
    # Times are compared as numbers, so that Python's time zone and range of years do not matter.
    texts = [f"unix_micros({e.sql})" if e.type == TIMESTAMP else e.sql for e in spark_expressions]
    matched = with_computed(frame, matches)
    theirs = [
        column
        for chunk in chunks(texts, 40)
        for column in zip(*matched.selectExpr(*(f"{t} AS c{i}" for i, t in enumerate(chunk))).collect(), strict=True)
    ]
    database = duckdb.connect()
    register(database)
    database.execute("SET TimeZone = 'UTC'")
    database.register("events", frame.toArrow())
    different = []
    for text, expression, expected in zip(COMPUTED, expressions, theirs, strict=True):
        sql = duckdb_sql(expression, types)
        if expression.type == TIMESTAMP:
            sql = f"epoch_us({sql})"
        ours = [row[0] for row in database.execute(f"SELECT {sql} FROM events").fetchall()]
        wrong = [(row[0], a, b) for row, a, b in zip(sample_rows(), ours, expected, strict=True) if a != b]
        if wrong:
            different.append(f"{text}: (text, DuckDB, Spark) = {wrong[0]}, {len(wrong)} in all")
    assert different == []
