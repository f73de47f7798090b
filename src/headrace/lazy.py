"""Arrow, numpy and structlog, loaded by their first use: many commands do without them."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["np", "pa", "pc", "pq"]

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq
else:

    def _later(name: str) -> ModuleType:
        """A module that takes each name from another one when it is first asked for it, and then has it."""
        module = ModuleType(name)

        def find(attribute: str) -> Any:
            value = getattr(import_module(name), attribute)
            setattr(module, attribute, value)
            return value

        module.__getattr__ = find
        return module

    np, pa, pc, pq = map(_later, ("numpy", "pyarrow", "pyarrow.compute", "pyarrow.parquet"))


class Logger:
    """A logger of structlog by name; its methods are `info`, `warning`, `error`, `exception` and `bind`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, method: str) -> Any:
        import structlog  # some 85 modules with rich and asyncio, which it loads

        return getattr(structlog.get_logger(self._name), method)
