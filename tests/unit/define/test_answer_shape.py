"""Expressions over aggregates, HAVING, ORDER BY and LIMIT in definitions; in SQL and in Python they are the same."""

# ruff: noqa: E501 - one case per line

from __future__ import annotations

import pytest

import headrace as hr
from headrace.define.catalog import parse
from headrace.define.fingerprint import fingerprint, from_json, to_json
from headrace.define.model import View
from headrace.define.outputs import outputs_of, written
from headrace.errors import DefinitionError
from headrace.plan.edits import classify, describe_view
from tests import wording

FIELDS = "page STRING, country STRING, status INT, bytes BIGINT, price DECIMAL(12,2), at TIMESTAMP NOT NULL"
STREAM = f"CREATE STREAM visits ({FIELDS}, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);\n"
visits = hr.Stream("visits", FIELDS, event_time="at", patience="1 minute")
MINUTE = "window(at, '1 minute')"


def view(select: str) -> View:
    return parse(f"{STREAM}CREATE MATERIALIZED VIEW v AS {select};").views["v"]


def query() -> hr.define.python.query.Query:  # type: ignore[name-defined]
    return visits.group_by("page", hr.window("1 minute"))


def test_an_expression_over_aggregates_is_an_output_and_its_aggregates_are_hidden() -> None:
    rate = view(
        f"SELECT page, count(*) AS n, 100.0 * count(*) FILTER (WHERE status >= 500) / count(*) AS errors FROM visits GROUP BY page, {MINUTE}"
    )
    assert [output.name for output in outputs_of(rate)] == ["n", "errors"]
    assert [column.name for column in rate.columns] == ["n", "count(*) FILTER (WHERE status >= 500)"]
    output = outputs_of(rate)[1]
    assert written(rate, output.expression) == "100.0 * count(*) FILTER (WHERE status >= 500) / count(*)"
    assert str(output.expression.type) == "DECIMAL(38,14)", "as in Spark"
    assert from_json(to_json(rate)) == rate


def test_plain_aggregates_have_no_shape() -> None:
    plain = view(f"SELECT page, count(*) AS n FROM visits GROUP BY page, {MINUTE}")
    assert plain.shape is None
    assert "shape" not in to_json(plain)
    assert view(f"SELECT page, count(*) AS n FROM visits GROUP BY page, {MINUTE} LIMIT ALL") == plain


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT page, sum(bytes) AS b, count(*) AS n, b / n AS m FROM visits GROUP BY page",
         "SELECT page, sum(bytes) AS b, count(*) AS n, sum(bytes) / count(*) AS m FROM visits GROUP BY page"),
        ("SELECT page, count(*) AS n FROM visits GROUP BY page HAVING n > 1 ORDER BY n DESC, page",
         "SELECT page, count(*) AS n FROM visits GROUP BY page HAVING (count(*) > 1) ORDER BY 2 DESC NULLS LAST, 1 ASC NULLS FIRST"),
        ("SELECT upper(page) AS p, max(bytes) AS x FROM visits GROUP BY upper(page) HAVING p <> 'A'",
         "SELECT upper(page) AS p, max(bytes) AS x FROM visits GROUP BY p HAVING upper(page) <> 'A'"),
        (f"SELECT page, window_start AS w, count(*) AS n FROM visits GROUP BY page, {MINUTE} ORDER BY w DESC",
         f"SELECT page, window.start AS w, count(*) AS n FROM visits GROUP BY page, {MINUTE} ORDER BY window_start DESC"),
        ("SELECT page, date_trunc('hour', at) AS h, count(*) AS n FROM visits GROUP BY ALL ORDER BY h DESC, n DESC",
         "SELECT page, date_trunc('hour', at) AS h, count(*) AS n FROM visits GROUP BY 1, 2 ORDER BY date_trunc('hour', at) DESC, 3 DESC"),
    ],
)  # fmt: skip
def test_other_words_for_the_same_view(one: str, other: str) -> None:
    assert view(one) == view(other)


def test_sql_and_python_make_the_same_view() -> None:
    sql = view(
        f"SELECT page, count(*) AS hits, count(*) FILTER (WHERE status >= 500) AS errors, 100.0 * errors / hits AS rate, round(avg(bytes), 1) AS mean "
        f"FROM visits GROUP BY page, {MINUTE} HAVING hits > 5 AND max(bytes) > 10 ORDER BY rate DESC, page LIMIT 10"
    )
    python = hr.View(
        "v",
        query()
        .agg(hits=hr.count(), errors=hr.count(where="status >= 500"), rate="100.0 * errors / hits", mean="round(avg(bytes), 1)")
        .having("hits > 5").having("max(bytes) > 10").order_by("rate DESC", "page").limit(10),
    )  # fmt: skip
    assert python == sql
    assert fingerprint(python) == fingerprint(sql)
    assert hr.View("v", query().agg(n="count(*)")) == view(
        f"SELECT page, count(*) AS n FROM visits GROUP BY page, {MINUTE}"
    )


@pytest.mark.parametrize(
    ("make", "values"),
    [
        (lambda: query().agg(n=hr.count(), m="n / nosuch"), ("v", "nosuch")),
        (lambda: query().agg(n=hr.count(), m="n / status"), ("GROUP BY",)),
        (lambda: query().agg(n=hr.count()).having("n"), ("HAVING", "BIGINT", "count(*)")),
        (
            lambda: query().agg(n=hr.count()).order_by("1"),
            ("ORDER BY", "1"),
        ),
        (lambda: query().agg(n=hr.count()).order_by("n DOWN"), ("DOWN",)),
        (lambda: query().agg(n=hr.count()).limit(0), ("LIMIT", "10,000")),
        (lambda: query().agg(n=hr.count()).limit("5"), ("5",)),
        (lambda: query().agg(n=5), ("n",)),
    ],
)
def test_mistakes_in_python(make: object, values: tuple[str, ...]) -> None:
    with pytest.raises(DefinitionError) as error:
        hr.View("v", make())  # type: ignore[operator]
    wording.check(error.value, *values)


BASE = f"SELECT page, count(*) AS n, sum(bytes) AS b FROM visits GROUP BY page, {MINUTE}"


@pytest.mark.parametrize(
    ("before", "after", "how", "texts"),
    [
        (BASE, f"{BASE} HAVING n > 5", "free", ["having: all rows → count(*) > 5"]),
        (f"{BASE} HAVING n > 5", BASE, "free", ["having: count(*) > 5 → all rows"]),
        (BASE, f"{BASE} ORDER BY n DESC LIMIT 10", "free", ["order: by window and key → n DESC", "limit: none → 10"]),
        (BASE, BASE.replace("AS b", "AS b, b / n AS mean"), "free", ["column added: sum(bytes) / count(*) AS mean"]),
        (BASE, BASE.replace("AS b", "AS b, b / max(bytes) AS m"), "build", ["column added: sum(bytes) / max(bytes) AS m, which needs max(bytes)"]),
        (BASE, f"{BASE} HAVING max(bytes) > 5", "build", ["having: all rows → max(bytes) > 5, which needs max(bytes)"]),
        (BASE.replace("AS b", "AS b, b / n AS mean"), BASE.replace("AS b", "AS b, b * 2 AS mean"), "free",
         ["column changed: sum(bytes) / count(*) AS mean → sum(bytes) * 2 AS mean"]),
        (BASE.replace("AS b", "AS b, b / n AS mean"), BASE.replace("sum(bytes) AS b", "sum(bytes) / count(*) AS mean"), "free",
         ["column removed: sum(bytes) AS b"]),
        (BASE.replace("AS b", "AS b, b / n AS mean"), BASE.replace("AS b", "AS b, b / n AS average"), "free",
         ["column renamed: sum(bytes) / count(*) AS mean → average"]),
    ],
)  # fmt: skip
def test_edits_of_a_shape(before: str, after: str, how: str, texts: list[str]) -> None:
    edit = classify(view(before), view(after))
    assert (edit.how, list(edit.texts)) == (how, texts)


def test_a_plan_describes_the_shape() -> None:
    lines = list(describe_view(view(f"{BASE} HAVING n > 5 ORDER BY b / n DESC NULLS FIRST, page LIMIT 3")))
    assert lines[-3:] == ["having: count(*) > 5", "order: sum(bytes) / count(*) DESC NULLS FIRST, page", "limit: 3"]


def test_a_key_may_be_in_an_expression() -> None:
    mixed = view(
        "SELECT lower(page) AS page, concat(lower(page), ':', country) AS label, count(*) AS n FROM visits GROUP BY lower(page), country"
    )
    assert next((output.name, output.expression.sql) for output in outputs_of(mixed)) == (
        "label",
        "concat(page, ':', country)",
    )


def test_a_nested_result_may_be_indexed() -> None:
    with wording.raises(DefinitionError):
        view("SELECT page, max(bytes)[0] AS m FROM visits GROUP BY page")
