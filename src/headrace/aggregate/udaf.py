"""Aggregates that a workspace defines in Python, over Arrow arrays.

A partial is a value of the declared type. In a store it is bytes, the full name of the aggregate and the value, so that
one pair of merge functions serves all of them.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from headrace.aggregate.aggregate import Aggregate, ArrowFunction, Partial, PartialColumn, Value
from headrace.aggregate.kernels import unchunked
from headrace.aggregate.merges import Merge
from headrace.aggregate.signature import Argument, ArgumentKind
from headrace.call_limits import LateCallError, call_in_time
from headrace.errors import HeadraceError
from headrace.language.user_functions import UserCode, callable_names, declare
from headrace.lazy import np, pa
from headrace.types import BINARY, Type, arrow_type, struct

WIDENS = {"DOUBLE": ("INT", "BIGINT", "DOUBLE"), "BIGINT": ("INT", "BIGINT")}
TOLERANCE = 1e-9  # of DOUBLEs, relative: where an aggregate does not say when values agree
END = b"\0"  # of the name


@dataclass(frozen=True)
class UdafDefinition(UserCode):
    """An aggregate as a definition file declares it."""

    partial: Type


def call_code(what: str, run: Callable[..., Any], gives: Type, items: str, *arrays: pa.Array) -> pa.Array:
    """What a user's code returns, checked: a value of the type for each of the items.

    Raises HeadraceError, naming the code, where it fails or gives something else.
    """
    try:
        values = call_in_time(what, run, *arrays)
    except LateCallError:
        raise
    except Exception as error:
        raise HeadraceError(f"{what} failed: {type(error).__name__}: {error}") from error
    if isinstance(values, pa.Table | pa.RecordBatch) and gives.name == "STRUCT":
        values = _structs(what, values, gives)
    if not isinstance(values, pa.Array | pa.ChunkedArray):
        raise HeadraceError(f"{what} returned {type(values).__name__}", expected="an Arrow array")
    if len(values) != len(arrays[0]):
        raise HeadraceError(
            f"{what} returned {len(values)} values for {len(arrays[0])} {items}", expected="one value for each of them"
        )
    try:
        return unchunked(values).cast(arrow_type(gives))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise HeadraceError(f"{what} returned {values.type}: {error}", expected=str(gives)) from error


def _structs(what: str, table: pa.Table | pa.RecordBatch, gives: Type) -> pa.Array:
    """The rows of a table as values of a STRUCT, each column cast to the type that it is declared with."""
    columns = []
    for name, of in gives.parts:
        if name not in table.schema.names:
            names = ", ".join(table.schema.names) or "no column"
            raise HeadraceError(f"{what} returned no column '{name}'", found=names, expected=str(gives))
        column = unchunked(table.column(name))
        try:
            columns.append(column.cast(arrow_type(of)))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise HeadraceError(f"{what} returned {column.type} as '{name}': {error}", expected=str(of)) from error
    return pa.StructArray.from_arrays(columns, fields=list(arrow_type(gives)))


_classes: dict[str, type[UserAggregate]] = {}  # by full name; equal names have equal code


def find_user_aggregate(name: str) -> type[UserAggregate] | None:
    """The aggregate of a user with this name, if the definitions that are being read may call it, or this full name."""
    code = (callable_names.get() or {}).get(name)
    return _classes.get(code.full_name if isinstance(code, UdafDefinition) else name)


def declare_aggregate(definition: UdafDefinition) -> type[UserAggregate]:
    """The class of an aggregate, from now on known by its full name."""
    declare(definition)
    if definition.full_name not in _classes:
        takes = tuple(
            Argument(name, ArgumentKind(f"a value of type {of}", WIDENS.get(of.name, (of.name,)), nested=of.is_nested))
            for name, of in definition.takes
        )
        attributes = {
            "name": definition.full_name,
            "takes": takes,
            "definition": definition,
            "summary": f"The aggregate {definition.name} of the workspace.",
            "gives": str(definition.gives),
            "examples": (),
        }
        _classes[definition.full_name] = type(definition.name, (UserAggregate,), attributes)
    return _classes[definition.full_name]


class UserAggregate(Aggregate):
    """What aggregates of a workspace share; each of them is a subclass."""

    definition: ClassVar[UdafDefinition]
    runs_in_duckdb = True

    @property
    def type(self) -> Type:
        return self.definition.gives

    @property
    def columns(self) -> tuple[PartialColumn, ...]:
        return (PartialColumn("", BINARY, OWN),)

    def spark_columns(self, *arguments: str) -> tuple[str, ...]:
        parts = [
            f"'{name}', CAST({sql} AS {of})" for (name, of), sql in zip(self.definition.takes, arguments, strict=True)
        ]
        events = self.filtered(f"collect_list(named_struct({', '.join(parts)}))")
        return (f"{self._lift_function.name}({events})",)

    def duckdb_columns(self, *arguments: str) -> tuple[str, ...]:
        parts = [f'"{name}" := {sql}' for (name, _), sql in zip(self.definition.takes, arguments, strict=True)]
        events = self.filtered(f"list(struct_pack({', '.join(parts)}))")
        return (f"{self._lift_function.name}({events})",)

    @property
    def lifts(self) -> tuple[ArrowFunction, ...]:
        return (self._lift_function,)

    @property
    def _lift_function(self) -> ArrowFunction:
        run = functools.partial(lift_lists, self.definition)
        return ArrowFunction(
            f"{self.name}_lift", struct(*self.definition.takes), BINARY, run, of_list=True, of_null=True
        )

    def lift(self, *arguments: Value) -> Partial:
        event = dict(zip((name for name, _ in self.definition.takes), arguments, strict=True))
        of = pa.list_(arrow_type(struct(*self.definition.takes)))
        return (lift_lists(self.definition, pa.array([[event]], of))[0].as_py(),)

    def present(self, partial: Partial) -> Value:
        return self.present_arrow([pa.array(partial, pa.binary())])[0].as_py()

    def present_arrow(self, partials: Sequence[pa.Array]) -> pa.Array:
        values = _decode(self.definition, partials[0])
        return _call(self.definition, "present", self.definition.gives, values)

    def agrees(self, a: Partial, b: Partial) -> bool:
        code = _code(self.definition)
        return bool(getattr(code, "agrees", _agree)(self.present(a), self.present(b)))


def lift_lists(definition: UdafDefinition, lists: pa.Array) -> pa.Array:
    """The partial of each list of events, as bytes; NULL where there is none."""
    events = lists.flatten()
    types = [arrow_type(of) for _, of in definition.takes]
    arguments = [events.field(at).cast(of) for at, of in enumerate(types)]
    if not len(events):
        return pa.nulls(len(lists), pa.binary())
    partials = _call(definition, "lift", definition.partial, *arguments)
    return _encode(definition, _fold(definition, partials, _list_ids(lists), len(lists)))


def _list_ids(lists: pa.Array) -> Any:
    """For each item of the lists, the list that it is in."""
    lengths = [end - start for start, end in pairwise(lists.offsets.to_pylist())]
    if lists.null_count:
        lengths = [length if valid else 0 for length, valid in zip(lengths, lists.is_valid().to_pylist(), strict=True)]
    return np.repeat(np.arange(len(lists)), lengths)


def _fold(definition: UdafDefinition, partials: pa.Array, ids: Any, count: int) -> pa.Array:
    """The merge of all partials with the same id, NULL skipped; ids are sorted, 0 to count.

    Neighbours are merged in pairs, of all ids at once, until one is left of each: few calls whatever the sizes are.
    """
    valid = partials.is_valid().to_numpy(zero_copy_only=False)
    partials, ids = partials.filter(pa.array(valid)), ids[valid]
    while len(ids) > 1 and (ids[1:] == ids[:-1]).any():
        places = np.arange(len(ids)) - np.searchsorted(ids, ids)
        paired = np.append(ids[1:] == ids[:-1], False) & (places % 2 == 0)
        alone = (places % 2 == 0) & ~paired
        left = np.flatnonzero(paired)
        merged = _call(definition, "merge", definition.partial, partials.take(left), partials.take(left + 1))
        order = np.argsort(np.concatenate([left, np.flatnonzero(alone)]))
        partials = pa.concat_arrays([merged, partials.filter(pa.array(alone))]).take(order)
        ids = ids[paired | alone]
    places = np.searchsorted(ids, np.arange(count))
    there = np.isin(np.arange(count), ids)
    return partials.take(pa.array(places, mask=~there))


def _call(definition: UdafDefinition, method: str, gives: Type, *arrays: pa.Array) -> pa.Array:
    what, items = f"{method} of aggregate '{definition.name}'", "events" if method == "lift" else "partials"
    return call_code(what, getattr(_code(definition), method), gives, items, *arrays)


@functools.lru_cache(maxsize=1024)
def _code(definition: UdafDefinition) -> Any:
    return pickle.loads(definition.code)()


def _encode(definition: UdafDefinition, partials: pa.Array) -> pa.Array:
    name = definition.full_name.encode() + END
    values = partials.to_pylist()
    return pa.array([None if value is None else name + pickle.dumps(value) for value in values], pa.binary())


def _decode(definition: UdafDefinition, blobs: pa.Array) -> pa.Array:
    start = len(definition.full_name.encode()) + len(END)
    values = [None if blob is None else pickle.loads(blob[start:]) for blob in blobs.to_pylist()]
    return pa.array(values, arrow_type(definition.partial))


def _definition_of(blob: bytes) -> UdafDefinition:
    name = blob[: blob.index(END)].decode()
    if name not in _classes:
        raise HeadraceError(f"the aggregate {name} is not known here", fix="apply the definitions again")
    return _classes[name].definition


def _merge_lists(lists: pa.Array) -> pa.Array:
    """The merge of each list of partials."""
    items = lists.flatten()
    if not len(items):
        return pa.nulls(len(lists), pa.binary())
    definition = _definition_of(items[0].as_py())
    merged = _fold(definition, _decode(definition, items), _list_ids(lists), len(lists))
    return _encode(definition, merged)


def _merge_pairs(a: pa.Array, b: pa.Array) -> pa.Array:
    if not len(a):
        return a
    definition = _definition_of(a[0].as_py())
    left, right = _decode(definition, a), _decode(definition, b)
    return _encode(definition, _call(definition, "merge", definition.partial, left, right))


def _merge_many(blobs: Sequence[bytes]) -> bytes:
    merged: bytes = _merge_lists(pa.array([list(blobs)], pa.list_(pa.binary())))[0].as_py()
    return merged


def _agree(a: Value, b: Value) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or abs(a - b) <= TOLERANCE * max(abs(a), abs(b)) or (a != a and b != b)
    return bool(a == b)


OWN = Merge(
    "own", lambda a, b: _merge_many((a, b)), "own_union({0}, {1})", None, _merge_many, _merge_pairs, _merge_lists
)
