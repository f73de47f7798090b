"""Every aggregate by name, found in the modules of this package; apart from `__init__`, which they may import.

Those that definitions cannot call are in `INTERNAL`.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from headrace.aggregate.aggregate import Aggregate
from headrace.language.aggregate_names import AGGREGATES

_PACKAGE = __name__.rpartition(".")[0]


def _find() -> dict[str, type[Aggregate]]:
    modules = [f"{_PACKAGE}.{module.name}" for module in iter_modules([str(Path(__file__).parent)])]
    for module in modules:
        if module != __name__:
            import_module(module)
    classes, by_name = Aggregate.__subclasses__(), {}
    while classes:
        cls = classes.pop()
        classes += cls.__subclasses__()
        if cls.__module__ in modules and "name" in vars(cls):
            by_name[cls.name] = cls
    return dict(sorted(by_name.items()))


_CLASSES = _find()
REGISTRY = {name: cls for name, cls in _CLASSES.items() if not cls.internal}
INTERNAL = {name: cls for name, cls in _CLASSES.items() if cls.internal}
AGGREGATES.update((name, cls.other_names) for name, cls in REGISTRY.items())
