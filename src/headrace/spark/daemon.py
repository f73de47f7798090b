"""Spark's Python daemon with all imports done, so that forked workers start at once and share its memory."""

from __future__ import annotations

from importlib import import_module

from pyspark import daemon

# By name, since what workers run lies above this room. Arrow loads pandas with its first array.
PRELOADED = ("pandas", "headrace.lake.range")

for _module in PRELOADED:
    import_module(_module)

if __name__ == "__main__":
    daemon.manager()
