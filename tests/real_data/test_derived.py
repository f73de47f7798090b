"""Rows that are made of real events, in both lanes: the words of a text, the items of orders."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

from headrace.define.catalog import parse
from headrace.define.fingerprint import fingerprint
from tests.equivalence.bench import Bench

LINES = "CREATE STREAM lines (line STRING, n BIGINT)"
WORDS = """CREATE STREAM words AS SELECT explode(split(lower(line), '[^a-z]+')) AS word FROM lines;
CREATE MATERIALIZED VIEW counts AS SELECT word, count(*) AS n FROM words WHERE word <> '' GROUP BY word;"""
ORDERS = """CREATE STREAM orders (order_id BIGINT, order_date TIMESTAMP NOT NULL,
products ARRAY<STRUCT<sku: STRING, quantity: INT, manufacturer: STRING>>, WATERMARK FOR order_date AS order_date)"""
ITEMS = """CREATE MATERIALIZED VIEW items AS SELECT p.sku AS sku, sum(p.quantity) AS quantity, count(*) AS orders
FROM orders LATERAL VIEW explode(products) x AS p GROUP BY p.sku;"""


def answers(spark: Any, folder: Path, stream: str, views: str, name: str, lines: list[bytes]) -> list[dict[str, Any]]:
    """The rows of a view, equal before and after a beat, which computes them by Spark and compares."""
    bench = Bench(spark, folder, stream)
    try:
        view = parse(f"{stream};{views}").views[name]
        bench.store.register(view, fingerprint(view), bench.catalog.patience_ms(view))
        for at in range(0, len(lines), 20_000):
            bench.post(lines[at : at + 20_000], str(at), keep_bad=False)
            bench.commit()
        while bench.fused.run_once():
            pass
        with bench.store.snapshot() as snapshot:
            version = snapshot.serving(name)
        assert version is not None
        assert version.bases[0].applied_to == bench.table.state.next_commit, "the fused lane has them all"
        rows = _rows(bench, name)
        bench.beat(name)
        assert _rows(bench, name) == rows
        with bench.store.snapshot() as snapshot:
            (audit,) = snapshot.audits(name)
        assert audit.agreed
        return rows
    finally:
        bench.close()


def _rows(bench: Bench, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    page = bench.answer(name, limit=10_000)
    rows += page.rows()
    while page.next_cursor:
        page = bench.answer(name, limit=10_000, cursor=page.next_cursor)
        rows += page.rows()
    return rows


def test_words_of_a_text(spark: Any, data: Path, tmp_path: Path) -> None:
    text = (data / "text" / "tinyshakespeare.txt").read_text().splitlines()
    lines = [json.dumps({"line": line, "n": number}).encode() for number, line in enumerate(text)]
    rows = answers(spark, tmp_path, LINES, WORDS, "counts", lines)
    letters = ["".join(c if c.isascii() and c.isalpha() else " " for c in line.lower()) for line in text]
    expected = Counter(word for line in letters for word in line.split())
    assert {row["word"]: row["n"] for row in rows} == expected
    assert max(rows, key=lambda row: row["n"])["word"] == "the"


def test_items_of_orders(spark: Any, data: Path, tmp_path: Path) -> None:
    content = (data / "sales" / "opensearch_ecommerce_orders.json.gz").read_bytes()
    lines = gzip.decompress(content).splitlines()
    rows = answers(spark, tmp_path, ORDERS, ITEMS, "items", lines)
    quantities, orders = Counter[str](), Counter[str]()
    for order in map(json.loads, lines):
        for product in order["products"]:
            quantities[product["sku"]] += product["quantity"]
            orders[product["sku"]] += 1
    assert {row["sku"]: (row["quantity"], row["orders"]) for row in rows} == {
        sku: (quantities[sku], orders[sku]) for sku in orders
    }
