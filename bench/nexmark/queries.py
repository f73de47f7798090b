"""Nexmark's queries: each as a view and in DuckDB's SQL, or the reason why a view cannot express it yet."""

from __future__ import annotations

from dataclasses import dataclass

STREAMS = """
CREATE STREAM persons (
  id BIGINT NOT NULL, name STRING, email STRING, credit_card STRING, city STRING, state STRING, at TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 4 SECONDS);
CREATE STREAM auctions (
  id BIGINT NOT NULL, item STRING, description STRING, initial_bid BIGINT, reserve BIGINT, at TIMESTAMP NOT NULL,
  expires TIMESTAMP, seller BIGINT, category BIGINT,
  WATERMARK FOR at AS at - INTERVAL 4 SECONDS);
CREATE STREAM bids (
  auction BIGINT NOT NULL, bidder BIGINT NOT NULL, price BIGINT NOT NULL, channel STRING, url STRING,
  at TIMESTAMP NOT NULL, extra STRING,
  WATERMARK FOR at AS at - INTERVAL 4 SECONDS);
"""
COLUMNS = """{auction: 'BIGINT', bidder: 'BIGINT', price: 'BIGINT', channel: 'VARCHAR', url: 'VARCHAR',
 "at": 'TIMESTAMP', extra: 'VARCHAR'}"""


@dataclass(frozen=True)
class Query:
    """A query that a view expresses. `note` says what of the original it leaves out, if anything."""

    number: int
    title: str
    view: str
    reference: str  # DuckDB's SQL over the table `bids`; its columns are those of the answer that are compared
    note: str = ""
    approximate: frozenset[str] = frozenset()


RANKS = """count(*) AS bids,
  count(*) FILTER (WHERE price < 10000) AS low,
  count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS middle,
  count(*) FILTER (WHERE price >= 1000000) AS high"""
DISTINCT = """approx_count_distinct(bidder) AS bidders,
  approx_count_distinct(bidder) FILTER (WHERE price >= 1000000) AS high_bidders,
  approx_count_distinct(auction) AS auctions"""
EXACT = DISTINCT.replace("approx_count_distinct(", "count(DISTINCT ")
ESTIMATES = frozenset({"bidders", "high_bidders", "auctions"})
APPROXIMATE = "the numbers of distinct bidders and auctions are estimates"
INSIDE = "a projection: inside an aggregate"
TEN_SECONDS = 'time_bucket(INTERVAL 10 SECONDS, "at") AS window_start'
DAY = 'time_bucket(INTERVAL 1 DAY, "at") AS window_start'
TIME_OF_DAY = """CASE WHEN hour(at) >= 8 AND hour(at) <= 18 THEN 'day' WHEN hour(at) <= 6 OR hour(at) >= 20 THEN 'night'
  ELSE 'other' END AS time_of_day"""
CHANNEL_ID = """CASE WHEN lower(channel) = 'apple' THEN '0' WHEN lower(channel) = 'google' THEN '1'
  WHEN lower(channel) = 'facebook' THEN '2' WHEN lower(channel) = 'baidu' THEN '3'
  ELSE regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS channel_id"""

QUERIES = (
    Query(
        1,
        "currency conversion",
        "SELECT sum(price * 0.908) AS euros, count(*) AS bids FROM bids GROUP BY window(at, '10 seconds')",
        f"SELECT {TEN_SECONDS}, sum(price::DECIMAL(20, 0) * 0.908) AS euros, count(*) AS bids FROM bids GROUP BY ALL",
        INSIDE,
    ),
    Query(
        2,
        "selection",
        "SELECT auction, count(*) AS bids, max(price) AS price FROM bids WHERE auction % 123 = 0 GROUP BY auction",
        "SELECT auction, count(*) AS bids, max(price) AS price FROM bids WHERE auction % 123 = 0 GROUP BY ALL",
        INSIDE,
    ),
    Query(
        5,
        "hot items",
        "SELECT auction, count(*) AS bids FROM bids GROUP BY auction, window(at, '10 seconds', '2 seconds')",
        """SELECT auction, time_bucket(INTERVAL 2 SECONDS, "at") - INTERVAL 2 SECONDS * number AS window_start,
             count(*) AS bids FROM bids, range(5) AS numbers(number) GROUP BY ALL""",
        "the count of each auction and sliding window; the largest of a window is a query over the view",
    ),
    Query(
        7,
        "highest bid",
        "SELECT max(price) AS price FROM bids GROUP BY window(at, '10 seconds')",
        f"SELECT {TEN_SECONDS}, max(price) AS price FROM bids GROUP BY ALL",
        "the price, without its bidder",
    ),
    Query(
        12,
        "bids of a bidder by window",
        "SELECT bidder, count(*) AS bids FROM bids GROUP BY bidder, window(at, '10 seconds')",
        f"SELECT bidder, {TEN_SECONDS}, count(*) AS bids FROM bids GROUP BY ALL",
        "by event time, so that it can be compared; a stream without WATERMARK has windows of arrival",
    ),
    Query(
        14,
        "calculation",
        f"""SELECT {TIME_OF_DAY}, count(*) AS bids, sum(length(extra) - length(replace(extra, 'c', ''))) AS letters
             FROM bids WHERE price * 0.908 > 1000000 AND price * 0.908 < 50000000 GROUP BY time_of_day""",
        f"""SELECT {TIME_OF_DAY.replace("hour(at)", 'hour("at")')}, count(*) AS bids,
             sum(length(extra) - length(replace(extra, 'c', ''))) AS letters
             FROM bids WHERE price * 0.908 > 1000000 AND price * 0.908 < 50000000 GROUP BY ALL""",
        INSIDE,
    ),
    Query(
        15,
        "bids by day",
        f"SELECT {RANKS}, {DISTINCT} FROM bids GROUP BY window(at, '1 day')",
        f"SELECT {DAY}, {RANKS}, {EXACT} FROM bids GROUP BY ALL",
        APPROXIMATE,
        ESTIMATES,
    ),
    Query(
        16,
        "bids by channel and day",
        f"SELECT channel, {RANKS}, {DISTINCT} FROM bids GROUP BY channel, window(at, '1 day')",
        f"SELECT channel, {DAY}, {RANKS}, {EXACT} FROM bids GROUP BY ALL",
        APPROXIMATE,
        ESTIMATES,
    ),
    Query(
        17,
        "bids by auction and day",
        f"""SELECT auction, {RANKS}, min(price) AS lowest, max(price) AS highest, sum(price) AS total
             FROM bids GROUP BY auction, window(at, '1 day')""",
        f"""SELECT auction, {DAY}, {RANKS}, min(price) AS lowest, max(price) AS highest, sum(price) AS total
             FROM bids GROUP BY ALL""",
    ),
    Query(
        21,
        "channel id",
        f"SELECT {CHANNEL_ID}, count(*) AS bids FROM bids GROUP BY channel_id",
        f"SELECT {CHANNEL_ID}, count(*) AS bids FROM bids GROUP BY ALL",
        "a projection: as a key",
    ),
    Query(
        22,
        "directories of URLs",
        "SELECT substring(split_part(url, '/', 4), 1, 2) AS folder, count(*) AS bids FROM bids GROUP BY folder",
        "SELECT substring(split_part(url, '/', 4), 1, 2) AS folder, count(*) AS bids FROM bids GROUP BY ALL",
        "a projection: as a key, of its first two letters",
    ),
)

# Queries that can be defined and are not measured: each of them would change the figure that others are compared with.
DEFINED = {
    13: """CREATE TABLE sides (key BIGINT PRIMARY KEY, value STRING);
CREATE STREAM q13 AS SELECT b.*, s.value FROM bids b JOIN sides s ON b.auction = s.key;""",
    18: """CREATE TABLE q18 PRIMARY KEY (bidder, auction) AS
SELECT bidder, auction, price, channel, url, at, extra FROM bids;""",
    19: """CREATE MATERIALIZED VIEW q19 AS
SELECT auction, max_by(bidder, price, 10) AS bidders, max_by(price, price, 10) AS prices FROM bids GROUP BY auction;""",
}
OTHERS = {
    0: ("pass through", "the log itself: every event is stored as received"),
    3: ("local items", "not yet: a join of two streams"),
    4: ("average price of a category", "not yet: a join, and an aggregate of an aggregate"),
    6: ("average price of a seller", "not yet: a join, and the last ten of each key"),
    8: ("new users", "not yet: a join of two streams within a window"),
    9: ("winning bids", "not yet: a join, and the first of each key"),
    10: ("log to files", "the log itself, in files partitioned by commit, not by minute"),
    11: ("sessions", "a view with session_window; not measured"),
    13: ("side input", "a join to a table; not measured"),
    18: ("last bid of each bidder", "a table AS SELECT, whose rows are the latest of each key; not measured"),
    19: ("ten highest bids", "max_by with a number; not measured"),
    20: ("expand bids by auctions", "not yet: a join of two streams"),
}


def definitions() -> str:
    """The streams, and a view for each query."""
    return STREAMS + "".join(f"CREATE MATERIALIZED VIEW q{query.number} AS {query.view};\n" for query in QUERIES)
