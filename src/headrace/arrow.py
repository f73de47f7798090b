"""Arrow and numpy, loaded by their first use: they are 105 modules, and many commands do without them.

What such commands import imports them from here. Parts that only a server or Spark's workers run import them directly.
"""

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
