"""Logical views: what CREATE VIEW and hr.LogicalView accept, what they make, and what they refuse."""

# ruff: noqa: E501 - one statement per line

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.define.catalog import Catalog, load, parse
from headrace.define.fingerprint import fingerprint, from_json, to_json
from headrace.define.logical_views import check_again
from headrace.errors import DefinitionError
from headrace.plan.differences import compare
from headrace.types import BIGINT, BOOLEAN, DOUBLE, STRING, TIMESTAMP
from tests import wording

BASE = """
CREATE STREAM clicks (user_id STRING, url STRING, country STRING, bytes BIGINT, ts TIMESTAMP NOT NULL,
  WATERMARK FOR ts AS ts - INTERVAL 5 SECONDS);
CREATE MATERIALIZED VIEW per_min AS SELECT country, url, count(*) AS n, approx_count_distinct(user_id) AS users,
  approx_percentile(bytes, 0.95) AS p95 FROM clicks GROUP BY country, url, window(ts, '1 minute');
CREATE MATERIALIZED VIEW totals AS SELECT country, sum(bytes) AS bytes FROM clicks GROUP BY country;
"""
TOP = """SELECT * FROM (SELECT country, url, n, window_start,
  row_number() OVER (PARTITION BY country, window_start ORDER BY n DESC) AS rank FROM per_min) WHERE rank <= 3"""


def declare(*views: str) -> Catalog:
    return parse(BASE + "".join(f"{view};\n" for view in views))


@pytest.mark.parametrize(
    ("query", "columns", "reads"),
    [
        ("SELECT country, max(n) AS peak FROM per_min GROUP BY country", {"country": STRING, "peak": BIGINT}, ("per_min",)),
        (TOP, {"country": STRING, "url": STRING, "n": BIGINT, "window_start": TIMESTAMP, "rank": BIGINT}, ("per_min",)),
        ("SELECT p.url, n / t.bytes AS share, p.settled AND p.country = 'de' AS ok FROM PER_MIN p JOIN totals t "
         "USING (country)", {"url": STRING, "share": DOUBLE, "ok": BOOLEAN}, ("per_min", "totals")),
        ("WITH per_min AS (SELECT country, sum(n) AS n FROM per_min GROUP BY 1), b AS (SELECT * FROM per_min) "
         "SELECT * FROM b ORDER BY n DESC LIMIT 3", {"country": STRING, "n": BIGINT}, ("per_min",)),
        ("SELECT country FROM totals UNION SELECT url FROM per_min", {"country": STRING}, ("totals", "per_min")),
        ("SELECT approx_count_distinct_merge(users) AS users, approx_percentile_merge(p95, 0.5) AS p FROM per_min",
         {"users": BIGINT, "p": DOUBLE}, ("per_min",)),
        ("SELECT n FROM per_min WHERE country = 'a;b' AND url !~~ '%\\%' AND n & 1 = 0 -- ; end",
         {"n": BIGINT}, ("per_min",)),
    ],
)  # fmt: skip
def test_columns_types_and_reads(query, columns, reads):
    view = declare(f"CREATE VIEW x AS {query}").logical["x"]
    assert dict(view.columns) == columns
    assert view.reads == reads
    assert view.ordered == ("ORDER BY n DESC LIMIT" in query)
    assert from_json(to_json(view)) == view


def test_views_over_views_in_any_order():
    catalog = declare("CREATE VIEW a AS SELECT * FROM b", "CREATE VIEW b AS SELECT country, n FROM per_min")
    assert list(catalog.logical) == ["b", "a"]
    assert catalog.logical["a"].reads == ("b",)


@pytest.mark.parametrize(
    ("query", "place", "values"),
    [
        ("SELECT contry FROM per_min", 25, ('x', 'contry', 'country')),
        ("SELECT p.contry FROM per_min p", 25, ('contry', 'country')),
        ("SELECT zzz FROM totals", 25, ('zzz', 'window_start', 'window_end')),
        ("SELECT 'é' AS e, contry FROM per_min", 35, ('contry',)),
        ("SELECT * FROM totals JOIN per_min USING (cuntry)", 59, ('cuntry', 'country')),
        ("SELECT date_format(window_start, 'y') FROM per_min", 25, ('date_format',)),
        ("SELECT rond(n) FROM per_min", 25, ('rond', 'round')),
        ("SELECT zzzzq(n) FROM per_min", 25, ('headrace sql',)),
        ("SELECT country, max(n) FROM per_min", 25, ('country', 'GROUP BY')),
        ("SELECT country + n FROM per_min", 33, ('VARCHAR', 'BIGINT')),
        ("SELECT country FROM per_min, totals", 25, ('country', 'per_min')),
        ("SELECT q.n FROM per_min", 25, ('q', 'FROM')),
        ("SELECT n FROM per_min WHERE", 40, ('WHERE',)),
        ("SELECT n FROM per_min ORDER BY;", 46, ('BY',)),
        ("SELECT max(n FROM per_min", 31, ('FROM',)),
        ("SELECT n AS at, at FROM per_min", 34, ('AT',)),
        ("SELECT max(to) FROM per_min", 29, ('TO',)),
        ("SELECT * FROM per_mn", 32, ('x', 'per_mn', 'per_min')),
        ("SELECT * FROM x", 32, ('x',)),
        ("SELECT 1", 18, ('x',)),
        ("SELECT n, n AS N FROM per_min", 13, ('n', 'N')),
        ("SELECT INTERVAL 1 DAY AS i FROM per_min", 18, ('i', 'INTERVAL')),
        ("SELECT * FROM read_csv('x')", 18, ('read_csv',)),
        ("DELETE FROM per_min", 18, ('SELECT',)),
        ("SELECT * FROM main.per_min", 18, ('main.per_min',)),
        ("SELECT approx_count_distinct_merge(n) FROM per_min", 18, ('n sketch',)),
        ("SELECT url FROM clicks", 8, ('CREATE STREAM', 'AS SELECT', 'FROM')),
        ("SELECT url, count(*) AS n FROM clicks GROUP BY url, window(ts, '1 hour')", 8, ('CREATE MATERIALIZED VIEW', 'AS SELECT', 'count(*)')),
        ("SELECT max(bytes) AS n FROM clicks", 8, ('CREATE MATERIALIZED VIEW', 'AS')),
    ],
)  # fmt: skip
def test_mistakes_have_place_and_fix(query, place, values):
    with pytest.raises(DefinitionError) as error:
        declare(f"CREATE VIEW x AS {query}")
    wording.check(error.value, *values)
    assert (error.value.where.line, error.value.where.column) == (7, place)


def test_a_cycle_is_refused():
    with wording.raises(DefinitionError, "b"):
        declare("CREATE VIEW a AS SELECT * FROM b", "CREATE VIEW b AS SELECT * FROM a")


def test_the_reader_of_a_broken_view_is_no_second_mistake():
    with pytest.raises(DefinitionError) as error:
        declare("CREATE VIEW a AS SELECT * FROM b", "CREATE VIEW b AS SELECT zz FROM per_min")
    assert "'zz'" in str(error.value)
    assert "'a'" not in str(error.value)


@pytest.mark.parametrize("view", ["per_min", "peak"])
def test_a_materialized_view_over_a_view_is_refused_with_the_logical_one(view):
    peak = "CREATE VIEW peak AS SELECT country, max(n) AS n FROM per_min GROUP BY country"
    query = f"SELECT country, max(n) AS m FROM {view} GROUP BY country"
    text = f"{BASE}{peak};\nCREATE MATERIALIZED VIEW x SCHEDULE EVERY 1 HOUR AS {query}"
    with pytest.raises(DefinitionError) as error:
        parse(text)
    wording.check(error.value, "CREATE VIEW", "AS SELECT", "max(n)", "FROM", "GROUP BY")
    start, end = error.value.replaces
    assert "x" in parse(text[:start] + error.value.write + text[end:]).logical


@pytest.mark.parametrize(
    "statement",
    ["CREATE SINK s FROM peak WITH (connector = 'files', path = '/tmp/x')", "CREATE ALERT s AS SELECT * FROM peak WHERE n > 1"],
)  # fmt: skip
def test_sinks_and_alerts_read_no_logical_view(statement):
    with wording.raises(DefinitionError, "s", "peak"):
        declare("CREATE VIEW peak AS SELECT country, max(n) AS n FROM per_min GROUP BY country", statement)


def test_python_and_sql_make_equal_views(tmp_path: Path):
    (tmp_path / "a.sql").write_text(BASE)
    (tmp_path / "b.py").write_text(f'import headrace as hr\nhr.LogicalView("top", """\n{TOP};\n""")\n')
    made = load(tmp_path).logical["top"]
    assert made == declare(f"CREATE VIEW top AS {TOP}").logical["top"]
    assert fingerprint(made) == fingerprint(declare(f"CREATE VIEW top AS {TOP}").logical["top"])


def test_a_mistake_in_a_logical_view_has_its_line(tmp_path: Path):
    (tmp_path / "a.sql").write_text(BASE)
    (tmp_path / "b.py").write_text('import headrace as hr\n\nhr.LogicalView("top", "SELECT m FROM per_min")\n')
    with wording.raises(DefinitionError, "3:1", "top", "m"):
        load(tmp_path)


def test_a_plan_of_logical_views_is_free():
    peak = "CREATE VIEW peak AS SELECT country, max(n) AS n FROM per_min GROUP BY country"
    top = "CREATE VIEW top AS SELECT * FROM peak"
    both, none = declare(peak, top), declare()
    created = compare(none, both).changes
    assert [(c.kind, c.what, c.name, c.how) for c in created] == [
        ("create", "logical view", "peak", "free"),
        ("create", "logical view", "top", "free"),
    ]
    assert [(c.kind, c.name) for c in compare(both, none).changes] == [("drop", "top"), ("drop", "peak")]
    edited = declare(peak.replace("max(n) AS n", "avg(n) AS n, min(n) AS low"), top)
    changes = {change.name: change.details for change in compare(both, edited).changes}
    assert changes["peak"] == ("column n: BIGINT → DOUBLE", "column added: low: BIGINT", "query changed")
    assert changes["top"] == ("column n: BIGINT → DOUBLE", "column added: low: BIGINT")
    assert compare(both, declare(peak, top)).empty


def test_a_column_that_a_logical_view_uses_cannot_be_renamed_or_dropped():
    peak = "CREATE VIEW peak AS SELECT country, max(n) AS n FROM per_min GROUP BY country;\n"
    with wording.raises(DefinitionError, "peak", "n"):
        parse(BASE.replace("count(*) AS n", "count(*) AS hits") + peak)
    with wording.raises(DefinitionError, "peak", "per_min"):
        parse(BASE.replace("per_min", "per_minute_").replace("per_minute_", "hits_by_minute") + peak)


def test_logical_views_are_checked_again_when_a_view_takes_another_form():
    catalog = declare("CREATE VIEW peak AS SELECT country, max(n) AS n FROM per_min GROUP BY country")
    wider = parse(BASE.replace("count(*) AS n", "avg(bytes) AS n")).views
    assert dict(check_again(catalog.logical.values(), wider)["peak"].columns)["n"] == DOUBLE
    with wording.raises(DefinitionError, "n"):
        check_again(catalog.logical.values(), parse(BASE.replace("count(*) AS n", "count(*) AS m")).views)
