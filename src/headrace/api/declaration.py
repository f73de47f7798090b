"""How a verb of a workspace is declared, and tables of the functions that answer verbs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Generic, Literal, ParamSpec, Protocol, Self, TypeVar, overload
from urllib.parse import quote

P = ParamSpec("P")
R = TypeVar("R")
Kind = TypeVar("Kind", bound="JsonReadable")
Repeat = Literal["never", "until replied", "until ready"]


class JsonReadable(Protocol):
    """A value that clients read from JSON."""

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], /) -> Self:
        """Return the value that the JSON shows."""


@dataclass(frozen=True)
class VerbReply(Generic[R]):
    """The reply to a verb: what the server shows as JSON, of the value and the request, and how a client reads it."""

    name: str  # of its type
    show: Callable[[R, Mapping[str, Any]], Any]
    read: Callable[[Any], R]


def one(kind: type[Kind]) -> VerbReply[Kind]:
    """A single value."""
    return VerbReply(kind.__name__, lambda value, request: value, kind.from_dict)


def many(name: str, kind: type[Kind], *beside: str) -> VerbReply[list[Kind]]:
    """A list of values under a name, beside these fields of the request."""
    return VerbReply(
        f"list[{kind.__name__}]",
        lambda values, request: {**{each: request[each] for each in beside}, name: values},
        lambda content: [kind.from_dict(each) for each in content[name]],
    )


@dataclass(frozen=True)
class HttpParameter:
    """What HTTP says of a field of a request."""

    about: str
    kind: type = str  # of its JSON value
    name: str | None = None  # if it is not the name of the field
    needed: str | None = None  # what is expected; a request without it is refused
    least: int | None = None
    most: int | None = None
    read: Callable[[Any], Any] | None = None  # from its JSON value
    write: Callable[[Any], Any] | None = None


def about(text: str, **options: Any) -> dict[str, HttpParameter]:
    """The metadata of a field of a request: what HTTP says of it."""
    return {"http": HttpParameter(text, **options)}


class Invoker(Protocol):
    """What answers verbs."""

    def invoke(self, verb: Verb[P, R], /, *arguments: P.args, **options: P.kwargs) -> R:
        """Answer a verb."""


class Verb(Generic[P, R]):
    """A method of a workspace: an attribute of a class that answers verbs, with the parameters of its request.

    `place` is its method and path in HTTP. Fields of the request that the path names are parts of it; others are
    parameters of the query, or of POST fields of a JSON object.
    """

    name: str

    def __init__(
        self,
        request: Callable[P, object],
        reply: VerbReply[R],
        place: str,
        text: str = "",
        *,
        title: str | None = None,  # of the operation in OpenAPI, if it is not the name
        in_query: bool = False,  # the parameters of a POST
        repeat: Repeat = "never",
        timeout_s: float | None = None,
    ) -> None:
        self.request, self.reply, self.text, self.title = request, reply, text, title
        self.method, self.path = place.split()
        self.in_query = in_query or self.method != "POST"
        self.repeat, self.timeout_s = repeat, timeout_s

    def __set_name__(self, owner: type, name: str) -> None:
        if not hasattr(self, "name"):
            self.name = name

    @overload
    def __get__(self, workspace: None, owner: type) -> Self: ...
    @overload
    def __get__(self, workspace: Invoker, owner: type) -> Callable[P, R]: ...
    def __get__(self, workspace: Invoker | None, owner: type) -> Self | Callable[P, R]:
        return self if workspace is None else partial(workspace.invoke, self)

    def parameters(self) -> dict[str, HttpParameter]:
        """What HTTP says of the fields of its request, by their names."""
        declared: Any = self.request
        return {each.name: each.metadata["http"] for each in fields(declared) if "http" in each.metadata}

    def url(self, **parts: object) -> str:
        """Its path, with the parts that it names."""
        return self.path.format_map({name: quote(f"{part}", safe="") for name, part in parts.items()})


class Handlers:
    """The functions that answer verbs."""

    def __init__(self) -> None:
        self._functions: dict[str, Callable[..., Any]] = {}

    def on(self, verb: Verb[P, R], function: Callable[P, R]) -> None:
        """Answer a verb by a function with its parameters and result."""
        self._functions[verb.name] = function

    def find(self, verb: Verb[P, R]) -> Callable[P, R] | None:
        """The function that answers a verb, if there is one."""
        return self._functions.get(verb.name)
