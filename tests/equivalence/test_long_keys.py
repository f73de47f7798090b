"""A key of a view that is too long is shortened, by both lanes and by the batch layer alike."""

from __future__ import annotations

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pytest

from .bench import Bench

STREAM = "CREATE STREAM s (k STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at)"
VIEW = "CREATE MATERIALIZED VIEW v AS SELECT concat(k, '!') AS k, count(*) AS n FROM s GROUP BY concat(k, '!')"


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "spark"])
def test_long_keys_are_the_same_in_both_lanes_and_layers(spark: Any, tmp_path: Path, fused: bool) -> None:
    long = "ü日" * 20_000
    keys = [long, f"{long}x", "short", None, long]
    bench = Bench(spark, tmp_path, STREAM, fused=fused)
    try:
        bench.add_view(VIEW)
        lines = [json.dumps({"k": key, "at": "2026-03-01T12:00:00Z"}).encode() for key in keys]
        bench.post(lines, key="all", keep_bad=False)
        bench.commit()
        bench.maintain()
        expected = {"short!": 1, None: 1, short_form(f"{long}!"): 2, short_form(f"{long}x!"): 1}
        assert rows_of(bench) == expected
        bench.beat("v")
        assert rows_of(bench) == expected
    finally:
        bench.close()


def short_form(key: str) -> str:
    text = key.encode()
    return f"{key[:200]}... ({len(text)} bytes, MD5 {hashlib.md5(text).hexdigest()})"


def rows_of(bench: Bench) -> dict[str | None, int]:
    return {row["k"]: row["n"] for row in bench.ask("v", random.Random(1))}
