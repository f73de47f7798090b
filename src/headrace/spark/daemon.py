"""Spark's Python daemon with our imports done: workers are forked from it ready, and share its pages."""

from __future__ import annotations

from importlib import import_module

from pyspark import daemon

# By name, since what workers run lies above this room. Arrow loads pandas with its first array.
PRELOADED = ("pandas", "headrace.lake.range")

for _module in PRELOADED:
    import_module(_module)

if __name__ == "__main__":
    daemon.manager()
