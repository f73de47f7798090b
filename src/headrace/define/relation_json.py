"""Relations and expressions as plain JSON values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.define.model import ARRIVED
from headrace.define.relation import (
    Branch,
    Explode,
    Filter,
    Join,
    Map,
    Project,
    Reads,
    Relation,
    RowStep,
    SampleRows,
    TableLog,
    types_after,
)
from headrace.language.terms import Expression
from headrace.language.token_cursor import parse_type
from headrace.types import TIMESTAMP, Type

Types = Mapping[str, Type] | None  # None: they become known when the expression is used


def expression_from_json(value: dict[str, str], types: Types) -> Expression:
    """Return the expression that `Expression.to_json` wrote, over fields of these types."""
    return Expression.stored(value["sql"], parse_type(value["type"]), types)


def optional_from_json(value: dict[str, str] | None, types: Types) -> Expression | None:
    """Return the expression that was written, if there was one."""
    return expression_from_json(value, types) if value else None


def relation_to_json(relation: Relation) -> dict[str, Any]:
    """A relation as plain JSON values; `relation_from_json` gives an equal one back."""
    return {
        "branches": [
            {
                "stream": each.stream,
                "reads": _reads_to_json(each.reads),
                "steps": [_step_to_json(s) for s in each.steps],
                **({} if each.patience_ms is None else {"patience_ms": each.patience_ms}),
                **({"own_time": True} if each.own_time else {}),
            }
            for each in relation.branches
        ],
        "fields": _reads_to_json(relation.fields),
        "event_time": relation.event_time,
    }


def relation_from_json(value: dict[str, Any]) -> Relation:
    """The relation that `relation_to_json` wrote."""
    branches = tuple(_branch_from_json(each) for each in value["branches"])
    return Relation(branches, _reads_from_json(value["fields"]), value["event_time"])


def _branch_from_json(value: dict[str, Any]) -> Branch:
    reads = _reads_from_json(value["reads"])
    types, steps = dict(reads), list[RowStep]()
    for each in value["steps"]:
        steps.append(_step_from_json(each, {**types, ARRIVED: TIMESTAMP}))
        types = types_after(types, steps[-1])
    return Branch(value["stream"], reads, tuple(steps), value.get("patience_ms"), value.get("own_time", False))


def _step_to_json(step: RowStep) -> dict[str, Any]:
    match step:
        case Filter():
            return {"filter": step.condition.to_json()}
        case Project():
            return {"project": [[name, of.to_json()] for name, of in step.columns]}
        case Explode():
            return {
                "explode": step.values.to_json(),
                "columns": _reads_to_json(zip(step.names, step.types, strict=True)),
                "outer": step.outer,
                "position": step.position,
            }
        case Map():
            arguments = [argument.to_json() for argument in step.arguments]
            return {"map": step.function, "arguments": arguments, "columns": _reads_to_json(step.columns)}
        case Join():
            return {
                "join": step.table,
                "kind": step.kind,
                "keys": [[of.to_json(), column] for of, column in step.keys],
                "log": _log_to_json(step.log),
                "columns": [[name, column, str(of)] for name, column, of in step.columns],
                "as_of": step.as_of.to_json() if step.as_of else None,
                "condition": step.condition.to_json() if step.condition else None,
                "keep_missing": step.keep_missing,
            }
        case SampleRows():
            keys = [key.to_json() for key in step.keys]
            return {"sample": step.percent, "seed": step.seed, "keys": keys}


def _step_from_json(value: dict[str, Any], types: dict[str, Type]) -> RowStep:
    if "filter" in value:
        return Filter(expression_from_json(value["filter"], types))
    if "project" in value:
        return Project(tuple((name, expression_from_json(of, types)) for name, of in value["project"]))
    if "explode" in value:
        columns = _reads_from_json(value["columns"])
        names, of_names = (tuple(part) for part in zip(*columns, strict=True))
        return Explode(
            expression_from_json(value["explode"], types), names, of_names, value["outer"], value["position"]
        )
    if "map" in value:
        arguments = tuple(expression_from_json(argument, types) for argument in value["arguments"])
        return Map(value["map"], arguments, _reads_from_json(value["columns"]))
    if "join" in value:
        added = tuple((name, column, parse_type(of)) for name, column, of in value["columns"])
        return Join(
            value["join"],
            value["kind"],
            tuple((expression_from_json(of, types), column) for of, column in value["keys"]),
            _log_from_json(value["log"]),
            added,
            optional_from_json(value["as_of"], types),
            optional_from_json(value["condition"], {**types, **{name: of for name, _, of in added}}),
            value["keep_missing"],
        )
    return SampleRows(value["sample"], value["seed"], tuple(expression_from_json(key, types) for key in value["keys"]))


def _log_to_json(log: TableLog) -> dict[str, Any]:
    relation = {"relation": relation_to_json(log.relation)} if log.relation else {}
    return {"stream": log.stream, "key": _reads_to_json(log.key), "event_time": log.event_time, **relation}


def _log_from_json(value: dict[str, Any]) -> TableLog:
    relation = relation_from_json(value["relation"]) if "relation" in value else None
    return TableLog(value["stream"], _reads_from_json(value["key"]), value["event_time"], relation)


def _reads_to_json(reads: Iterable[tuple[str, Any]]) -> list[list[str]]:
    return [[name, str(of)] for name, of in reads]


def _reads_from_json(value: Iterable[tuple[str, str]]) -> Reads:
    return tuple((name, parse_type(of)) for name, of in value)
