"""Joins to tables in definitions: what is read, and each mistake with its place."""

from __future__ import annotations

import re

import pytest

import headrace as hr
from headrace.define.catalog import parse
from headrace.define.fingerprint import from_json, to_json
from headrace.define.model import View
from headrace.define.relation import Join
from headrace.errors import DefinitionError
from headrace.plan.differences import compare
from tests import wording

BASE = """
CREATE STREAM clicks (user_id STRING NOT NULL, n INT, url STRING, ts TIMESTAMP NOT NULL, WATERMARK FOR ts AS ts);
CREATE STREAM other (user_id STRING, x BIGINT);
CREATE TABLE users (id STRING PRIMARY KEY, plan STRING, city STRING, n INT);
CREATE TABLE places (country STRING, code BIGINT, name STRING, PRIMARY KEY (country, code));
CREATE TABLE latest PRIMARY KEY (user_id) AS SELECT user_id, x FROM other;
"""


def view_of(body: str) -> View:
    return parse(f"{BASE} CREATE MATERIALIZED VIEW v AS SELECT count(*) AS hits {body};").views["v"]


def joins_of(body: str) -> list[Join]:
    view = view_of(body)
    assert view.relation is not None
    assert from_json(to_json(view)) == view
    return list(view.relation.branches[0].joins)


def test_a_join_reads_only_what_is_used() -> None:
    (join,) = joins_of("FROM clicks c LEFT JOIN users u ON c.user_id = u.id AND u.plan = 'pro' WHERE u.city = 'x'")
    assert (join.table, join.kind) == ("users", "left")
    assert [(of.sql, column) for of, column in join.keys] == [("user_id", "id")]
    assert [column for _, column, _ in join.columns] == ["plan", "city"]
    assert join.condition is not None
    assert join.condition.sql == "plan = 'pro'"


def test_spellings_of_one_join() -> None:
    same = [
        "FROM clicks JOIN users ON users.id = clicks.user_id WHERE plan = 'pro'",
        "FROM clicks c INNER JOIN users AS u ON c.user_id = id WHERE u.plan = 'pro'",
        "FROM clicks c JOIN users FOR SYSTEM_TIME AS OF PROCTIME() AS u ON c.user_id = u.id WHERE u.plan = 'pro'",
    ]
    first, *others = map(view_of, same)
    assert all(other == first for other in others)
    assert view_of("FROM clicks c LEFT SEMI JOIN users u ON c.user_id = u.id") == view_of(
        "FROM clicks c WHERE EXISTS (SELECT 1 FROM users u WHERE u.id = c.user_id)"
    )


def test_a_table_made_of_a_stream_is_joined_by_its_log() -> None:
    (join,) = joins_of("FROM clicks c JOIN latest l ON l.user_id = c.user_id WHERE l.x > 3")
    assert join.log.stream == "other"
    assert join.log.relation is not None
    before = view_of("FROM clicks c JOIN latest l ON l.user_id = c.user_id")
    changed = BASE.replace("SELECT user_id, x FROM other", "SELECT user_id, x FROM other WHERE x > 1")
    body = "FROM clicks c JOIN latest l ON l.user_id = c.user_id"
    after = parse(f"{changed} CREATE MATERIALIZED VIEW v AS SELECT count(*) AS hits {body};").views["v"]
    assert before != after, "another SELECT of the table is another view"


def test_several_keys_and_types() -> None:
    (join,) = joins_of("FROM clicks c JOIN places p ON p.code = c.n AND c.url = p.country")
    assert [(of.sql, column) for of, column in join.keys] == [("url", "country"), ("CAST(n AS BIGINT)", "code")]


TYPES = """
CREATE STREAM s (x DOUBLE, f FLOAT, n INT, b BIGINT, dec DECIMAL(10,2), d DATE, t TIMESTAMP, flag BOOLEAN, text STRING);
CREATE TABLE by_double (k DOUBLE PRIMARY KEY, v INT);
CREATE TABLE by_bigint (k BIGINT PRIMARY KEY, v INT);
CREATE TABLE by_decimal (k DECIMAL(12,4) PRIMARY KEY, v INT);
CREATE TABLE by_wide (k DECIMAL(38,30) PRIMARY KEY, v INT);
CREATE TABLE by_date (k DATE PRIMARY KEY, v INT);
CREATE TABLE by_time (k TIMESTAMP PRIMARY KEY, v INT);
CREATE TABLE by_flag (k BOOLEAN PRIMARY KEY, v INT);
CREATE TABLE by_text (k STRING PRIMARY KEY, v INT);
"""


@pytest.mark.parametrize(
    ("table", "value", "compared"),
    [
        ("by_double", "x", "DOUBLE"),
        ("by_bigint", "n", "BIGINT"),
        ("by_bigint", "dec", "DECIMAL(22,2)"),
        ("by_decimal", "dec", "DECIMAL(12,4)"),
        ("by_decimal", "b", "DECIMAL(24,4)"),
        ("by_date", "d", "DATE"),
        ("by_time", "t", "TIMESTAMP"),
        ("by_flag", "flag", "BOOLEAN"),
        ("by_text", "text", "STRING"),
        ("by_bigint", "text", "text cannot be compared with by_bigint.k; found STRING; expected BIGINT"),
        ("by_text", "b", "b cannot be compared with by_text.k; found BIGINT; expected STRING"),
        ("by_double", "n", "n cannot be compared with by_double.k; found INT; expected DOUBLE"),
        ("by_double", "dec", "cast it, as in CAST(dec AS DOUBLE)"),
        ("by_date", "t", "t cannot be compared with by_date.k; found TIMESTAMP; expected DATE"),
        ("by_time", "d", "cast it, as in CAST(d AS TIMESTAMP)"),
        ("by_wide", "b", "b cannot be compared with by_wide.k; found BIGINT; expected DECIMAL(38,30)"),
    ],
)
def test_types_of_keys(table: str, value: str, compared: str) -> None:
    sql = f"{TYPES} CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM s JOIN {table} t ON t.k = s.{value};"
    if " " in compared:
        with pytest.raises(DefinitionError) as error:
            parse(sql)
        assert compared in str(error.value)
        return
    relation = parse(sql).views["v"].relation
    assert relation is not None
    assert str(relation.branches[0].joins[0].keys[0][0].type) == compared


def test_a_table_is_joined_twice() -> None:
    first, second = joins_of(
        "FROM clicks c JOIN users a ON a.id = c.user_id LEFT JOIN users b ON b.id = a.city WHERE a.plan <> b.plan"
    )
    assert (first.log, [column for _, column, _ in first.columns]) == (second.log, ["plan", "city"])
    assert [name for name, _, _ in second.columns] != [name for name, _, _ in first.columns][:1]
    assert second.keys[0][0].sql == "city"
    # One of the two needs no alias: the name of the table means that one.
    assert view_of("FROM clicks c JOIN users a ON a.id = c.user_id WHERE a.n = 1") == view_of(
        "FROM clicks c JOIN users ON users.id = c.user_id WHERE users.n = 1"
    )
    joins_of("FROM clicks c JOIN users a ON a.id = c.user_id JOIN users ON users.id = a.city WHERE users.plan = 'x'")


def test_null_is_never_outside_of_a_list() -> None:
    view = view_of("FROM clicks WHERE url NOT IN (SELECT id FROM users)")
    assert view.relation is not None
    assert [type(step).__name__ for step in view.relation.branches[0].steps] == ["Join", "Filter"]


@pytest.mark.parametrize(
    ("body", "values"),
    [
        ("FROM clicks c JOIN users u ON c.url = u.plan", ()),
        ("FROM clicks c JOIN places p ON c.n = p.code", ()),
        ("FROM clicks c JOIN users u ON c.user_id > u.id", ()),
        ("FROM clicks c JOIN users u ON c.url = u.id JOIN users u ON c.user_id = u.id", ('FROM', 'u')),
        ("FROM clicks c JOIN traffic u ON c.url = u.url", ('traffic',)),
        ("FROM clicks c JOIN userz u ON c.user_id = u.id", ('userz', 'users')),
        ("FROM clicks c JOIN users u ON c.user_id = u.id WHERE u.plann = 'x'", ('u', 'plann')),
        ("FROM clicks c JOIN users u ON c.user_id = u.id WHERE n = 1", ('n',)),
        ("FROM clicks c JOIN users u ON c.user_id = u.id WHERE n = 1", ()),
        ("FROM other o JOIN latest l ON user_id = o.user_id", ('user_id',)),
        ("FROM clicks c JOIN users a ON a.id = c.url JOIN users b ON b.id = a.city WHERE plan = 1", ()),
        ("FROM clicks c JOIN users a ON a.id = c.url JOIN users b ON b.id = a.city WHERE users.n = 1", ()),
        ("FROM clicks c JOIN users c ON c.id = c.user_id", ('FROM', 'c')),
        ("FROM clicks c JOIN users ON id = url JOIN users ON id = city", ('FROM', 'users')),
        ("FROM clicks c JOIN users u ON c.user_id = u.id OR c.n = 1", ()),
        ("FROM clicks c JOIN users u ON c.n = u.id", ('INT', 'STRING')),
        ("FROM clicks c JOIN other o ON c.user_id = o.user_id", ('other',)),
        ("FROM clicks c RIGHT JOIN users u ON c.user_id = u.id", ('LEFT JOIN',)),
        ("FROM clicks c FULL OUTER JOIN users u ON c.user_id = u.id", ('LEFT JOIN',)),
        ("FROM clicks c NATURAL JOIN users", ('NATURAL JOIN',)),
        ("FROM clicks c CROSS JOIN users", ('CROSS JOIN',)),
        ("FROM clicks c JOIN users u", ('ON',)),
        ("FROM clicks c JOIN (SELECT * FROM other) o ON c.user_id = o.user_id", ()),
        ("FROM other o JOIN users FOR SYSTEM_TIME AS OF o._arrived u ON o.user_id = u.id", ('other',)),
        ("FROM clicks c JOIN users FOR SYSTEM_TIME AS OF c.n u ON c.user_id = u.id", ('TIMESTAMP',)),
        ("FROM clicks c JOIN users u ON c.user_id = u.id WHERE z.n = 1", ()),
        ("FROM clicks c JOIN users u USING (id)", ('USING', 'id')),
        ("FROM clicks WHERE (user_id, n) IN (SELECT id FROM users)", ('AND',)),
        ("FROM clicks c JOIN users USING (plan)", ('USING', 'plan')),
        ("FROM clicks WHERE n = 1 OR user_id IN (SELECT id FROM users)", ('IN', 'SELECT')),
        ("FROM clicks WHERE user_id IN (SELECT plan FROM users)", ()),
        ("FROM clicks WHERE user_id IN (SELECT country FROM places)", ('EXISTS', 'SELECT', '1', 'FROM')),
        ("FROM clicks WHERE user_id IN (SELECT id FROM users WHERE url = 'x')", ('url',)),
        ("FROM users u JOIN places p ON p.country = u.city AND p.code = u.n", ('users',)),
    ],
)  # fmt: skip
def test_mistakes_in_joins(body: str, values: tuple[str, ...]) -> None:
    with pytest.raises(DefinitionError) as error:
        view_of(body)
    wording.check(error.value, *values)
    assert error.value.where is not None


def test_a_table_of_several_streams_is_not_joined() -> None:
    sql = "CREATE TABLE both PRIMARY KEY (who) AS SELECT user_id AS who FROM clicks UNION ALL SELECT user_id FROM other"
    body = "SELECT count(*) AS hits FROM clicks c JOIN both b ON b.who = c.user_id"
    with wording.raises(DefinitionError, "both"):
        parse(f"{BASE} {sql}; CREATE MATERIALIZED VIEW v AS {body};")


def test_tables_and_streams_that_need_each_other_are_refused() -> None:
    with wording.raises(DefinitionError):
        parse(
            f"{BASE} CREATE STREAM s AS SELECT c.* FROM clicks c JOIN t ON t.user_id = c.user_id;"
            "CREATE TABLE t PRIMARY KEY (user_id) AS SELECT user_id, n FROM s;"
        )


def test_python_makes_the_same_view() -> None:
    users = hr.Table("users", "id STRING, plan STRING, city STRING, n INT", key="id")
    clicks = parse(BASE).streams["clicks"]
    joined = clicks.join(users, on="user_id = users.id AND plan <> 'x'", how="left", as_of="ts")
    view = hr.View("v", joined.where("city = 'y'").agg(hits=hr.count()))
    assert view == view_of(
        "FROM clicks c LEFT JOIN users FOR SYSTEM_TIME AS OF ts u ON user_id = u.id AND plan <> 'x' WHERE city = 'y'"
    )
    twice = clicks.join(users, on="user_id = a.id", alias="a").join(users, on="a.city = b.id", alias="b")
    assert hr.View("v", twice.where("a.plan <> b.plan").agg(hits=hr.count())) == view_of(
        "FROM clicks c JOIN users a ON user_id = a.id JOIN users b ON a.city = b.id WHERE a.plan <> b.plan"
    )
    with wording.raises(DefinitionError, "FROM", "users"):
        hr.View("v", clicks.join(users, on="url = id").join(users, on="city = users.id").agg(hits=hr.count()))
    with wording.raises(DefinitionError):
        clicks.join(clicks, on="user_id")
    with wording.raises(DefinitionError, "how"):
        clicks.join(users, on="user_id = id", how="right")
    with pytest.raises(DefinitionError, match="USING names 'plan'"):
        hr.View("v", clicks.join(users, on="plan").agg(hits=hr.count()))


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ("city STRING", "city STRING, zip STRING", {"users": ("change", "field added: zip STRING")}),
        ("city STRING", "city BIGINT", {"users": ("refuse", "field changed: city STRING → city BIGINT")}),
        (
            "x FROM other",
            "2 * x AS x FROM other",
            {"latest": ("change", "rows of other"), "of_latest": ("change", "how the rows of table 'latest' are made")},
        ),
        (
            "users",
            "people",
            {
                "users": ("drop", ""),
                "people": ("create", "primary key: id"),
                "of_users": ("change", "rows of clicks: inner join users on user_id = id → inner join people"),
            },
        ),
    ],
)
def test_plans_of_changed_tables(old: str, new: str, changes: dict[str, tuple[str, str]]) -> None:
    sql = f"""{BASE}
    CREATE MATERIALIZED VIEW of_users AS SELECT plan, count(*) AS n FROM clicks c JOIN users u ON u.id = user_id GROUP BY plan;
    CREATE MATERIALIZED VIEW of_latest AS SELECT x, count(*) AS n FROM clicks c JOIN latest l ON l.user_id = c.user_id GROUP BY x;
    """  # noqa: E501
    after = re.sub(rf"\b{old}\b", new, sql)
    planned = compare(parse(sql), parse(after)).changes
    assert {change.name: change.kind for change in planned} == {name: kind for name, (kind, _) in changes.items()}
    for change in planned:
        assert changes[change.name][1] in " ".join(change.details)


def test_a_table_that_views_join_is_not_dropped() -> None:
    view = "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS hits FROM clicks c JOIN users u ON u.id = c.user_id;"
    without = "\n".join(line for line in BASE.splitlines() if "TABLE users" not in line)
    with wording.raises(DefinitionError, "users"):
        parse(f"{without} {view}")
