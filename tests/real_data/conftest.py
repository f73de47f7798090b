"""One real server for all tests over the shared data; they are skipped if it does not exist."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
STATUSES = {200: 9126, 304: 445, 404: 213, 301: 164, 206: 45, 500: 3, 403: 2, 416: 2}  # of the access log
DEFINITIONS = r"""
CREATE STREAM access (
  ip STRING NOT NULL, path STRING, status INT NOT NULL, bytes BIGINT, agent STRING, at TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 1 MINUTE
);
CREATE MATERIALIZED VIEW statuses AS
SELECT status, count(*) AS hits, count(bytes) AS sized, sum(bytes) AS bytes FROM access GROUP BY status;
CREATE MATERIALIZED VIEW people AS
SELECT approx_count_distinct(ip) AS ips, min(at) AS first_at, max(at) AS last_at FROM access;
CREATE MATERIALIZED VIEW stays AS
SELECT ip, count(*) AS hits, sum(bytes) AS bytes, first(path) AS entry
FROM access GROUP BY ip, session_window(at, '10 minutes');
CREATE MATERIALIZED VIEW hourly AS
SELECT approx_count_distinct(ip) AS ips, count(*) AS hits, count(*) FILTER (WHERE status >= 400) AS errors
FROM access GROUP BY window(at, '1 hour');

CREATE STREAM edits (
  `time` TIMESTAMP NOT NULL, channel STRING NOT NULL, page STRING, `user` STRING, isRobot BOOLEAN,
  cityName STRING, added BIGINT, deleted BIGINT, delta BIGINT,
  WATERMARK FOR `time` AS `time` - INTERVAL 1 MINUTE
);
CREATE MATERIALIZED VIEW totals AS
SELECT count(*) AS edits, count(*) FILTER (WHERE isRobot) AS robots, sum(added) AS added,
       approx_count_distinct(`user`) AS users, approx_count_distinct(channel) AS channels
FROM edits;
CREATE MATERIALIZED VIEW channels AS
SELECT channel, count(*) AS edits, count(cityName) AS placed, sum(added) AS added, sum(delta) AS delta,
       avg(added) AS mean_added, max(deleted) AS most_deleted, approx_count_distinct(`user`) AS users
FROM edits GROUP BY channel, window(`time`, '1 hour');
CREATE MATERIALIZED VIEW top_pages AS
SELECT approx_top_k(page, 10, 30000) AS pages, approx_top_k(page, 3) AS rough,
       count(DISTINCT channel) AS channels, 100.0 * count_if(isRobot) / count(*) AS robots
FROM edits;

CREATE STREAM lines (
  value STRING NOT NULL,
  ip STRING AS split_part(value, ' ', 1),
  at TIMESTAMP AS to_timestamp(regexp_extract(value, r'\[([^\]]+)\]', 1), 'dd/MMM/yyyy:HH:mm:ss Z'),
  status INT AS CAST(regexp_extract(value, r'" (\d{3}) ', 1) AS INT),
  bytes BIGINT AS CAST(regexp_extract(value, r'" \d{3} (\d+) ', 1) AS BIGINT),
  WATERMARK FOR at AS at - INTERVAL 1 MINUTE
) FORMAT TEXT;
CREATE MATERIALIZED VIEW line_hours AS
SELECT date_trunc('hour', at) AS hour, count(DISTINCT ip) AS visitors, count(*) AS hits,
       100.0 * count_if(status >= 400) / count(*) AS error_rate, approx_percentile(bytes, 0.95) AS p95
FROM lines GROUP BY ALL;

CREATE STREAM cars (
  `timestamp` TIMESTAMP NOT NULL, driver_id BIGINT, event_type STRING, location STRING,
  WATERMARK FOR `timestamp` AS `timestamp` - INTERVAL 1 MINUTE
);
CREATE MATERIALIZED VIEW hourly_by_event_type AS
SELECT event_type, date_trunc('hour', `timestamp`) AS hour, count(*) AS count FROM cars GROUP BY 1, 2;
CREATE STREAM impulse (`timestamp` TIMESTAMP NOT NULL, counter BIGINT, WATERMARK FOR `timestamp` AS `timestamp`);
CREATE MATERIALIZED VIEW sliding_window_end AS
SELECT window_start AS start, window_end AS `end`, count(*) AS count, max(counter) AS max, min(counter) AS min
FROM impulse GROUP BY window(`timestamp`, '10 seconds', '2 seconds');
CREATE MATERIALIZED VIEW session_window AS
SELECT CASE WHEN counter % 10 = 0 THEN 0 ELSE counter END AS user_id, count(*) AS `rows`
FROM impulse GROUP BY 1, session_window(`timestamp`, '20 seconds');
CREATE MATERIALIZED VIEW grouped_aggregates AS
SELECT counter % 5 AS counter_mod, count(*) AS count, avg(counter) AS avg, max(counter) AS max, min(counter) AS min,
       sum(counter) AS sum
FROM impulse GROUP BY counter % 5;

CREATE STREAM ticks (
  symbol STRING, key STRING NOT NULL, ts TIMESTAMP NOT NULL, volume BIGINT, open DOUBLE, close DOUBLE,
  WATERMARK FOR ts AS ts
);
CREATE MATERIALIZED VIEW bars AS
SELECT key, max_by(volume, ts) AS volume, max_by(open, ts) AS open, last(close) AS close, max(ts) AS at
FROM ticks GROUP BY key;
CREATE TABLE latest PRIMARY KEY (key) AS SELECT key, symbol, volume, open, close, ts FROM ticks;
CREATE MATERIALIZED VIEW latest_symbols AS
SELECT symbol, count(*) AS hours, max(ts) AS newest, sum(volume) AS volume FROM latest GROUP BY symbol;

CREATE STREAM quotes (
  symbol STRING, key STRING NOT NULL, ts TIMESTAMP NOT NULL, volume BIGINT, open DOUBLE, close DOUBLE,
  WATERMARK FOR ts AS ts
);
CREATE TABLE latest_ticks PRIMARY KEY (key) AS SELECT key, symbol, volume, open, close, ts FROM quotes;
CREATE MATERIALIZED VIEW keys_of_symbol AS
SELECT symbol, count(*) AS keys, max(close) AS highest FROM latest_ticks GROUP BY symbol;

CREATE STREAM verses (value STRING) FORMAT TEXT;
CREATE STREAM words AS
SELECT word FROM (SELECT explode(split(lower(value), '[^a-z'']+')) AS word FROM verses) WHERE word <> '';
CREATE MATERIALIZED VIEW word_count AS SELECT word, count(*) AS n FROM words GROUP BY word;

CREATE STREAM orders (
  order_id BIGINT, taxful_total_price DECIMAL(12,2), order_date TIMESTAMP NOT NULL,
  products ARRAY<STRUCT<sku: STRING, category: STRING, quantity: INT, taxful_price: DOUBLE>>,
  WATERMARK FOR order_date AS order_date
);
CREATE STREAM items AS
SELECT product.sku AS sku, product.category AS category, product.quantity AS quantity, product.taxful_price AS price,
       order_date
FROM orders LATERAL VIEW explode(products) p AS product;
CREATE MATERIALIZED VIEW revenue AS SELECT count(*) AS orders, sum(taxful_total_price) AS revenue FROM orders;
CREATE MATERIALIZED VIEW by_item AS
SELECT sku, count(*) AS items, sum(quantity) AS quantity, sum(price * quantity) AS revenue FROM items GROUP BY sku;
CREATE MATERIALIZED VIEW by_category AS
SELECT category, count(*) AS items FROM items GROUP BY category, window(order_date, '1 day');

CREATE STREAM sales (
  invoice STRING FROM 'InvoiceNo', quantity INT FROM 'Quantity', sold STRING FROM 'InvoiceDate',
  price DECIMAL(12,3) FROM 'UnitPrice', customer STRING FROM 'CustomerID',
  at TIMESTAMP AS to_timestamp(concat(sold, ' Europe/London'), 'yyyy-MM-dd HH:mm:ss VV'),
  WATERMARK FOR at AS at - INTERVAL 1 DAY
);
CREATE MATERIALIZED VIEW daily_sales AS
SELECT date_trunc('day', at AT TIME ZONE 'Europe/London') AS day, sum(quantity * price) AS net,
       sum(quantity * price) FILTER (WHERE quantity < 0) AS returned, count(DISTINCT customer) AS customers,
       count(*) AS lines
FROM sales GROUP BY 1;

CREATE STREAM alarms_whole (device INT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE MATERIALIZED VIEW devices_whole AS
SELECT device, count(*) AS n FROM alarms_whole GROUP BY device, window(at, '10 minutes');
CREATE ALERT many_alarms_whole AS SELECT device, n FROM devices_whole WHERE n >= 15;
CREATE STREAM alarms_pieces (device INT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE MATERIALIZED VIEW devices_pieces AS
SELECT device, count(*) AS n FROM alarms_pieces GROUP BY device, window(at, '10 minutes');
CREATE ALERT many_alarms_pieces AS SELECT device, n FROM devices_pieces WHERE n >= 15;
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Nothing here can run without the data."""
    if not DATA.is_dir():
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=f"the shared data is not in {DATA}"))


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of the shared data."""
    return DATA


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A real `headrace up` over both streams."""
    from headrace.tools.demo.shop_server import ShopServer, make_workspace

    folder = tmp_path_factory.mktemp("real-data")
    make_workspace(folder, DEFINITIONS)
    server = ShopServer(folder)
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def reader(server):
    """Questions to that server."""
    from headrace.tools.demo.shop_server import ServerReader

    reader = ServerReader(server.url)
    yield reader
    reader.close()


@pytest.fixture(scope="session")
def headrace(server):
    """Runs a command in the server's workspace; its output."""

    def run(*arguments: str) -> str:
        command = [sys.executable, "-c", "import sys; from headrace.cli import main; sys.exit(main())", *arguments]
        result = subprocess.run(command, cwd=server.folder, capture_output=True, text=True, timeout=500, check=False)
        assert result.returncode == 0, result.stdout + result.stderr
        return result.stdout

    return run
