"""Modules that are loaded by their first use, such as Arrow, numpy and structlog: many commands do without them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["Logger", "datasketches", "duckdb", "later", "np", "pa", "pc", "pq"]


def later(name: str) -> Any:
    """Return a module that takes each name from another module when it is first used, and then has it."""
    module = ModuleType(name)

    def find(attribute: str) -> Any:
        value = getattr(import_module(name), attribute)
        setattr(module, attribute, value)
        return value

    module.__getattr__ = find  # type: ignore[method-assign]
    return module


if TYPE_CHECKING:
    import datasketches
    import duckdb
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:
    datasketches, duckdb, np, pa, pc, pq = map(
        later, ("datasketches", "duckdb", "numpy", "pyarrow", "pyarrow.compute", "pyarrow.parquet")
    )

_structlog = later("structlog")  # some 85 modules with rich and asyncio, which it loads


class Logger:
    """A logger of structlog by name; its methods are `info`, `warning`, `error`, `exception` and `bind`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        return getattr(_structlog.get_logger(self._name), method)
