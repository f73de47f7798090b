"""The limits of the comparison with other engines. Those of Headrace alone stand beside what measures them.

The comparison that counts keeps a log on all sides, as Headrace always does. Without a log of theirs, a floor shows
what that log costs.
"""

from __future__ import annotations

from bench.process import FLINK, FLINK_KAFKA, FLINK_LOG, SPARK, SPARK_LOG

LEAST_RATIOS = {SPARK_LOG.name: 3.0, FLINK_LOG.name: 3.0, SPARK.name: 1.5, FLINK.name: 2.0, FLINK_KAFKA.name: 1.5}
LEAST_SHARE = 50  # % of the journal's rate, from a topic of Kafka


def rate_against(contender: str) -> str:
    """The name of the figure that compares with a contender."""
    return f"rate against {contender}"
