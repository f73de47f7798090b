"""Keys of joins by type, and tables that are made of the stream that is joined to them: both lanes, and Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .joined import Joined

# x * x - x * x of a great x is NaN, which JSON has no text for.
KEYS = """
CREATE STREAM s (n INT, x DOUBLE, dec DECIMAL(6,1), d DATE, t TIMESTAMP, a STRING, b INT, flag BOOLEAN);
CREATE STREAM doubles (x DOUBLE, v STRING);
CREATE TABLE by_double PRIMARY KEY (k) AS SELECT CASE WHEN x > 1e200 THEN x * x - x * x ELSE x END AS k, v FROM doubles;
CREATE TABLE by_decimal (k DECIMAL(10,3) PRIMARY KEY, v STRING);
CREATE TABLE by_date (k DATE PRIMARY KEY, v STRING);
CREATE TABLE by_time (k TIMESTAMP PRIMARY KEY, v STRING);
CREATE TABLE by_pair (a STRING, b BIGINT, v STRING, PRIMARY KEY (a, b));
CREATE TABLE by_flag (k BOOLEAN PRIMARY KEY, v STRING);
CREATE MATERIALIZED VIEW of_double AS SELECT n, k.v, count(*) AS hits
  FROM s LEFT JOIN by_double k ON k.k = CASE WHEN x > 1e200 THEN x * x - x * x ELSE x END GROUP BY n, k.v;
CREATE MATERIALIZED VIEW of_decimal AS SELECT n, k.v, count(*) AS hits
  FROM s LEFT JOIN by_decimal k ON k.k = dec GROUP BY n, k.v;
CREATE MATERIALIZED VIEW of_date AS SELECT n, k.v, count(*) AS hits
  FROM s LEFT JOIN by_date k ON k.k = d GROUP BY n, k.v;
CREATE MATERIALIZED VIEW of_time AS SELECT n, k.v, count(*) AS hits
  FROM s LEFT JOIN by_time k ON k.k = t GROUP BY n, k.v;
CREATE MATERIALIZED VIEW of_pair AS SELECT n, k.v, count(*) AS hits
  FROM s LEFT JOIN by_pair k ON k.b = s.b AND k.a = s.a GROUP BY n, k.v;
CREATE MATERIALIZED VIEW of_flag AS SELECT n, k.v, count(*) AS hits
  FROM s LEFT JOIN by_flag k ON k.k = flag GROUP BY n, k.v;
CREATE MATERIALIZED VIEW twice AS SELECT n, p.v AS one, q.v AS other, count(*) AS hits
  FROM s LEFT JOIN by_flag p ON p.k = flag LEFT JOIN by_flag q ON q.k = (NOT flag) GROUP BY n, p.v, q.v;
"""
TABLES: dict[str, list[dict[str, Any]]] = {
    "doubles": [{"v": "null"}, {"x": -0.0, "v": "zero"}, {"x": 0.1, "v": "tenth"}, {"x": 1e300, "v": "nan"}],
    "by_decimal": [{"k": 1, "v": "one"}, {"k": 2.5, "v": "two and a half"}, {"k": 2.505, "v": "more"}],
    "by_date": [{"k": "0001-01-01", "v": "old"}, {"k": "2026-03-01", "v": "first"}, {"k": "9999-12-31", "v": "last"}],
    "by_time": [
        {"k": "0001-01-01T00:00:00Z", "v": "old"},
        {"k": "2026-03-01T12:00:00.000001Z", "v": "noon"},
        {"k": "9999-12-31T23:59:59.999999Z", "v": "last"},
    ],
    "by_pair": [{"a": "x", "b": 1, "v": "x1"}, {"a": "x", "b": 2, "v": "x2"}, {"a": "", "b": 1, "v": "empty"}],
    "by_flag": [{"k": True, "v": "yes"}, {"k": False, "v": "no"}],
}
EVENTS: list[dict[str, Any]] = [
    {"x": 0.0, "dec": 1, "d": "2026-03-01", "t": "2026-03-01T13:00:00.000001+01:00", "a": "x", "b": 1, "flag": True},
    {"x": -0.0, "dec": 2.5, "d": "2026-03-02", "t": "2026-03-01T12:00:00Z", "a": "x", "b": 2, "flag": False},
    {"x": 1e300, "dec": 2.6, "d": "0001-01-01", "t": "0001-01-01T00:00:00Z", "a": "", "b": 1},
    {"x": 0.1, "d": "9999-12-31", "t": "9999-12-31T23:59:59.999999Z", "a": "x", "b": None},
    {"x": 0.2, "a": None, "b": 1},
    {},  # NULL is equal to nothing
]
EXPECTED = {
    "of_double": ["zero", "zero", "nan", "tenth", None, None],
    "of_decimal": ["one", "two and a half", None, None, None, None],
    "of_date": ["first", None, "old", "last", None, None],
    "of_time": ["noon", None, "old", "last", None, None],
    "of_pair": ["x1", "x2", "empty", None, None, None],
    "of_flag": ["yes", "no", None, None, None, None],
}


def values(joined: Joined, view: str) -> list[Any]:
    rows = sorted(joined.ask(view), key=lambda row: row["n"])
    assert [(row["n"], row["hits"]) for row in rows] == [(n, 1) for n in range(len(EVENTS))]
    return [row["v"] for row in rows]


def test_keys_of_each_type(spark: Any, tmp_path: Path) -> None:
    joined = Joined(spark, tmp_path, KEYS)
    for view in (*EXPECTED, "twice"):
        joined.register(view)
    joined.build()
    for table, rows in TABLES.items():
        joined.parts[table].send(*rows[:-1])
    for view in (*EXPECTED, "twice"):
        joined.prepare(view)  # what follows is read by the workers
    for table, rows in TABLES.items():
        joined.parts[table].send(*rows[-1:])
    joined.parts["s"].send(*({"n": n, **event} for n, event in enumerate(EVENTS)))
    while joined.parts["s"].fused.run_once():
        pass
    assert not joined.parts["s"].fused.failures
    assert {view: values(joined, view) for view in EXPECTED} == EXPECTED, "by the workers"
    both = sorted((row["n"], row["one"], row["other"]) for row in joined.ask("twice"))
    assert both[:3] == [(0, "yes", "no"), (1, "no", "yes"), (2, None, None)]
    for view in EXPECTED:
        joined.register(view)
    joined.build()
    joined.maintain()
    assert {view: values(joined, view) for view in EXPECTED} == EXPECTED, "by Spark"
    joined.close()


MOVES = """
CREATE STREAM moves (person STRING, place STRING, n INT);
CREATE TABLE lives PRIMARY KEY (person) AS SELECT person, place FROM moves WHERE place IS NOT NULL;
CREATE MATERIALIZED VIEW v AS SELECT m.n, m.place AS goes, l.place AS lived, count(*) AS hits
  FROM moves m LEFT JOIN lives l ON l.person = m.person GROUP BY m.n, m.place, l.place;
"""


def test_a_stream_is_joined_to_what_its_commits_before_made(spark: Any, tmp_path: Path) -> None:
    """Never to events of the same commit, whichever lane computes it, and after a restart."""
    joined = Joined(spark, tmp_path, MOVES)
    joined.register("v")
    joined.build()
    commits = [["a-x", "a-y", "b-x"], ["a-z"], ["a-", "b-y", "c-q"], ["a-w", "c-"]]
    expected, lived = [], dict[str, str]()
    for number, commit in enumerate(commits):
        if number == 2:
            joined.maintain()
            joined.close()
            joined = Joined(spark, tmp_path, MOVES)
        joined.prepare("v")
        moves = [tuple(each.split("-")) for each in commit]
        joined.parts["moves"].send(*({"person": who, "place": to or None, "n": number} for who, to in moves))
        expected += [(number, to or None, lived.get(who)) for who, to in moves]
        lived |= {who: to for who, to in moves if to}
    joined.maintain()
    assert not joined.parts["moves"].fused.failures
    rows = [(row["n"], row["goes"], row["lived"]) for row in joined.ask("v") for _ in range(row["hits"])]
    assert sorted(rows, key=str) == sorted(expected, key=str)
    joined.register("v")
    joined.build()
    joined.maintain()
    rows = [(row["n"], row["goes"], row["lived"]) for row in joined.ask("v") for _ in range(row["hits"])]
    assert sorted(rows, key=str) == sorted(expected, key=str), "a build"
    joined.close()
