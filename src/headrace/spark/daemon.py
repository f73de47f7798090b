"""Spark's Python daemon with our imports done: workers are forked from it ready, and share its pages."""

from __future__ import annotations

import pandas  # noqa: F401 - Arrow loads it with its first array
from pyspark import daemon

import headrace.lake.range  # noqa: F401 - what workers run

if __name__ == "__main__":
    daemon.manager()
