"""Spark's Python daemon, which Spark runs by name. It imports modules first, so that forked workers start at once."""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress
from importlib import import_module

from pyspark import daemon

# By name, since this package may not import `lake`. Arrow loads pandas with its first array.
PRELOADED = ("pandas", "headrace.lake.append_task", "headrace.maintain.lift")
MALLOC = {-3: 32 << 20, -1: 128 << 20, -2: 16 << 20}  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_TOP_PAD of <malloc.h>

for _module in PRELOADED:
    import_module(_module)

# Workers keep freed memory for the next events: to get it from the system each time takes 5 % of their CPU time.
with suppress(OSError, AttributeError):  # only the GNU C library has `mallopt`
    _mallopt = ctypes.CDLL(None).mallopt
    for _option, _size in MALLOC.items():
        _mallopt(_option, _size)

import_module("headrace.call_limits").is_worker = True  # type: ignore[attr-defined]

# PySpark has a worker collect garbage after each task. Without this it would look at all that was imported: 60 ms.
gc.freeze()

if __name__ == "__main__":
    daemon.manager()
