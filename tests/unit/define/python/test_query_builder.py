"""Derived streams in Python: the same objects as in SQL, and mistakes with the place in the Python file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headrace as hr
from headrace.define.catalog import Catalog, load, parse
from headrace.define.fingerprint import fingerprint
from headrace.errors import DefinitionError
from tests import wording

CLICKS = """CREATE STREAM clicks (user_id STRING NOT NULL, url STRING, country STRING, dur_ms BIGINT,
price DECIMAL(12,2), tags ARRAY<STRING>, labels MAP<STRING, INT>, ts TIMESTAMP NOT NULL,
WATERMARK FOR ts AS ts - INTERVAL 5 SECOND);
CREATE STREAM app_clicks (who STRING, url STRING, ts TIMESTAMP NOT NULL, WATERMARK FOR ts AS ts);
"""
PYTHON = """
import headrace as hr
clicks = hr.Stream("clicks", "user_id STRING NOT NULL, url STRING, country STRING, dur_ms BIGINT, price DECIMAL(12,2), "
    "tags ARRAY<STRING>, labels MAP<STRING, INT>, ts TIMESTAMP NOT NULL", event_time="ts", patience="5 seconds")
app_clicks = hr.Stream("app_clicks", "who STRING, url STRING, ts TIMESTAMP NOT NULL", event_time="ts")
"""
CASES = {
    "where": ("SELECT * FROM clicks WHERE dur_ms > 1000", "clicks.where('dur_ms > 1000')"),
    "two conditions": (
        "SELECT * FROM clicks WHERE dur_ms > 1000 AND (url = 'a' OR url = 'b')",
        "clicks.where('dur_ms > 1000').where(\"url = 'a' OR url = 'b'\")",
    ),
    "select": (
        "SELECT url, lower(country) AS country, dur_ms / 1000.0 AS secs FROM clicks WHERE dur_ms > 0",
        "clicks.where('dur_ms > 0').select('url', 'lower(country) AS country', secs='dur_ms / 1000.0')",
    ),
    "star": ("SELECT *, dur_ms / 1000.0 AS secs FROM clicks", "clicks.select('*', secs='dur_ms / 1000.0')"),
    "with_columns": (
        "SELECT * REPLACE (upper(url) AS url), dur_ms + 1 AS longer FROM clicks",
        "clicks.with_columns(longer='dur_ms + 1', URL='upper(url)')",
    ),
    "drop": ("SELECT * EXCEPT (tags, labels) FROM clicks", "clicks.drop('tags', 'LABELS')"),
    "explode": (
        "SELECT tag, ts FROM clicks LATERAL VIEW explode(tags) t AS tag WHERE tag <> ''",
        "clicks.explode('tags', as_='tag').where(\"tag <> ''\").select('tag', 'ts')",
    ),
    "explode a map": (
        "SELECT k, v, n FROM clicks LATERAL VIEW OUTER posexplode(labels) t AS n, k, v",
        "clicks.explode('labels', as_=('k', 'v'), outer=True, position='n').select('k', 'v', 'n')",
    ),
    "union": (
        "SELECT user_id, url, 'web' AS source FROM clicks UNION ALL SELECT who, url, 'app' FROM app_clicks",
        "clicks.select('user_id', 'url', source=\"'web'\").union(app_clicks.select('who', 'url', source=\"'app'\"))",
    ),
    "union with NULL": (
        "SELECT ts, url, NULL AS who FROM clicks UNION ALL SELECT ts, NULL, who FROM app_clicks",
        "clicks.select('ts', 'url', who='NULL').union(app_clicks.select('ts', 'NULL AS page', 'who'))",
    ),
    "the time of arrival": (
        "SELECT url, ts, unix_millis(_arrived) - unix_millis(ts) AS lag FROM clicks WHERE _arrived > ts",
        "clicks.where('_arrived > ts').select('url', 'ts', lag='unix_millis(_arrived) - unix_millis(ts)')",
    ),
    "sample": ("SELECT * FROM clicks TABLESAMPLE (10 PERCENT)", "clicks.sample(10)"),
    "sample by key": (
        "SELECT * FROM clicks TABLESAMPLE (2.5 PERCENT) BY (user_id, lower(url)) REPEATABLE (7)",
        "clicks.sample(2.5, by=('user_id', 'lower(url)'), seed=7)",
    ),
    "a sample of a query": (
        "SELECT * FROM (SELECT url, ts FROM clicks WHERE dur_ms > 0) TABLESAMPLE BERNOULLI (50) s WHERE s.url <> ''",
        "clicks.where('dur_ms > 0').select('url', 'ts').sample(50).where(\"url <> ''\")",
    ),
}


def in_python(text: str, folder: Path) -> Catalog:
    (folder / "definitions.py").write_text(PYTHON + text)
    return load(folder)


@pytest.mark.parametrize("case", CASES)
def test_streams_are_those_of_sql(case: str, tmp_path: Path) -> None:
    sql, python = CASES[case]
    ours = in_python(f"hr.Stream('derived', {python})\n", tmp_path).streams["derived"]
    theirs = parse(f"{CLICKS}CREATE STREAM derived AS {sql};").streams["derived"]
    assert ours == theirs
    assert fingerprint(ours) == fingerprint(theirs)


@pytest.mark.parametrize("case", CASES)
def test_views_over_queries_and_over_streams_are_those_of_sql(case: str, tmp_path: Path) -> None:
    sql, python = CASES[case]
    view = "count(*) AS n FROM ({}) GROUP BY window(ts, '1 minute')"
    if case in ("select", "explode a map", "union"):  # they do not select the time: the window is of the one carried
        view = "count(*) AS n FROM ({})"
    group = "" if view.endswith("{})") else ".group_by(hr.window('1 minute'))"
    catalog = in_python(
        f"derived = hr.Stream('derived', {python})\nrows = {python}\n"
        f"hr.View('direct', rows{group}.agg(n=hr.count()))\nhr.View('through', derived{group}.agg(n=hr.count()))\n",
        tmp_path,
    )
    theirs = parse(f"{CLICKS}CREATE MATERIALIZED VIEW direct AS SELECT {view.format(sql)};").views["direct"]
    if case != "a sample of a query":  # its last condition is that of the view here, and of the subquery in SQL
        assert catalog.views["direct"] == theirs
    assert fingerprint(catalog.views["through"]) == fingerprint(
        parse(f"{CLICKS}CREATE MATERIALIZED VIEW through AS SELECT {view.format(sql)};").views["through"]
    )


def test_the_event_time_may_be_set_anew(tmp_path: Path) -> None:
    text = "hr.Stream('later', clicks.select('url', shown=\"ts + INTERVAL 1 HOUR\"), event_time='shown', patience='9s')"
    ours = in_python(text, tmp_path).streams["later"]
    theirs = parse(
        f"{CLICKS}CREATE STREAM later (WATERMARK FOR shown AS shown - INTERVAL 9 SECOND) AS "
        "SELECT url, ts + INTERVAL 1 HOUR AS shown FROM clicks;"
    ).streams["later"]
    assert ours == theirs


@pytest.fixture
def clicks() -> Any:
    return hr.Stream("clicks", "url STRING, dur_ms BIGINT, tags ARRAY<STRING>, ts TIMESTAMP NOT NULL", event_time="ts")


@pytest.mark.parametrize(
    ("declare", "values"),
    [
        (lambda clicks: hr.Stream("x", clicks.select("ulr")), ()),
        (lambda clicks: hr.Stream("x", clicks.select("dur_ms + 1")), ('select(name="dur_ms + 1")',)),
        (lambda clicks: hr.Stream("x", clicks.where("dur_ms")), ()),
        (lambda clicks: hr.Stream("x", clicks.drop("ur")), ("ur",)),
        (lambda clicks: hr.Stream("x", clicks.drop("url", "dur_ms", "tags", "ts")), ()),
        (lambda clicks: hr.Stream("x", clicks.explode("url", as_="u")), ()),
        (lambda clicks: hr.Stream("x", clicks.select("url").union(clicks)), ("UNION ALL", "2", "4")),
        (lambda clicks: hr.Stream("x", clicks.union("clicks")), ()),
        (lambda clicks: hr.Stream("x", clicks.sample(0)), ()),
        (lambda clicks: hr.Stream("x", clicks.sample("10")), ()),
        (lambda clicks: hr.Stream("x", clicks.sample(10, by="tags")), ()),
        (lambda clicks: hr.Stream("x", clicks.sample(10, seed=-1)), ()),
        (lambda clicks: hr.Stream("x", clicks.map("nothing")), ("nothing",)),
        (lambda clicks: hr.Stream("x", clicks.select()), ()),
        (lambda clicks: hr.Stream("x", clicks.group_by("url").agg(n=hr.count())), ()),
        (lambda clicks: clicks.group_by("url").select("url"), ()),
        (lambda clicks: hr.Stream("x", clicks, patience="5s"), ("event_time",)),
        (lambda clicks: hr.Stream("x", clicks, event_time="url"), ("url", "STRING")),
        (lambda clicks: hr.Stream("x", clicks, format="text"), ("x",)),
    ],
)
def test_each_mistake_in_rows_points_at_the_users_line(
    clicks: Any, declare: Callable[[Any], object], values: tuple[str, ...]
) -> None:
    with pytest.raises(DefinitionError) as caught:
        declare(clicks)
    wording.check(caught.value, *values)
    assert caught.value.where is not None
    assert caught.value.where.file == __file__
