"""A server whose files were lost or damaged: the damage is named, no answer is wrong, and other streams continue."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import httpx2
import pyarrow.parquet as pq
import pytest

from ..server import UpServer
from ..waiting import wait_until
from ..warm import Java
from .clicks import Clicks

MORE = """
CREATE STREAM orders (id BIGINT NOT NULL);
CREATE MATERIALIZED VIEW order_count AS SELECT count(*) AS n FROM orders;
CREATE STREAM pages (id BIGINT NOT NULL);
CREATE MATERIALIZED VIEW page_count AS SELECT count(*) AS n, sum(id) AS ids FROM pages;
"""


def newest_entry(lake: Path) -> Path:
    return max((lake / "_delta_log").glob("*.json"))


def test_a_server_with_damaged_files(java: Java, workspace: Path) -> None:
    (workspace / "definitions" / "more.sql").write_text(MORE)
    data, clicks = workspace / "data", Clicks()
    first = java.server(workspace).wait_until_ready()
    for _ in range(2):
        assert clicks.post(first)
        for stream in ("orders", "pages"):
            token = first.post(stream, [{"id": number} for number in range(1000)], None)["token"]
            first.wait_for_token(token)
    clicks.check(first)
    assert first.stop() == 0

    shutil.rmtree(data / "lake" / "orders" / "_delta_log")
    for stream in ("clicks", "pages"):  # the store now has a commit that the lake does not have
        newest_entry(data / "lake" / stream).unlink()
    page = min((data / "lake" / "pages").glob("_dead=false/*.parquet"))
    flip_a_bit(page, "id")
    (data / "lease.json").write_text("garbage")
    second = java.server(workspace).wait_for_http()

    orders_are_named(second, data)
    clicks.check(second)
    pages_are_named(second, page)
    (data / "lease.json").unlink()
    (data / "journal" / "clicks" / "durable").unlink()
    assert clicks.post(second)
    clicks.check(second)
    assert second.process.poll() is None
    assert "Traceback" not in second.log_tail()
    second.stop()


def flip_a_bit(file: Path, column: str) -> None:
    """In the last page of a column that a view reads."""
    group = pq.read_metadata(file).row_group(0)
    chunk = next(c for c in map(group.column, range(group.num_columns)) if c.path_in_schema == column)
    raw = bytearray(file.read_bytes())
    raw[chunk.data_page_offset + chunk.total_compressed_size - 3] ^= 1
    file.write_bytes(raw)


def orders_are_named(server: UpServer, data: Path) -> None:
    """Its log is gone: what the store has is answered, marked; nothing is accepted."""
    status = server.status_of("orders")
    assert f"lake '{data}/lake/orders' cannot be read" in status["error"]
    assert "_delta_log' is gone or empty" in status["error"]
    answer = server.get("/v1/views/order_count")
    assert (answer["rows"][0]["n"], answer["freshness_ms"]) == (2000, None)
    assert "stream 'orders' is damaged" in answer["freshness_reason"]
    with pytest.raises(httpx2.HTTPStatusError) as error:
        server.post("orders", [{"id": 1}], None)
    assert error.value.response.json()["error"]["code"] == "corruption"


def pages_are_named(server: UpServer, page: Path) -> None:
    """A page of a file is damaged: the view that has to be built from it is not, and says which."""

    def page_count() -> dict[str, Any]:
        return next(view for view in server.get("/v1/views")["views"] if view["name"] == "page_count")

    wait_until(lambda: (page_count()["building"] or {}).get("error"), 300, server.log_tail)
    assert page.name in page_count()["building"]["error"]
    assert page_count()["version"] is None
