"""Definitions as canonical JSON, and the fingerprint of that."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any

from headrace.aggregate import INTERNAL, REGISTRY, Aggregate
from headrace.aggregate.udaf import UdafDefinition, UserAggregate, declare_aggregate, find_user_aggregate
from headrace.define.model import (
    ARRIVED,
    BOUNDS,
    JSON,
    Alert,
    Column,
    Definition,
    Field,
    Key,
    LogicalView,
    Options,
    Order,
    Output,
    Over,
    Shape,
    Sink,
    Source,
    Stream,
    Table,
    UniqueEvents,
    View,
    Window,
)
from headrace.define.relation import Relation
from headrace.define.relation_json import (
    Types,
    expression_from_json,
    optional_from_json,
    relation_from_json,
    relation_to_json,
)
from headrace.language.calendar import Calendar
from headrace.language.terms import Expression
from headrace.language.token_cursor import parse_type
from headrace.language.user_functions import UserCode, UserFunction, declare, functions_of
from headrace.types import TIMESTAMP, Type

FINGERPRINT_DIGITS = 16
OWN = "own"  # functions and aggregates of the workspace


def fingerprint(definition: Definition) -> str:
    """Return the fingerprint, equal for equal definitions, whichever front end, process or machine made them."""
    value = {name: part for name, part in to_json(definition).items() if name != OWN}  # digests are in it
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()[:FINGERPRINT_DIGITS]


@lru_cache(1024)  # each answer asks for them
def aggregate_id(aggregate: Aggregate) -> str:
    """Return a name of what an aggregate computes: one for equal ones, whatever their outputs are called."""
    canonical = json.dumps(_aggregate_to_json(aggregate), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"{aggregate.name}_{hashlib.sha256(canonical.encode()).hexdigest()[:8]}"


def to_json(definition: Definition) -> dict[str, Any]:
    """A definition as plain JSON values; `from_json` gives an equal definition back."""
    if isinstance(definition, Sink):
        return _sink_to_json(definition)
    if isinstance(definition, Alert):
        return _alert_to_json(definition)
    if isinstance(definition, Table):
        return _table_to_json(definition)
    if isinstance(definition, LogicalView):
        return _logical_to_json(definition)
    if isinstance(definition, Stream):
        stream: dict[str, Any] = {
            "kind": "stream",
            "name": definition.name,
            "fields": [_field_to_json(field) for field in definition.fields],
            "event_time": definition.event_time,
            "patience_ms": definition.patience_ms,
        }
        # Left out at their defaults: streams from before there were these keep their fingerprint.
        if definition.format != JSON:
            stream["format"] = definition.format
        if definition.idle_timeout_ms is not None:
            stream["idle_timeout_ms"] = definition.idle_timeout_ms
        if definition.source is not None:
            stream["source"] = source_to_json(definition.source)
        if definition.relation is not None:
            stream["relation"] = relation_to_json(definition.relation)
        if definition.unique is not None:
            stream["unique"] = {"columns": list(definition.unique.columns), "within_ms": definition.unique.within_ms}
        return _with_code(stream, definition.relation)
    window = definition.window
    view: dict[str, Any] = {
        "kind": "view",
        "name": definition.name,
        **_streams_to_json(definition.streams),
        "keys": [{"name": key.name, "expression": key.expression.to_json()} for key in definition.keys],
        "columns": [{"name": column.name, **_aggregate_to_json(column.aggregate)} for column in definition.columns],
        "window": _window_to_json(window) if window else None,
        "where": definition.where.to_json() if definition.where else None,
        "schedule_ms": definition.schedule_ms,
        "reads": [[name, str(of)] for name, of in definition.reads],
        # Left out where there is none: views from before there were shapes keep their fingerprint.
        **({"shape": _shape_to_json(definition.shape)} if definition.shape else {}),
        **({"relation": relation_to_json(definition.relation)} if definition.relation else {}),
        **({"over": asdict(definition.over)} if definition.over else {}),
    }
    return _with_code(view, definition.relation, definition)


def _with_code(value: dict[str, Any], relation: Relation | None, view: View | None = None) -> dict[str, Any]:
    """A definition with the functions and aggregates of the workspace that it calls, in the order of its parts."""
    calling = [*(_calling(view) if view else ()), *(relation.calling() if relation else ())]
    code: list[UserCode] = [*functions_of(calling), *(_user_aggregates(view) if view else ())]
    return {**value, OWN: [_code_to_json(each) for each in code]} if code else value


def _calling(view: View) -> Iterator[Expression | None]:
    yield from (key.expression for key in view.keys)
    for column in view.columns:
        first, more = column.aggregate.arguments[:1], column.aggregate.arguments[1:]
        yield from (*first, column.aggregate.where, *more)
    yield view.where
    yield view.window.gap if view.window else None
    if view.shape:
        yield from (each.expression for each in view.shape.outputs)
        yield view.shape.having
        yield from (each.expression for each in view.shape.order)


def _user_aggregates(view: View) -> list[UdafDefinition]:
    classes = {type(column.aggregate) for column in view.columns}
    return sorted((cls.definition for cls in classes if issubclass(cls, UserAggregate)), key=lambda each: each.name)


def _code_to_json(code: UserCode) -> dict[str, Any]:
    value: dict[str, Any] = {
        "name": code.name,
        "takes": [[name, str(of)] for name, of in code.takes],
        "gives": str(code.gives),
        "digest": code.digest,
        "code": base64.b64encode(code.code).decode(),
    }
    return {**value, "partial": str(code.partial)} if isinstance(code, UdafDefinition) else value


def _declare(value: dict[str, Any]) -> None:
    """Make the function or aggregate known that `_code_to_json` wrote."""
    takes = tuple((name, parse_type(of)) for name, of in value["takes"])
    gives, digest, code = parse_type(value["gives"]), value["digest"], base64.b64decode(value["code"])
    if "partial" in value:
        declare_aggregate(UdafDefinition(value["name"], takes, gives, digest, code, parse_type(value["partial"])))
    else:
        declare(UserFunction(value["name"], takes, gives, digest, code))


def has_code(view: View) -> bool:
    """Return True if a view calls functions or aggregates of the workspace."""
    return bool(code_names(view))


def code_names(view: View) -> list[str]:
    """The functions and aggregates of the workspace that a view calls."""
    return [str(each["name"]) for each in to_json(view).get(OWN, [])]


def from_json(value: dict[str, Any]) -> Definition:
    """The definition that `to_json` wrote."""
    if value["kind"] == "sink":
        return _sink_from_json(value)
    if value["kind"] == "alert":
        return _alert_from_json(value)
    if value["kind"] == "logical view":
        return _logical_from_json(value)
    for each in value.get(OWN, []):
        _declare(each)
    relation = relation_from_json(value["relation"]) if "relation" in value else None
    if value["kind"] == "table":
        return _table_from_json(value, relation)
    if value["kind"] == "stream":
        fields = _fields_from_json(value["fields"])
        source = source_from_json(value["source"]) if "source" in value else None
        unique = value.get("unique")
        once = UniqueEvents(tuple(unique["columns"]), unique["within_ms"]) if unique else None
        options = (value.get("format", JSON), value.get("idle_timeout_ms"), source, relation, once)
        return Stream(value["name"], fields, value["event_time"], value["patience_ms"], *options)
    reads = tuple((name, parse_type(of)) for name, of in value.get("reads", []))
    # Views from before they stored what they read take its types from their stream.
    types = {**dict(reads), ARRIVED: TIMESTAMP} if "reads" in value else None
    keys = tuple(Key(key["name"], expression_from_json(key["expression"], types)) for key in value["keys"])
    columns = tuple(Column(column["name"], _aggregate_from_json(column, types)) for column in value["columns"])
    return View(
        name=value["name"],
        streams=(value["stream"],) if "stream" in value else tuple(value["streams"]),
        keys=keys,
        columns=columns,
        window=_window_from_json(value["window"], types) if value["window"] else None,
        where=optional_from_json(value["where"], types),
        schedule_ms=value["schedule_ms"],
        reads=reads,
        shape=_shape_from_json(value["shape"], shape_types(keys, columns)) if "shape" in value else None,
        relation=relation,
        over=Over(**value["over"]) if "over" in value else None,
    )


def _table_to_json(table: Table) -> dict[str, Any]:
    value: dict[str, Any] = {
        "kind": "table",
        "name": table.name,
        "fields": [_field_to_json(field) for field in table.fields],
        "key": list(table.key),
        "event_time": table.event_time,
        "patience_ms": table.patience_ms,
        **({"format": table.format} if table.format != JSON else {}),
        **({"source": source_to_json(table.source)} if table.source else {}),
        **({"relation": relation_to_json(table.relation)} if table.relation else {}),
    }
    return _with_code(value, table.relation)


def _table_from_json(value: dict[str, Any], relation: Relation | None) -> Table:
    return Table(
        name=value["name"],
        fields=_fields_from_json(value["fields"]),
        key=tuple(value["key"]),
        event_time=value["event_time"],
        patience_ms=value["patience_ms"],
        relation=relation,
        source=source_from_json(value["source"]) if "source" in value else None,
        format=value.get("format", JSON),
    )


def _sink_to_json(sink: Sink) -> dict[str, Any]:
    return {
        "kind": "sink",
        "name": sink.name,
        "source": sink.source,
        "connector": sink.connector,
        "options": dict(sink.options),
        "where": sink.where.to_json() if sink.where else None,
        "mode": sink.mode,
        "on_close": sink.on_close,
        "corrections": sink.corrections,
    }


def _sink_from_json(value: dict[str, Any]) -> Sink:
    return Sink(
        value["name"],
        value["source"],
        value["connector"],
        _options_from_json(value["options"]),
        optional_from_json(value["where"], None),
        value["mode"],
        value["on_close"],
        value["corrections"],
    )


def _alert_to_json(alert: Alert) -> dict[str, Any]:
    return {
        "kind": "alert",
        "name": alert.name,
        "source": alert.source,
        "outputs": _outputs_to_json(alert.outputs),
        "where": alert.where.to_json() if alert.where else None,
        "for_ms": alert.for_ms,
        "absent_ms": alert.absent_ms,
        "options": dict(alert.options),
        "on_close": alert.on_close,
    }


def _alert_from_json(value: dict[str, Any]) -> Alert:
    return Alert(
        value["name"],
        value["source"],
        _outputs_from_json(value["outputs"], None),
        optional_from_json(value["where"], None),
        value["for_ms"],
        value["absent_ms"],
        _options_from_json(value["options"]),
        value["on_close"],
    )


def _logical_to_json(view: LogicalView) -> dict[str, Any]:
    return {
        "kind": "logical view",
        "name": view.name,
        "sql": view.sql,
        "columns": [[name, str(of)] for name, of in view.columns],
        "reads": list(view.reads),
        "ordered": view.ordered,
    }


def _logical_from_json(value: dict[str, Any]) -> LogicalView:
    columns = tuple((name, parse_type(of)) for name, of in value["columns"])
    return LogicalView(value["name"], value["sql"], columns, tuple(value["reads"]), value["ordered"])


def _options_from_json(value: dict[str, str]) -> Options:
    return tuple(sorted(value.items()))


def _outputs_to_json(outputs: Iterable[Output]) -> list[dict[str, Any]]:
    return [{"name": each.name, "expression": each.expression.to_json()} for each in outputs]


def _outputs_from_json(value: Iterable[dict[str, Any]], types: Types) -> tuple[Output, ...]:
    return tuple(Output(each["name"], expression_from_json(each["expression"], types)) for each in value)


def source_to_json(source: Source) -> dict[str, Any]:
    """Where events come from, as plain JSON values."""
    return {"connector": source.connector, "options": dict(source.options)}


def source_from_json(value: dict[str, Any]) -> Source:
    """Return the source that `source_to_json` wrote."""
    return Source(value["connector"], _options_from_json(value["options"]))


def _streams_to_json(streams: tuple[str, ...]) -> dict[str, Any]:
    # One is written as before there could be several: those views keep their fingerprint.
    return {"stream": streams[0]} if len(streams) == 1 else {"streams": list(streams)}


def _window_to_json(window: Window) -> dict[str, Any]:
    # Left out where they are not used: views from before there were such windows keep their fingerprint.
    used = {name: value for name, value in asdict(replace(window, gap=None)).items() if value not in (None, 0, False)}
    gap = {"gap": window.gap.to_json()} if window.gap else {}
    return {"size_ms": window.size_ms, "slide_ms": window.slide_ms, **used, **gap}


def _window_from_json(value: dict[str, Any], types: Types) -> Window:
    calendar = value.get("calendar")
    gap = optional_from_json(value.get("gap"), types)
    return Window(**{**value, "calendar": Calendar(**calendar) if calendar else None, "gap": gap})


def _shape_to_json(shape: Shape) -> dict[str, Any]:
    return {
        "outputs": _outputs_to_json(shape.outputs),
        "having": shape.having.to_json() if shape.having else None,
        "order": [{**vars(each), "expression": each.expression.to_json()} for each in shape.order],
        "limit": shape.limit,
        **({"only_keys": True} if shape.only_keys else {}),
    }


def _shape_from_json(value: dict[str, Any], types: Types) -> Shape:
    order = (
        Order(**{**each, "expression": expression_from_json(each["expression"], types)}) for each in value["order"]
    )
    return Shape(
        _outputs_from_json(value["outputs"], types),
        optional_from_json(value["having"], types),
        tuple(order),
        value["limit"],
        value.get("only_keys", False),
    )


def _field_to_json(field: Field) -> dict[str, Any]:
    value: dict[str, Any] = {
        "name": field.name,
        "type": str(field.type),
        "nullable": field.nullable,
        "computed": field.computed.to_json() if field.computed else None,
    }
    # Left out where it is the field's name: streams from before there were paths keep their fingerprint.
    if field.record is not None:
        value["record"] = field.record
    return value if field.path is None else {**value, "from": field.path}


def _fields_from_json(value: Sequence[dict[str, Any]]) -> tuple[Field, ...]:
    types = {each["name"]: parse_type(each["type"]) for each in value}
    return tuple(_field_from_json(each, {**types, ARRIVED: TIMESTAMP}) for each in value)


def _field_from_json(value: dict[str, Any], types: Mapping[str, Type]) -> Field:
    computed, parts = value["computed"], (value.get("from"), value.get("record"))
    if computed:
        computed = Expression.stored(computed["sql"], parse_type(computed["type"]), types, is_applied=True)
    return Field(value["name"], types[value["name"]], value["nullable"], computed, *parts)


def shape_types(keys: Iterable[Key], columns: Iterable[Column]) -> dict[str, Type]:
    """The names that the expressions of a shape use, with their types."""
    return {
        **{key.name: key.expression.type for key in keys},
        **dict.fromkeys(BOUNDS, TIMESTAMP),
        **{aggregate_id(column.aggregate): column.aggregate.spark_type for column in columns},
    }


def _aggregate_to_json(aggregate: Aggregate) -> dict[str, Any]:
    arguments = [argument.to_json() for argument in aggregate.arguments]
    value: dict[str, Any] = {
        "aggregate": aggregate.name,
        "expression": arguments[0] if arguments else None,
        "where": aggregate.where.to_json() if aggregate.where else None,
    }
    # Left out where there are none: aggregates from before there could be several keep their names in a store.
    if len(arguments) > 1:
        value["more"] = arguments[1:]
    return {**value, "parameters": list(aggregate.parameters)} if aggregate.parameters else value


def _aggregate_from_json(value: dict[str, Any], types: Types) -> Aggregate:
    arguments = [value["expression"], *value.get("more", [])] if value["expression"] else []
    name = value["aggregate"]
    cls = INTERNAL.get(name) or REGISTRY.get(name) or find_user_aggregate(name)
    assert cls is not None, f"the aggregate {value['aggregate']} is known"
    return cls(
        tuple(expression_from_json(argument, types) for argument in arguments),
        optional_from_json(value["where"], types),
        tuple(tuple(each) if isinstance(each, list) else each for each in value.get("parameters", [])),
    )
