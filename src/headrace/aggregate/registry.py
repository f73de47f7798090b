"""Every aggregate by its name: the classes with a name in the modules of this package, with no list to keep."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from headrace.aggregate.base import Aggregate

_PACKAGE = __name__.rpartition(".")[0]


def _find() -> dict[str, type[Aggregate]]:
    modules = [f"{_PACKAGE}.{module.name}" for module in iter_modules([str(Path(__file__).parent)])]
    for module in modules:
        if module != __name__:
            import_module(module)
    classes, found = Aggregate.__subclasses__(), {}
    while classes:
        cls = classes.pop()
        classes += cls.__subclasses__()
        if cls.__module__ in modules and "name" in vars(cls):
            found[cls.name] = cls
    return dict(sorted(found.items()))


REGISTRY = _find()
