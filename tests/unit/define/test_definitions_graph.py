"""The graph of a catalog: what each definition reads by name."""

from __future__ import annotations

from pathlib import Path

from headrace.define.catalog import Catalog, parse
from headrace.define.definitions import graph_of
from headrace.workspace.applied_catalog import read_running, write_running

TEXT = """
CREATE STREAM clicks (url STRING, status INT, user_id STRING, ts TIMESTAMP NOT NULL, WATERMARK FOR ts AS ts);
CREATE STREAM views (url STRING, status INT, user_id STRING, ts TIMESTAMP NOT NULL, WATERMARK FOR ts AS ts);
CREATE TABLE users (id STRING PRIMARY KEY, plan STRING);
CREATE STREAM errors AS SELECT * FROM clicks WHERE status >= 500;
CREATE STREAM bad AS SELECT url, ts FROM errors WHERE url IS NOT NULL;
CREATE STREAM every AS SELECT url, ts FROM clicks UNION ALL SELECT url, ts FROM views;
CREATE MATERIALIZED VIEW per_min AS SELECT url, count(*) AS n FROM bad GROUP BY url, window(ts, '1 minute');
CREATE MATERIALIZED VIEW all_of AS SELECT count(*) AS n FROM every;
CREATE MATERIALIZED VIEW plain AS SELECT count(*) AS n FROM (SELECT url FROM clicks WHERE status = 1);
CREATE VIEW peak AS SELECT p.url, u.plan, max(n) AS n FROM per_min p LEFT JOIN users u ON p.url = u.id GROUP BY ALL;
CREATE VIEW top AS SELECT * FROM peak ORDER BY n DESC LIMIT 3;
CREATE SINK out FROM per_min WITH (connector = 'files', path = '/tmp/x');
CREATE ALERT many AS SELECT * FROM per_min WHERE n > 5;
"""
KINDS = {
    "clicks": ("stream", ()),
    "views": ("stream", ()),
    "users": ("table", ()),
    "errors": ("derived stream", ("clicks",)),
    "bad": ("derived stream", ("errors",)),
    "every": ("derived stream", ("clicks", "views")),
    "per_min": ("view", ("bad",)),
    "all_of": ("view", ("every",)),
    "plain": ("view", ("clicks",)),
    "peak": ("logical view", ("per_min", "users")),
    "top": ("logical view", ("peak",)),
    "out": ("sink", ("per_min",)),
    "many": ("alert", ("per_min",)),
}


def kinds(catalog: Catalog) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {node.name: (node.kind, node.reads) for node in graph_of(catalog)}


def test_what_each_reads_by_name():
    assert kinds(parse(TEXT)) == KINDS


def test_each_node_comes_after_what_it_reads():
    seen: set[str] = set()
    for node in graph_of(parse(TEXT)):
        assert set(node.reads) <= seen
        seen.add(node.name)


def test_the_applied_catalog_keeps_the_names(tmp_path: Path):
    write_running(tmp_path / "catalog.json", parse(TEXT))
    assert kinds(read_running(tmp_path / "catalog.json")) == KINDS


def test_without_names_the_base_streams_are_shown():
    catalog = Catalog.of(parse(TEXT).definitions)
    assert kinds(catalog)["per_min"] == ("view", ("clicks",))
    assert kinds(catalog)["every"] == ("derived stream", ("clicks", "views"))
