"""CREATE STREAM … AS SELECT and what FROM reads: equal meanings give equal relations, mistakes name what to write."""

# ruff: noqa: E501 - one definition per line

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.define.catalog import Catalog, load, parse
from headrace.define.fingerprint import fingerprint, from_json, to_json
from headrace.define.model import Stream, View
from headrace.define.relation import Explode, Filter, Project
from headrace.errors import DefinitionError
from headrace.language.source_text import each
from tests import wording

BASES = """
CREATE STREAM clicks (user_id STRING NOT NULL, url STRING, country STRING, dur_ms BIGINT, price DECIMAL(12,2), tags ARRAY<STRING>, ts TIMESTAMP NOT NULL, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND);
CREATE STREAM taps (who STRING, url STRING, n INT, ts TIMESTAMP NOT NULL, WATERMARK FOR ts AS ts - INTERVAL '9' SECOND);
CREATE STREAM orders (id BIGINT, items ARRAY<STRUCT<sku: STRING, qty: INT>>, note STRING, labels MAP<STRING, STRING>, place STRUCT<city: STRING, zip: STRING>, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE STREAM lines (value STRING) FORMAT TEXT;
"""
BY_SKU = "CREATE MATERIALIZED VIEW v AS SELECT i.sku, sum(i.qty) AS qty"


def read(text: str) -> Catalog:
    return parse(BASES + text)


def derived(query: str, watermark: str = "") -> Stream:
    return read(f"CREATE STREAM d {watermark} AS {query}").streams["d"]


def fields(query: str) -> dict[str, str]:
    return {field.name: str(field.type) for field in derived(query).fields}


def view(text: str) -> View:
    return read(text).views["v"]


def test_a_filtered_and_projected_stream() -> None:
    stream = derived("SELECT *, dur_ms / 1000.0 AS secs FROM clicks WHERE dur_ms > 1000")
    assert stream.relation is not None
    assert [type(step) for step in stream.relation.branches[0].steps] == [Filter, Project]
    assert (stream.event_time, stream.patience_ms) == ("ts", 5000)
    assert [field.name for field in stream.fields] == [
        "user_id",
        "url",
        "country",
        "dur_ms",
        "price",
        "tags",
        "ts",
        "secs",
    ]


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("SELECT * EXCEPT (tags, price) FROM clicks", ('user_id', 'dur_ms')),
        ("SELECT * EXCLUDE (tags, price) FROM clicks", ('user_id', 'dur_ms')),
        ("SELECT * EXCLUDE tags FROM clicks", ('user_id', 'dur_ms')),
        ("SELECT * REPLACE (lower(url) AS url) FROM taps", ()),
        ("SELECT c.* FROM clicks c", ('user_id', 'dur_ms')),
        ("SELECT c.* EXCEPT (tags), 1 AS one FROM clicks AS c", ('user_id', 'dur_ms')),
        ("SELECT place.*, id FROM orders", ()),
        ("SELECT url FROM clicks", ()),
        ("SELECT ts AS seen, url FROM clicks", ()),
        ("SELECT CASE WHEN dur_ms > 5 THEN 'slow' ELSE 'fast' END AS speed, CAST(dur_ms AS STRING) AS t, ts FROM clicks WHERE url RLIKE '^/a'", ()),
        ("SELECT items[0].sku, place.city, labels['a'] AS a FROM orders", ()),
        ("SELECT explode(split(note, ' ')) AS word, at FROM orders", ()),
        ("SELECT explode(split(value, ' ')) AS word FROM lines", ()),
        ("SELECT lower(unnest(split(note, ' '))) AS word FROM orders", ()),
        ("SELECT explode(labels) AS (k, v), id FROM orders", ()),
        ("SELECT posexplode(items) AS (p, i), id FROM orders", ()),
        ("SELECT posexplode_outer(items), id FROM orders", ()),
        ("SELECT explode(tags) AS tags FROM clicks", ()),
        ("SELECT id, sku, qty FROM orders CROSS JOIN UNNEST(items) AS t(sku, qty)", ()),
        ("SELECT id, i.sku, n FROM orders CROSS JOIN UNNEST(items) WITH ORDINALITY AS t(i, n)", ()),
        ("SELECT id, i.sku, n FROM orders CROSS JOIN UNNEST(items) AS i WITH OFFSET AS n", ()),
        ("SELECT who, w FROM (SELECT user_id AS who, url AS w FROM clicks)", ()),
        ("SELECT a, b FROM (SELECT user_id, url FROM clicks) AS t(a, b)", ()),
        ("WITH t(a, b) AS (SELECT user_id, url FROM clicks) SELECT t.a FROM t", ()),
        ("WITH clicks AS (SELECT url, ts FROM clicks) SELECT * FROM clicks", ()),
        ("SELECT date_trunc('hour', ts) AS ts FROM clicks", ()),
        ("SELECT user_id, url, 'web' AS source, ts FROM clicks UNION ALL SELECT who, url, 'app', ts FROM taps", ('user_id',)),
        ("(SELECT url FROM clicks) UNION ALL (SELECT url FROM taps) UNION ALL SELECT note FROM orders", ()),
    ],
)  # fmt: skip
def test_the_columns_of_a_query(query: str, values: tuple[str, ...]) -> None:
    wording.check(" ".join(fields(query)), *values)


def test_all_spellings_of_explode_are_one_view() -> None:
    spellings = [
        "LATERAL VIEW explode(items) t AS i",
        "CROSS JOIN UNNEST(items) AS t(i)",
        "CROSS JOIN LATERAL explode(items) AS t(i)",
        "CROSS JOIN UNNEST(items) AS i",
        ", UNNEST(orders.items) AS t(i)",
        ", LATERAL UNNEST(items) AS t(i)",
        "ARRAY JOIN items AS i",
        "LATERAL VIEW posexplode(items) t AS p, i",
    ]
    views = [view(f"{BY_SKU} FROM orders {each} GROUP BY i.sku, window(at, '1 hour')") for each in spellings]
    assert len({fingerprint(each) for each in views}) == 1
    relation = views[0].relation
    assert relation is not None
    assert [name for name, _ in relation.branches[0].reads] == ["items", "at"]


@pytest.mark.parametrize(
    "spelling",
    [
        "LATERAL VIEW OUTER explode(items) t AS i",
        "LATERAL VIEW explode_outer(items) t AS i",
        "LEFT JOIN UNNEST(items) AS t(i) ON TRUE",
        "LEFT ARRAY JOIN items AS i",
    ],
)
def test_an_outer_explode_keeps_rows_without_elements(spelling: str) -> None:
    relation = view(f"{BY_SKU} FROM orders {spelling} GROUP BY i.sku").relation
    assert relation is not None
    step = relation.branches[0].steps[0]
    assert isinstance(step, Explode)
    assert step.outer


def test_names_of_queries_and_streams_make_no_difference() -> None:
    group = "GROUP BY url, window(ts, '1 minute')"
    spellings = [
        f"CREATE MATERIALIZED VIEW v AS WITH de AS (SELECT * FROM clicks WHERE country = 'DE'), low AS (SELECT lower(url) AS url, ts FROM de) SELECT url, count(*) AS n FROM low {group}",
        f"CREATE MATERIALIZED VIEW v AS SELECT url, count(*) AS n FROM (SELECT lower(url) AS url, ts FROM (SELECT * FROM clicks WHERE country = 'DE')) {group}",
        "CREATE MATERIALIZED VIEW v AS SELECT x.url, count(*) AS n FROM low x GROUP BY x.url, window(x.ts, '1 minute');"
        "CREATE STREAM low AS SELECT lower(url) AS url, ts FROM de; CREATE STREAM de AS SELECT * FROM clicks WHERE country = 'DE'",
    ]
    assert len({fingerprint(view(each)) for each in spellings}) == 1
    assert view(spellings[0]).streams == ("clicks",)


def test_a_view_over_filtered_events_is_one_over_the_stream() -> None:
    nested = view(
        "CREATE MATERIALIZED VIEW v AS SELECT url, count(*) AS n FROM (SELECT * FROM clicks WHERE country = 'DE') WHERE dur_ms > 5 GROUP BY url"
    )
    plain = view(
        "CREATE MATERIALIZED VIEW v AS SELECT url, count(*) AS n FROM clicks WHERE country = 'DE' AND dur_ms > 5 GROUP BY url"
    )
    assert nested == plain


def test_windows_of_tables_over_derived_streams() -> None:
    text = "CREATE STREAM d AS SELECT url, ts AS t FROM clicks WHERE dur_ms > 5;"
    made = view(
        f"{text} CREATE MATERIALIZED VIEW v AS SELECT url, count(*) AS n FROM TABLE(TUMBLE(TABLE d, DESCRIPTOR(t), INTERVAL '1' MINUTE)) GROUP BY url, window_start, window_end"
    )
    assert made.window is not None
    assert made.relation is not None
    assert made.relation.event_time == "t"


def test_words_are_counted() -> None:
    for text in (
        "SELECT word, count(*) AS n FROM (SELECT explode(split(value, ' ')) AS word FROM lines) GROUP BY word",
        "SELECT word, count(*) AS n FROM lines LATERAL VIEW explode(split(value, ' ')) t AS word GROUP BY word",
        "SELECT explode(split(value, ' ')) AS word, count(*) AS n FROM lines GROUP BY word",
        "SELECT unnest(split(value, ' ')) AS word, count(*) AS n FROM lines GROUP BY 1",
    ):
        made = view(f"CREATE MATERIALIZED VIEW v AS {text}")
        assert [key.name for key in made.keys] == ["word"]
        assert made.relation is not None
        assert made.relation.event_time is None


@pytest.mark.parametrize(
    ("query", "type_"),
    [
        ("SELECT NULL AS x, ts FROM clicks UNION ALL SELECT n, ts FROM taps", "INT"),
        ("SELECT dur_ms AS x, ts FROM clicks UNION ALL SELECT NULL, ts FROM taps UNION ALL SELECT n, ts FROM taps", "BIGINT"),
        ("SELECT tags AS x, ts FROM clicks UNION ALL SELECT NULL, ts FROM taps", "ARRAY<STRING>"),
        ("SELECT NULL AS x, ts FROM clicks UNION ALL (SELECT NULL AS x, ts FROM taps UNION ALL SELECT url, ts FROM taps)", "STRING"),
    ],
)  # fmt: skip
def test_null_in_a_union_has_the_type_of_the_other_queries(query: str, type_: str) -> None:
    assert fields(query) == {"x": type_, "ts": "TIMESTAMP"}
    (stream,) = [from_json(to_json(derived(query)))]
    assert stream == derived(query)


def test_a_union_keeps_the_patience_of_each_stream() -> None:
    catalog = read(
        "CREATE STREAM both AS SELECT user_id, url, dur_ms, ts FROM clicks UNION ALL SELECT who, url, n, ts FROM taps;"
        "CREATE MATERIALIZED VIEW v AS SELECT url, sum(dur_ms) AS ms FROM both GROUP BY url, window(ts, '1 minute');"
        "CREATE STREAM patient (WATERMARK FOR ts AS ts - INTERVAL 1 HOUR) AS SELECT * FROM both;"
        "CREATE MATERIALIZED VIEW w AS SELECT url, sum(dur_ms) AS ms FROM patient GROUP BY url, window(ts, '1 minute');"
    )
    assert catalog.views["v"].streams == ("clicks", "taps")
    assert catalog.patience_ms(catalog.views["v"]) == {"clicks": 5000, "taps": 9000}
    assert catalog.patience_ms(catalog.views["w"]) == {"clicks": 3_600_000, "taps": 3_600_000}
    assert catalog.streams["patient"].patience_ms == 3_600_000
    relation = catalog.streams["both"].relation
    assert relation is not None
    (step,) = relation.branches[1].steps
    assert isinstance(step, Project)
    assert [(name, of.sql) for name, of in step.columns] == [
        ("user_id", "who"),
        ("url", "url"),
        ("dur_ms", "CAST(n AS BIGINT)"),
        ("ts", "ts"),
    ]


def test_the_event_time_is_set_anew() -> None:
    stream = derived(
        "SELECT id, to_timestamp(note) AS sent FROM orders", "(WATERMARK FOR sent AS sent - INTERVAL '10' SECOND)"
    )
    assert (stream.event_time, stream.patience_ms) == ("sent", 10_000)
    assert [field.name for field in stream.fields] == ["id", "sent"]


def test_definitions_in_several_files_in_any_order(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text("CREATE STREAM a AS SELECT * FROM b WHERE dur_ms > 2;")
    (tmp_path / "b.sql").write_text("CREATE STREAM b AS SELECT * FROM clicks WHERE dur_ms > 1;")
    (tmp_path / "z.sql").write_text(BASES)
    catalog = load(tmp_path)
    assert list(catalog.streams)[-2:] == ["b", "a"]
    relation = catalog.streams["a"].relation
    assert relation is not None
    assert len(relation.branches[0].steps) == 2


def test_a_derived_stream_is_written_as_json_and_read_again() -> None:
    stream = derived(
        "SELECT id, i.sku, n FROM orders CROSS JOIN UNNEST(items) WITH ORDINALITY AS t(i, n) WHERE id > 5",
        "(WATERMARK FOR at AS at - INTERVAL 1 HOUR)",
    )
    assert from_json(to_json(stream)) == stream


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("CREATE STREAM d AS SELECT * FROM click", ('d', 'clicks')),
        ("CREATE STREAM d AS SELECT * FROM d", ('d',)),
        ("CREATE STREAM a AS SELECT * FROM b; CREATE STREAM b AS SELECT * FROM c; CREATE STREAM c AS SELECT * FROM a", ('a', 'b', 'c')),
        ("CREATE STREAM d AS SELECT url, count(*) AS n FROM clicks GROUP BY url", ('CREATE MATERIALIZED VIEW', 'AS SELECT')),
        ("CREATE STREAM d AS SELECT url FROM clicks GROUP BY url", ('GROUP BY', 'CREATE MATERIALIZED VIEW')),
        ("CREATE STREAM d AS SELECT DISTINCT url FROM clicks", ('SELECT DISTINCT',)),
        ("CREATE STREAM d AS SELECT url FROM clicks ORDER BY url", ('ORDER BY', 'FROM')),
        ("CREATE STREAM d AS SELECT url FROM clicks LIMIT 10", ('LIMIT', 'FROM')),
        ("CREATE STREAM d AS SELECT url FROM clicks WHERE dur_ms > 5 HAVING url <> ''", ('HAVING', 'FROM', 'WHERE')),
        ("CREATE STREAM d AS SELECT url, row_number() OVER (PARTITION BY url ORDER BY ts) AS n FROM clicks", ('row_number(…)', 'OVER', 'CREATE VIEW')),
        ("CREATE STREAM d AS SELECT url FROM clicks UNION SELECT url FROM taps", ('UNION ALL',)),
        ("CREATE STREAM d AS SELECT url FROM clicks EXCEPT SELECT url FROM taps", ('EXCEPT',)),
        ("CREATE STREAM d AS SELECT url, ts FROM clicks UNION ALL SELECT url FROM taps", ('UNION ALL', '2', '1')),
        ("CREATE STREAM d AS SELECT url FROM clicks UNION ALL SELECT n FROM taps", ('UNION ALL', 'url', 'INT', 'CAST(n AS STRING)')),
        ("CREATE STREAM d AS WITH a AS (SELECT * FROM clicks), A AS (SELECT * FROM taps) SELECT * FROM a", ('WITH', 'A')),
        ("CREATE STREAM d AS WITH a AS (SELECT * FROM a) SELECT * FROM a", ('d', 'a', 'WITH')),
        ("CREATE MATERIALIZED VIEW v AS WITH a AS (SELECT * FROM b), b AS (SELECT * FROM clicks) SELECT count(*) AS n FROM a", ('v', 'b', 'WITH')),
        ("CREATE STREAM d AS WITH slow AS (SELECT * FROM clicks) SELECT * FROM slw", ('d', 'slw', 'slow')),
        ("CREATE STREAM d AS SELECT nope FROM clicks", ('clicks', 'nope')),
        ("CREATE STREAM d AS SELECT c.nope FROM clicks c", ('c', 'nope')),
        ("CREATE STREAM d AS SELECT x.url FROM clicks c", ('x.url',)),
        ("CREATE STREAM d AS SELECT id FROM orders LATERAL VIEW explode(items) t AS id", ('id',)),
        ("CREATE STREAM d AS SELECT lower(url) FROM clicks", ('AS',)),
        ("CREATE STREAM d AS SELECT url, lower(url) AS url FROM clicks", ('url',)),
        ("CREATE STREAM d AS SELECT * EXCEPT (ulr) FROM clicks", ('EXCEPT', 'ulr', 'url')),
        ("CREATE STREAM d AS SELECT x.* FROM clicks c", ('x.*',)),
        ("CREATE STREAM d AS SELECT explode(url) AS w FROM clicks", ('STRING', 'ARRAY', 'MAP', "split(url, ' ')")),
        ("CREATE STREAM d AS SELECT explode(tags) AS a, explode(tags) AS b FROM clicks", ('SELECT', 'LATERAL VIEW')),
        ("CREATE STREAM d AS SELECT i FROM orders LATERAL VIEW inline(items) t AS i", ('LATERAL VIEW', 'inline')),
        ("CREATE STREAM d AS SELECT i FROM orders LATERAL VIEW explode(labels) t AS i", ('MAP', 'STRING', '2')),
        ("CREATE STREAM d AS SELECT url FROM clicks WHERE dur_ms", ('WHERE', 'BIGINT', 'dur_ms')),
        ("CREATE STREAM d AS SELECT * FROM clicks WHERE ts > now() - INTERVAL 1 HOUR", ()),
        ("CREATE STREAM d (url STRING) AS SELECT url FROM clicks", ('d',)),
        ("CREATE STREAM d (WATERMARK FOR url) AS SELECT url FROM clicks", ('url', 'STRING', 'TIMESTAMP')),
        ("CREATE STREAM d (WATERMARK FOR at) AS SELECT url FROM clicks", ('d', 'at')),
        ("CREATE STREAM d AS SELECT url FROM TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL 1 MINUTE)", ('TUMBLE', 'FROM')),
        ("CREATE MATERIALIZED VIEW v AS SELECT url, count(*) AS n FROM (SELECT url, count(*) AS n FROM clicks GROUP BY url) GROUP BY url", ('FROM',)),
        ("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM clicks; CREATE STREAM d AS SELECT n FROM v", ('d', 'v')),
        ("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM clicks; CREATE MATERIALIZED VIEW w AS SELECT count(*) AS n FROM v", ('w', 'v', 'CREATE VIEW', 'AS')),
        ("CREATE STREAM d AS WITH RECURSIVE a AS (SELECT * FROM clicks) SELECT * FROM a", ('WITH RECURSIVE',)),
        ("CREATE STREAM d AS SELECT url", ('FROM',)),
        ("CREATE STREAM d AS SELECT url FROM clicks; CREATE ALERT a ON STREAM d WHEN ABSENT FOR INTERVAL 1 HOUR", ('a', 'd', 'ON STREAM', 'ON VIEW')),
        ("CREATE STREAM d AS SELECT NULL AS x FROM clicks UNION ALL SELECT NULL FROM taps", ('UNION ALL', 'x', 'CAST(NULL AS STRING)')),
        ("CREATE STREAM d AS SELECT NULL AS x FROM clicks", ('NULL',)),
        ("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM clicks GROUP BY window(_arrived, '1 hour')", ('CREATE STREAM', 'clicks_by_arrived', 'WATERMARK FOR', 'AS SELECT', 'FROM')),
        ("CREATE TABLE u (id STRING PRIMARY KEY, ts TIMESTAMP, WATERMARK FOR ts); CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM u WHERE _arrived > ts", ('u',)),
        ("CREATE STREAM d AS VALUES (1)", ('VALUES', 'SELECT')),
        ("CREATE STREAM d AS SELECT url AS window_start FROM clicks", ('window_start',)),
        ("CREATE TABLE u (id STRING PRIMARY KEY); CREATE STREAM d AS SELECT * FROM u", ('u', 'FROM', 'JOIN', 'ON')),
        ("CREATE TABLE u (id STRING PRIMARY KEY); CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM (SELECT * FROM u)", ('u', 'FROM')),
        ("CREATE TABLE u (id STRING PRIMARY KEY); CREATE MATERIALIZED VIEW v AS SELECT id FROM u", ('v', 'CREATE VIEW', 'AS SELECT', 'FROM')),
        ("CREATE STREAM d WITH (kafka_topic = 'd') AS SELECT url FROM clicks PARTITION BY url EMIT CHANGES", ('CREATE STREAM', 'AS SELECT', 'FROM')),
        ("CREATE MATERIALIZED VIEW v AS SELECT i, count(*) AS n FROM orders LATERAL VIEW explode(items) t AS i GROUP BY i", ('STRUCT', 'STRING', 'INT')),
    ],
)  # fmt: skip
def test_mistakes_say_what_to_write(text: str, values: tuple[str, ...]) -> None:
    with pytest.raises(DefinitionError) as caught:
        read(text)
    wording.check(caught.value, *values)
    assert all(error.where for error in each(caught.value))


def test_one_message_for_a_stream_that_could_not_be_read() -> None:
    with pytest.raises(DefinitionError) as caught:
        read(
            "CREATE STREAM a AS SELECT nope FROM clicks; CREATE STREAM b AS SELECT * FROM a;"
            "CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM b"
        )
    assert [error.message for error in each(caught.value)] == ["stream 'clicks' has no field 'nope'"]


def test_all_mistakes_of_a_query_are_reported_at_once() -> None:
    with pytest.raises(DefinitionError) as caught:
        read("CREATE STREAM a AS SELECT nope, url, nada FROM clicks WHERE none > 5 UNION ALL SELECT zero FROM taps")
    assert len(each(caught.value)) == 4
