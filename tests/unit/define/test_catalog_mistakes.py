"""All mistakes of a statement are reported at once, each with its place, without follow-up errors."""

from __future__ import annotations

import pytest

import headrace
import headrace as hr
from headrace.define.catalog import parse
from headrace.errors import DefinitionError
from headrace.language.source_text import each
from tests import wording

CLICKS = (
    "CREATE STREAM clicks (user_id STRING NOT NULL, url STRING, dur_ms BIGINT, ts TIMESTAMP NOT NULL, "
    "WATERMARK FOR ts);\n"
)


def mistakes(text: str) -> list[tuple[int, str]]:
    """The column and the first words of each mistake in the last line."""
    with pytest.raises(DefinitionError) as failure:
        parse(CLICKS + text)
    errors = each(failure.value)
    assert {error.where.line for error in errors} == {2}
    return [(error.where.column, str(error).partition(": ")[2]) for error in errors]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (
            "SELECT url, sum(url) AS a, foo(1) AS b, max(nosuch) AS c FROM clicks GROUP BY url",
            ["sum takes a number", "the function foo is not available", "stream 'clicks' has no field 'nosuch'"],
        ),
        (
            "SELECT count(*) AS n FROM clicks WHERE foo(dur_ms) > bar(nosuch) AND lower(dur_ms) = 'a'",
            ["the function foo", "the function bar", "stream 'clicks' has no field 'nosuch'", "lower: 'text'"],
        ),
        (
            "SELECT sum(a) AS a, count(*) FILTER (WHERE b) AS n FROM clicks WHERE c GROUP BY d, window(ts, 'x')",
            [
                "stream 'clicks' has no field 'a'",
                "stream 'clicks' has no field 'b'",
                "stream 'clicks' has no field 'c'",
                "stream 'clicks' has no field 'd'",
                "'x' is not a duration",
            ],
        ),
        (
            "SELECT median(dur_ms) AS m, max(url) / count(*) AS mean FROM clicks",
            ["the aggregate median cannot be merged", "/ takes numbers"],
        ),
        (
            "SELECT nosuch, sum(url) AS s FROM clicks GROUP BY url HAVING s > 1 AND t > 1 ORDER BY s, 9",
            [
                "stream 'clicks' has no field 'nosuch'",
                "sum takes a number",
                "view 'v' has no field 't'",
                "ORDER BY 9 names no column",
            ],
        ),
        (
            "SELECT CASE WHEN dur_ms THEN foo(1) ELSE bar(1) END AS k, count(*) AS n FROM clicks GROUP BY k",
            ["WHEN takes conditions", "the function foo", "the function bar"],
        ),
        (
            "SELECT url, foo(1) AS x, count(*) AS _n, min(ts) AS settled FROM clicks GROUP BY url",
            ["the function foo", "'_n' cannot name", "'settled' cannot name"],
        ),
    ],
)
def test_all_mistakes_of_a_view(body, says):
    errors = mistakes(f"CREATE MATERIALIZED VIEW v AS {body}")
    assert [text[: len(expected)] for (_, text), expected in zip(errors, says, strict=True)] == says
    assert len({column for column, _ in errors}) == len(errors)


@pytest.mark.parametrize(
    ("body", "values"),
    [
        # GROUP BY has an error: the keys are not known, so items that are not keys are not reported.
        ("SELECT lower(url) AS u, count(*) FROM clicks GROUP BY lower(url, 1)", ("2",)),
        ("SELECT window_start, count(*) FROM clicks GROUP BY window(ts, 'x')", ("x",)),
        # A column has an error: what uses it by name or place is not reported.
        (
            "SELECT median(dur_ms) AS m, m - 1 AS a, m / count(*) AS b FROM clicks HAVING m > 1 ORDER BY m, 1",
            (),
        ),
        # The same item by its alias or place.
        ("SELECT foo(url) AS u, count(*) FROM clicks GROUP BY u", ()),
        ("SELECT foo(url) AS u, count(*) FROM clicks GROUP BY 1", ()),
        # The wrong item may have been the aggregate.
        ("SELECT url, cnt(*) AS n FROM clicks GROUP BY url", ()),
        ("SELECT sum(foo(url)) AS s FROM clicks", ()),
    ],
)
def test_no_follow_up_errors_in_a_view(body, values):
    ((_, text),) = mistakes(f"CREATE MATERIALIZED VIEW v AS {body}")
    wording.check(text, *values)


@pytest.mark.parametrize(
    ("clauses", "says"),
    [
        ("WHERE count(*) > 5 GROUP BY url", [(67, "write it after GROUP BY: HAVING count(*) > 5")]),
        ("WHERE n > 5 AND dur_ms > 1 GROUP BY url", [(67, "write it after GROUP BY: HAVING n > 5")]),
        ("WHERE dur_ms > 1 AND n > 5 AND m < 3 GROUP BY url", [(82, "HAVING n > 5"), (92, "HAVING m < 3")]),
        ("WHERE n > 5 GROUP BY url HAVING n < 9", [(67, "add it to HAVING: AND n > 5")]),
        ("WHERE (n > 5 OR url = 'a') GROUP BY url", [(68, "HAVING (n > 5 OR url = 'a')")]),
        ("WHERE dur_ms > avg(dur_ms) GROUP BY url", [(76, "conditions on aggregates and keys belong to HAVING")]),
        ("WHERE n > nosuch GROUP BY url", [(67, "conditions on aggregates and keys belong to HAVING")]),
        ("WHERE n > 5 AND nosuch > 1 GROUP BY url", [(67, "HAVING n > 5"), (77, "has no field 'nosuch'")]),
    ],
)
def test_conditions_on_aggregates_in_where(clauses, says):
    errors = mistakes(
        f"CREATE MATERIALIZED VIEW v AS SELECT url, count(*) AS n, max(dur_ms) AS m FROM clicks {clauses}"
    )
    shift = len("CREATE MATERIALIZED VIEW v AS SELECT url, count(*) AS n, max(dur_ms) AS m FROM clicks WHERE ") - 66
    assert [column - shift for column, _ in errors] == [column for column, _ in says]
    assert all(expected in text for (_, text), (_, expected) in zip(errors, says, strict=True)), errors


def test_a_field_in_where_with_the_name_of_a_column_is_the_field():
    view = "CREATE MATERIALIZED VIEW v AS SELECT max(dur_ms) AS dur_ms FROM clicks WHERE dur_ms > 5"
    assert parse(CLICKS + view).views["v"].where.sql == "dur_ms > 5"


def test_a_column_that_is_declared_twice_is_shown_where_it_is_repeated():
    ((column, text),) = mistakes("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, max(url) AS N FROM clicks")
    assert (column, text) == (53, "the column 'n' and 'N' is declared twice; rename one")


def test_units_of_functions_of_other_systems_are_no_second_mistake():
    ((_, text),) = mistakes(
        "CREATE MATERIALIZED VIEW v AS SELECT timestampdiff(MINUTE, ts, ts) AS d, count(*) AS n FROM clicks GROUP BY d"
    )
    wording.check(text, "unix_seconds(ts)")


@pytest.mark.parametrize(
    ("call", "write"),
    [
        ("first(url ORDER BY dur_ms DESC)", "max_by(url, dur_ms)"),
        ("first_value(url ORDER BY dur_ms)", "min_by(url, dur_ms)"),
        ("last(url ORDER BY dur_ms ASC) FILTER (WHERE dur_ms > 1)", "max_by(url, dur_ms)"),
        ("LAST_VALUE(url ORDER BY dur_ms DESC)", "min_by(url, dur_ms)"),
        ("last_value(url IGNORE NULLS)", "last(url) FILTER (WHERE url IS NOT NULL)"),
        ("first(url) IGNORE NULLS", "first(url) FILTER (WHERE url IS NOT NULL)"),
        ("last(url, true)", "last(url) FILTER (WHERE url IS NOT NULL)"),
        (
            "last(url, true) FILTER (WHERE dur_ms > 1 OR dur_ms < 0)",
            "last(url) FILTER (WHERE url IS NOT NULL AND (dur_ms > 1 OR dur_ms < 0))",
        ),
        ("last(url, FALSE)", "last(url)"),
        ("sum(dur_ms) || 'x'", "CAST(sum(dur_ms) AS STRING)"),
    ],
)
def test_what_to_write_for_a_call_keeps_its_meaning_and_is_accepted(call, write):
    statement = f"{CLICKS}CREATE MATERIALIZED VIEW v AS SELECT {call} AS x FROM clicks"
    with pytest.raises(DefinitionError) as failure:
        parse(statement)
    assert failure.value.write == write
    start, end = failure.value.replaces
    assert parse(statement[:start] + write + statement[end:]).views["v"].columns


@pytest.mark.parametrize("aggregate", ["sum", "stddev"])
@pytest.mark.parametrize(
    ("field", "write"),
    [
        ("at TIMESTAMP", "unix_seconds(at)"),
        ("day DATE", "datediff(day, DATE '1970-01-01')"),
        ("ok BOOLEAN", "CAST(ok AS INT)"),
        ("name STRING", "CAST(name AS DOUBLE)"),
    ],
)
def test_what_to_write_for_an_argument_that_is_no_number_is_accepted(aggregate, field, write):
    def view(argument: str) -> str:
        return f"CREATE STREAM s ({field}); CREATE MATERIALIZED VIEW v AS SELECT {aggregate}({argument}) AS x FROM s"

    with pytest.raises(DefinitionError) as failure:
        parse(view(field.split()[0]))
    assert str(failure.value).endswith(write)
    assert parse(view(write)).views["v"].columns


@pytest.mark.parametrize(
    "call", ["last({x})", "first({x}, 3)", "max_by({x}, n)", "collect_list({x})", "sample({x}, 3)"]
)
def test_aggregates_of_maps_take_one_of_their_values(call):
    def view(argument: str) -> str:
        item = call.format(x=argument)
        return f"CREATE STREAM s (m MAP<STRING, INT>, n INT); CREATE MATERIALIZED VIEW v AS SELECT {item} AS x FROM s"

    with wording.raises(DefinitionError):
        parse(view("m"))
    assert parse(view("m['key']")).views["v"].columns


@pytest.mark.parametrize("name", ["from_utc_timestamp", "to_utc_timestamp", "date_trunc", "time_bucket", "window"])
def test_calls_without_arguments(name):
    ((_, text), *_) = mistakes(
        f"CREATE MATERIALIZED VIEW v AS SELECT {name}() AS x, count(*) AS n FROM clicks GROUP BY x"
    )
    assert name in text


@pytest.mark.parametrize(
    ("name", "says"),
    [("Veiw", "'Veiw'; did you mean 'View'?"), ("mean", "'mean'; use hr.avg"), ("zzzz", "'zzzz'")],
)
def test_names_that_the_package_does_not_have(name, says):
    with pytest.raises(AttributeError) as failure:
        getattr(headrace, name)
    wording.check(failure.value, "headrace", says)
    assert not hasattr(headrace, "__nosuch__")


def test_respect_nulls_is_what_first_and_last_do():
    queries = ("first(url) RESPECT NULLS AS x", "first(url RESPECT NULLS) AS x", "first(url) AS x")
    first, second, third = (parse(f"{CLICKS}CREATE MATERIALIZED VIEW v AS SELECT {q} FROM clicks") for q in queries)
    assert first.views == second.views == third.views


def test_what_to_write_for_a_call_in_python():
    clicks = hr.Stream("clicks", "url STRING, ts TIMESTAMP", event_time="ts")
    with wording.raises(DefinitionError, "last(url)", "FILTER", "WHERE", "IS NOT NULL"):
        hr.View("v", clicks.group_by().agg(x="upper(last(url IGNORE NULLS))"))


def test_ignore_nulls_beside_a_filter():
    ((_, text),) = mistakes(
        "CREATE MATERIALIZED VIEW v AS SELECT last(url) IGNORE NULLS FILTER (WHERE dur_ms > 1) AS x FROM clicks"
    )
    wording.check(text, "IGNORE NULLS", "FILTER", "IS NOT NULL")


def test_a_mistake_in_an_expression_over_outputs_is_not_said_to_be_an_unknown_field():
    ((_, text),) = mistakes("CREATE MATERIALIZED VIEW v AS SELECT sum(dur_ms) AS s, s || 'x' AS t FROM clicks")
    wording.check(text, "BIGINT", "sum(dur_ms)", "CAST", "AS STRING")


@pytest.mark.parametrize(
    ("field", "says"),
    [
        ("b TIMESTAMP AS timestamp_millis(a)", "write CAST(a AS BIGINT)"),
        ("b BLOB", "the type BLOB is not supported; the nearest is STRING"),
        ("b NUMBER", "the type NUMBER is not supported; the nearest is DECIMAL(38,4)"),
        ("b TIMESTAMP AS to_timestamp(a, 'YYYY-MM-DD HH:mm')", "write 'yyyy-MM-dd HH:mm'"),
        ("b TIMESTAMP AS to_timestamp(a, 'yyyy-MM-DD HH:mm')", "write 'yyyy-MM-dd HH:mm'"),
    ],
)
def test_mistakes_of_fields_say_what_to_write(field, says):
    ((_, text),) = mistakes(f"CREATE STREAM s (a STRING, {field});")
    assert text.endswith(says)


def test_all_mistakes_of_a_stream():
    errors = mistakes(
        "CREATE STREAM s (a BYTES, _b INT, c INT DEFAULT 5, d INT PRIMARY KEY, e INT, E INT, "
        "f STRUCT<x: JSON, y: INT>, g STRING AS foo(e), h INT AS nosuch, i INT AS lower(a), j STRING, "
        "WATERMARK FOR j AS j - 5);"
    )
    says = [
        "the type BYTES is not supported",
        "'_b' cannot name a field",
        "DEFAULT is not supported",
        "stream 's' is a log of events",
        "stream 's': the field 'e' and 'E' is declared twice",
        "the type JSON is not supported",
        "the function foo is not available",
        "stream 's' has no field 'nosuch'",
        "this WATERMARK is not supported",
    ]
    assert [text[: len(expected)] for (_, text), expected in zip(errors, says, strict=True)] == says


def test_an_error_in_a_stream_causes_no_follow_up_errors():
    ((_, text),) = mistakes(
        "CREATE STREAM s (a BYTES, at TIMESTAMP; CREATE MATERIALIZED VIEW v AS SELECT sum(a) AS a FROM s; "
    )
    assert text.startswith("the type BYTES")
    ((_, text),) = mistakes("CREATE STREAM s (a INT b STRING, c DOUBLE);")
    wording.check(text, "b")
    ((_, text),) = mistakes("CREATE STREAM s (a INT, at BYTES, WATERMARK FOR at);")
    assert text.startswith("the type BYTES")
    ((_, text),) = mistakes("CREATE STREAM s (a BYTES, b STRING AS lower(a));")
    assert text.startswith("the type BYTES")


@pytest.mark.parametrize(
    "statement",
    [
        "SET 'parallelism.default' = '2'",
        "CREATE DEFAULT INDEX ON latest",
        "CREATE SECRET s AS 'x'",
        "SELECT * FROM clicks",
        "CREATE SOURCE s FROM KAFKA CONNECTION c (TOPIC 't') FORMAT JSON",
        "DROP TABLE old",
        "SELECT DISTINCT ON (url) url FROM clicks",
    ],
)
def test_a_statement_that_declares_nothing_hides_no_other_mistakes(statement):
    (_, second) = mistakes(f"{statement}; CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM clcks")
    wording.check(second[1], "v", "clcks", "clicks")


@pytest.mark.parametrize(
    "reader",
    [
        "CREATE MATERIALIZED VIEW v AS SELECT a, count(*) AS n FROM broken GROUP BY a",
        "CREATE STREAM d AS SELECT a FROM broken",
        "SELECT a, count(*) AS n FROM broken GROUP BY a",
        "CREATE SINK s AS SELECT a FROM broken WITH (connector = 'files', path = 'o')",
        "INSERT INTO d SELECT a FROM broken",
        "CREATE STREAM d AS SELECT url FROM clicks JOIN broken b ON url = b.a",
        "CREATE VIEW v AS SELECT a, count(*) AS n FROM broken GROUP BY a",
        "CREATE SINK s FROM broken WITH (connector = 'files', path = 'o')",
    ],
)
@pytest.mark.parametrize(
    "broken", ["CREATE STREAM broken (a STRNG)", "CREATE TEMPORARY TABLE broken (a STRING PRIMARY KEY)"]
)
def test_a_stream_with_a_mistake_is_not_said_to_be_missing(broken, reader):
    for texts in ((broken, reader), (reader, broken)):
        assert not [says for _, says in mistakes("; ".join(texts)) if "does not exist" in says]


def test_all_mistakes_of_a_python_view():
    clicks = hr.Stream("clicks", "url STRING, ts TIMESTAMP", event_time="ts")
    with pytest.raises(DefinitionError) as failure:
        hr.View(
            "v",
            clicks.where("nosuch > 1")
            .where("foo(url)")
            .group_by("bar(url) AS u", x="nokey")
            .agg(
                a=hr.sum("url"),
                b=hr.max("nofield"),
            ),
        )
    text = str(failure.value)
    for part in ("'nosuch'", "function foo", "function bar", "'nokey'", "sum takes a number", "'nofield'"):
        assert part in text
    assert {error.where.file for error in each(failure.value)} == {__file__}
    assert len(each(failure.value)) == 6


def test_all_mistakes_of_a_python_stream():
    with pytest.raises(DefinitionError) as failure:
        hr.Stream("s", "a BYTES, b JSON, c INT AS foo(1)")
    assert len(each(failure.value)) == 3
