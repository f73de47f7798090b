"""Lines of an access log from the request to a view's numbers, on real Spark: a stream of FORMAT TEXT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headrace.ingest.formats.format_detection import FileLayout, Format
from tests.equivalence.bench import Bench

STREAM = r"""CREATE STREAM access (
  value STRING NOT NULL,
  status INT AS CAST(regexp_extract(value, r'" (\d{3}) ') AS INT),
  bytes BIGINT AS CAST(regexp_extract(value, r'" \d{3} (\d+)') AS BIGINT)
) FORMAT TEXT"""
VIEW = """CREATE MATERIALIZED VIEW traffic AS
SELECT status, count(*) AS hits, sum(bytes) AS bytes FROM access GROUP BY status"""
LOG = b"".join(
    b'10.0.0.%d - - [01/Mar/2026:12:00:00 +0000] "GET /caf\xc3\xa9 HTTP/1.1" %d %d\r\n'
    % (number % 9, 404 if number % 5 == 0 else 200, number)
    for number in range(1000)
)
NOT_UTF8 = b'10.0.0.1 - - "GET /caf\xe9 HTTP/1.1" 200 7'


def test_an_access_log_becomes_a_view(spark: Any, tmp_path: Path) -> None:
    bench = Bench(spark, tmp_path, STREAM)
    try:
        bench.add_view(VIEW)
        body = LOG + NOT_UTF8 + b"\n\n  no request\n"
        reply = bench.ingest.take(body, layout=FileLayout(Format.TEXT), key=None, keep_bad=True).result()
        assert (reply.accepted, reply.refused) == (1002, [])
        bench.commit()
        assert (bench.table.rows(dead=False), bench.table.rows(dead=True)) == (1001, 1)
        assert bench.lines(dead=True) == [(NOT_UTF8, f"not UTF-8 at byte {NOT_UTF8.index(0xE9)}")]
        bench.maintain()
        rows = {row["status"]: (row["hits"], row["bytes"]) for row in bench.answer("traffic").rows()}
        assert rows == {
            None: (1, None),
            404: (200, sum(range(0, 1000, 5))),
            200: (800, sum(range(1000)) - sum(range(0, 1000, 5))),
        }
    finally:
        bench.close()
