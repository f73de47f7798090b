"""Functions and aggregates that a workspace defines in Python: their names, types and code. Nothing is run here.

Each is known by its name and a digest of all Python files of its folder, so that changed code is another function, and
a view that calls it is another view. Expressions contain this full name: `fahrenheit__1a2b3c4d(celsius)`.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.aggregate import REGISTRY, Aggregate
from headrace.aggregate.udaf import UdafDefinition, UserCode, declare_aggregate, own_class
from headrace.language.terms import Expression
from headrace.language.token_cursor import parse_type

DIGITS = 8
OUTCOME = "outcome_of_"  # before the name of a function that gives a value or an error for each row
_FULL_NAME = re.compile(rf"\b[a-z][a-z0-9_]*__[0-9a-f]{{{DIGITS}}}\b")


@dataclass(frozen=True)
class UserFunction(UserCode):
    """A function: one value for each event."""

    @property
    def signature(self) -> str:
        """The call as in a message."""
        return f"{self.name}({', '.join(f'{name} {of}' for name, of in self.takes)})"


# By full name: those of loaded definitions, and of views that were read back. Equal names have equal code.
_known: dict[str, UserFunction] = {}
Own = UserFunction | UdafDefinition
# By name: those that the definitions that are being read may call.
callable_names: ContextVar[dict[str, Own] | None] = ContextVar("callable_names", default=None)


@contextmanager
def fresh_names() -> Iterator[None]:
    """While it lasts, definitions may call what is declared in it, and nothing that was declared before."""
    token = callable_names.set({})
    try:
        yield
    finally:
        callable_names.reset(token)


def declare(own: Own) -> None:
    """Make a function or an aggregate known, and callable by the definitions that are being read."""
    if isinstance(own, UserFunction):
        _known[own.full_name] = own
    else:
        declare_aggregate(own)
    names = callable_names.get()
    if names is not None:
        names[own.name] = own


def find_function(name: str) -> UserFunction | None:
    """The function that an expression calls by its name or its full name, in lower case."""
    own = (callable_names.get() or {}).get(name)
    return own if isinstance(own, UserFunction) else _known.get(name)


def find_aggregate(name: str) -> type[Aggregate] | None:
    """The aggregate of a name in lower case: ours, or one of the workspace, also by its full name."""
    own = (callable_names.get() or {}).get(name)
    if isinstance(own, UdafDefinition):
        return declare_aggregate(own)
    return REGISTRY.get(name) or own_class(name)


def functions_of(calling: Iterable[Expression | str | None]) -> list[UserFunction]:
    """Those that expressions call, or that are named themselves, each once."""
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


def to_json(own: Own) -> dict[str, Any]:
    """A function or an aggregate as plain JSON values."""
    value: dict[str, Any] = {
        "name": own.name,
        "takes": [[name, str(of)] for name, of in own.takes],
        "gives": str(own.gives),
        "digest": own.digest,
        "code": base64.b64encode(own.code).decode(),
    }
    return {**value, "partial": str(own.partial)} if isinstance(own, UdafDefinition) else value


def from_json(value: Mapping[str, Any]) -> Own:
    """What `to_json` wrote."""
    takes = tuple((name, parse_type(of)) for name, of in value["takes"])
    gives, digest, code = parse_type(value["gives"]), value["digest"], base64.b64decode(value["code"])
    if "partial" in value:
        return UdafDefinition(value["name"], takes, gives, digest, code, parse_type(value["partial"]))
    return UserFunction(value["name"], takes, gives, digest, code)
