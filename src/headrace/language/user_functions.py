"""Functions and aggregates that users define in Python: their names, types and code. Nothing is run here.

Each is known by its name and a digest of all Python files of its folder, so that changed code is another function, and
a view that calls it is another view. Expressions contain this full name: `fahrenheit__1a2b3c4d(celsius)`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from headrace.language.terms import Expression
from headrace.types import Type

DIGITS = 8
OUTCOME = "outcome_of_"  # before the name of a function that gives a value or an error for each row
_FULL_NAME = re.compile(rf"\b[a-z][a-z0-9_]*__[0-9a-f]{{{DIGITS}}}\b")


@dataclass(frozen=True)
class UserCode:
    """A function or a class of a definition file, over Arrow arrays."""

    name: str
    takes: tuple[tuple[str, Type], ...]
    gives: Type
    digest: str
    code: bytes = field(compare=False, repr=False)  # pickled by value: workers have no file of it

    @property
    def full_name(self) -> str:
        """The name in definitions, in Spark and in DuckDB."""
        return f"{self.name}__{self.digest}"


@dataclass(frozen=True)
class UserFunction(UserCode):
    """A function: one value for each event."""

    @property
    def signature(self) -> str:
        """The call as in a message."""
        return f"{self.name}({', '.join(f'{name} {of}' for name, of in self.takes)})"


# By full name: those of loaded definitions, and of views that were read back. Equal names have equal code.
_known: dict[str, UserFunction] = {}
# By name: those that the definitions that are being read may call.
callable_names: ContextVar[dict[str, UserCode] | None] = ContextVar("callable_names", default=None)


@contextmanager
def fresh_names() -> Iterator[None]:
    """While it lasts, definitions may call what is declared in it, and nothing that was declared before."""
    token = callable_names.set({})
    try:
        yield
    finally:
        callable_names.reset(token)


def declare(code: UserCode) -> None:
    """Make a function known, and let the definitions that are being read call it, or an aggregate."""
    if isinstance(code, UserFunction):
        _known[code.full_name] = code
    names = callable_names.get()
    if names is not None:
        names[code.name] = code


def find_function(name: str) -> UserFunction | None:
    """The function that an expression calls by its name or its full name, in lower case."""
    code = (callable_names.get() or {}).get(name)
    return code if isinstance(code, UserFunction) else _known.get(name)


def functions_of(calling: Iterable[Expression | str | None]) -> list[UserFunction]:
    """Return the functions that expressions call, or that are named themselves, each once."""
    names: dict[str, None] = {}
    for each in calling:
        if isinstance(each, str):
            names[each] = None
        elif each and "__" in each.sql:  # of each full name: most stored expressions need no tree for this
            names |= dict.fromkeys(each.calls())
    return [_known[name] for name in names if name in _known]


def plain(text: str) -> str:
    """Expressions as they were written, without digests."""
    return _FULL_NAME.sub(lambda match: _name(match[0]), text)


def plain_changes(texts: Iterable[str]) -> tuple[str, ...]:
    """Descriptions of changes without digests. Where only the code of a function changed, that is said once."""
    lines, changed = [], set()
    for text in texts:
        edited = edited_names(text)
        before, _, after = plain(text).partition(" → ")
        changed |= edited
        if not (edited and before.endswith(after)):
            lines.append(plain(text))
    return (*lines, *code_changes(changed))


def edited_names(text: str) -> set[str]:
    """The names of functions and aggregates that a text about before and after has with different code."""
    names = set(_FULL_NAME.findall(text))
    return {_name(name) for name in names if sum(_name(other) == _name(name) for other in names) > 1}


def code_changes(names: Iterable[str]) -> tuple[str, ...]:
    """The line of a plan that names functions whose code was edited, if there are any."""
    sorted_names = sorted(names)
    return (f"code changed: {', '.join(sorted_names)}",) if sorted_names else ()


def _name(full_name: str) -> str:
    return full_name[: -DIGITS - 2]


def digest_of(folder: Path) -> str:
    """The digest of all Python files of a folder: code may call functions of any of them."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:DIGITS]
