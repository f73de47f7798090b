"""Spark's Python daemon, which Spark runs by name. It imports modules first, so that forked workers start at once."""

from __future__ import annotations

from importlib import import_module

from pyspark import daemon

# By name, since this package may not import `lake`. Arrow loads pandas with its first array.
PRELOADED = ("pandas", "headrace.lake.range", "headrace.maintain.lift")

for _module in PRELOADED:
    import_module(_module)

if __name__ == "__main__":
    daemon.manager()
