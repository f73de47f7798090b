"""Definitions in Python: hr.Stream, hr.Table, hr.View and hr.window.

The objects are equal to those of SQL, by the same rules.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import replace
from datetime import timedelta
from typing import TypeVar

from headrace.define import model
from headrace.define.answer_shape import ShapeReader, ShapeScope
from headrace.define.definition_rules import (
    check_event_time,
    check_format,
    check_idle_timeout,
    check_key,
    make_calendar_window,
    make_cumulative,
    make_session,
    make_window,
)
from headrace.define.kafka_record import check_record_fields
from headrace.define.python.query_builder import Aggregation, Query, Queryable, caller, source_of
from headrace.define.python.query_rows import all_rows_of, join_conditions, rows_of
from headrace.define.python.source_builder import read_unique
from headrace.define.relation_rewrites import view_over
from headrace.define.sql_definitions import read_fields
from headrace.define.table_parts import derived_table, make_table, over_table
from headrace.define.view_columns import is_aggregate, make_aggregate, make_column, make_parameter, read_arguments
from headrace.define.view_windows import is_bucket, is_window_call, read_bucket, read_span, read_window
from headrace.errors import DefinitionError, Location
from headrace.language.calendar import Calendar, zone_name
from headrace.language.check import Checker, Scope, check, check_condition
from headrace.language.durations import SECOND_MS, parse_duration
from headrace.language.expressions import parse_tree
from headrace.language.identifiers import check_distinct, check_name
from headrace.language.source_text import Mistakes, SourceText, placed
from headrace.language.statements.create_view import LogicalStatement, check_limit, read_item_text, read_order_text
from headrace.language.syntax import Call
from headrace.language.terms import Expression, conjunction
from headrace.language.user_functions import plain

Declared = TypeVar("Declared", model.Stream, model.Table, model.View, LogicalStatement, model.Sink, model.Alert)

# What is declared while a definition file runs, with its place; None outside of one.
declared: ContextVar[list[tuple[model.Definition | LogicalStatement, Location]] | None] = ContextVar(
    "declared", default=None
)


def Stream(  # noqa: N802 - reads as the noun it makes
    name: str,
    fields: str | Queryable,
    *,
    event_time: str | None = None,
    patience: str | timedelta | None = None,
    format: str = model.JSON,
    idle_timeout: str | timedelta | None = None,
    source: model.Source | None = None,
    unique: str | Sequence[str] | None = None,
    within: str | timedelta | None = None,
) -> model.Stream:
    """A stream: fields as in CREATE STREAM, the event time field, and the patience for late events.

    Instead of fields it may have a query, as in `hr.Stream("slow", clicks.where("ms > 1000"))`: then it is derived. Its
    event time and its patience are those of its streams, unless they are given.

    `format` is "json", or "text" for a stream of lines. After `idle_timeout` without events, windows settle by the
    clock. `source` is `hr.kafka(…)` if the events are in Kafka. Events with the same values of the `unique` fields
    count once, if they are less than `within` of event time apart.
    """
    at = caller()
    with placed(at):
        check_name(name, "stream")
        if isinstance(fields, Queryable):
            others = (format != model.JSON, idle_timeout, source, unique, within)
            return declare(_derived(name, fields, event_time, patience, others), at)
        patience = "0s" if patience is None else patience
        typed_fields = read_fields(source_of(fields, "the list of fields"))
        patience_ms = milliseconds(patience)
        if event_time is None and patience_ms:
            raise DefinitionError(f"stream '{name}' has a patience but no event_time", fix='add event_time="at"')
        if event_time is not None:
            event_time = check_event_time(event_time, typed_fields, name)
        if source is not None and not isinstance(source, model.Source):
            raise DefinitionError(
                f"stream '{name}': the source is not one", found=type(source).__name__,
                fix='write source=hr.kafka(topic="visits")',
            )  # fmt: skip
        check_record_fields(typed_fields, source, name)
        format = check_format(format, typed_fields, name, source)
        idle_timeout_ms = None if idle_timeout is None else check_idle_timeout(milliseconds(idle_timeout))
        once = read_unique(unique, None if within is None else milliseconds(within), typed_fields, name)
        options = (format, idle_timeout_ms, source)
        stream = model.Stream(name, typed_fields, event_time, patience_ms, *options, unique=once)
        return declare(stream, at)


def Table(  # noqa: N802
    name: str,
    fields: str | Queryable,
    *,
    key: str | Sequence[str] = (),
    event_time: str | None = None,
    patience: str | timedelta | None = None,
    source: model.Source | None = None,
) -> model.Table:
    """A table: columns as in CREATE TABLE, and the columns of its primary key.

    It stores the latest row of each key: by `event_time` if one is given, otherwise the last to arrive. Instead of
    columns it may have a query, as in `hr.Table("lives", moves.select("person", "place"), key="person")`: the latest by
    the event time of its streams, unless another is given.
    """
    at = caller()
    with placed(at):
        check_name(name, "table")
        keys = [key] if isinstance(key, str) else list(key)
        if isinstance(fields, Queryable):
            changes = _derived(name, fields, event_time, patience, (source,), "table")
            return declare(derived_table(changes, keys), at)
        columns = read_fields(source_of(fields, "the list of columns"))
        patience_ms = milliseconds("0s" if patience is None else patience)
        if event_time is None and patience_ms:
            raise DefinitionError(f"table '{name}' has a patience but no event_time", fix='add event_time="at"')
        if event_time is not None:
            event_time = check_event_time(event_time, columns, name, of="table")
        check_record_fields(columns, source, name)
        return declare(make_table(name, columns, keys, event_time, patience_ms, source=source), at)


def View(name: str, query: Query, *, schedule: str | timedelta | None = None) -> model.View:  # noqa: N802
    """A materialized view of a query over a stream."""
    at = caller()
    with placed(at):
        check_name(name, "view")
        if not isinstance(query, Query):
            raise DefinitionError(
                f"view '{name}' needs a query",
                found=type(query).__name__,
                fix="write visits.group_by(…).agg(…); a SELECT over views is hr.LogicalView"
                if isinstance(query, str)
                else "write visits.group_by(…).agg(…)",
            )
        table, schedule_ms = query.stream, _schedule_ms(schedule)
        if isinstance(table, model.Table) and not query.steps:
            view = over_table(table, lambda rows: _build(name, replace(query, stream=rows), schedule_ms))
            return declare(view, at)
        return declare(_build(name, query, schedule_ms), at)


def window(
    size: str | timedelta,
    slide: str | timedelta | None = None,
    *,
    start: str | None = None,
    end: str | None = None,
    zone: str | None = None,
    offset: str | timedelta = "0s",
) -> model.Window:
    """Windows of a size, one every `slide` (default: the size), counted from `offset` after the epoch.

    A size such as "1 month" or "week" is a calendar window, in UTC or in the time zone; with a zone, so are days and
    weeks. `start` and `end` are additional names for window_start and window_end.
    """
    with placed(caller()):
        span = _span(size, zone)
        if not isinstance(span, Calendar):
            window_ = make_window(span, None if slide is None else milliseconds(slide), milliseconds(offset))
        elif slide is not None or milliseconds(offset):
            raise DefinitionError(
                "calendar windows follow one another: they have no slide and no offset",
                fix='leave it out; hr.cumulate("1 day", "1 month") is the running total of a month',
            )
        else:
            window_ = make_calendar_window(span)
        return _named(window_, start, end)


def cumulate(
    step: str | timedelta,
    size: str | timedelta,
    *,
    start: str | None = None,
    end: str | None = None,
    zone: str | None = None,
) -> model.Window:
    """Windows that grow by a step until they have their size, then begin again, as for the running total of a day.

    The size, `zone`, `start` and `end` are as in `window`.
    """
    with placed(caller()):
        return _named(make_cumulative(milliseconds(step), _span(size, zone)), start, end)


def session(
    gap: str | timedelta,
    *,
    start: str | None = None,
    end: str | None = None,
) -> model.Window:
    """Sessions: windows of each key that begin with an event and end when no event comes for the gap.

    A gap that depends on the event is a key as text: "session_window(at, CASE WHEN … THEN … ELSE … END)". `start` and
    `end` are as in `window`.
    """
    with placed(caller()):
        return _named(make_session(milliseconds(gap)), start, end)


def _named(window_: model.Window, start: str | None, end: str | None) -> model.Window:
    for name in (start, end):
        if name is not None:
            check_name(name, "column")
    return replace(window_, start_name=start, end_name=end)


def _span(size: str | timedelta, zone: str | None) -> int | Calendar:
    zone = None if zone is None else zone_name(zone)
    if isinstance(size, timedelta):
        days, rest = divmod(size, timedelta(days=1))
        size = f"{days} days" if not rest and days else f"{size / timedelta(milliseconds=1)} ms"
    if not isinstance(size, str):
        raise DefinitionError("a duration is a text", found=repr(size), expected="for example '1 minute'")
    return read_span(size, zone)


def _derived(
    name: str,
    fields: Queryable,
    event_time: str | None,
    patience: str | timedelta | None,
    others: Sequence[object],
    kind: str = "stream",
) -> model.Stream:
    if any(other not in (None, False) for other in others):
        refused = "format, source, idle_timeout or unique" if kind == "stream" else "source"
        raise DefinitionError(
            f"{kind} '{name}' is derived: it has no {refused} of its own", fix="set them where the events come in"
        )
    query = fields if isinstance(fields, Query) else Query(fields)
    rows = all_rows_of(query, f"{kind} '{name}'")
    if event_time is not None:
        rows = rows.watermark(event_time, None if patience is None else milliseconds(patience))
    elif patience is not None:
        raise DefinitionError(f"{kind} '{name}' has a patience but no event_time", fix='add event_time="at"')
    return rows.stream(name)


def _build(name: str, query: Query, schedule_ms: int | None) -> model.View:
    rows = rows_of(query)
    stream: model.Stream = rows.stream(query.stream.name) if query.steps else query.stream
    scope = rows.scope()
    mistakes = Mistakes()
    keys, window_ = _groups(query, stream, scope, mistakes)
    columns: dict[str, model.Column] = {}
    for column, written in query.columns:
        with mistakes.collect():
            aggregate = _column(column, written, scope)
            if aggregate is not None:
                columns[column] = aggregate
    reader = ShapeReader(ShapeScope(scope, keys, window_, list(columns.values()), f"view '{name}'", may_add=True))
    shape = _shape(query, reader, columns, mistakes)
    where: Expression | None = None
    with mistakes.collect():
        where = join_conditions(query.conditions, scope)
    mistakes.check()
    all_columns = tuple(reader.scope.columns)
    if not all_columns:
        raise DefinitionError(f"view '{name}' has no aggregate", fix="end the query with .agg(hits=hr.count())")
    bounds = window_.names if window_ else ()
    check_distinct([*(key.name for key in keys), *bounds, *(output.name for output in reader.outputs)], "the column")
    view = model.View(name, (stream.name,), tuple(keys), all_columns, window_, where, schedule_ms, shape=shape)
    view = view.reading(stream.reads)
    return view_over(view, stream) if stream.relation else view


def _shape(
    query: Query, reader: ShapeReader, columns: dict[str, model.Column], mistakes: Mistakes
) -> model.Shape | None:
    """Read the outputs in the order of agg(…), then the conditions and the order, which may name each of them."""
    reader.scope.broken = frozenset(name.lower() for name, _ in query.columns if name not in columns)
    for name, written in query.columns:
        with mistakes.collect():
            if name in columns:
                reader.add_column(columns[name])
            elif isinstance(written, SourceText):
                with placed(written.at or caller()):
                    check_name(name, "column")
                reader.add(written, parse_tree(written), name)
    conditions: list[Expression] = []
    order: list[model.Order] = []
    for source in query.having_conditions:
        with mistakes.collect():
            conditions.append(reader.having(source, parse_tree(source)))
    for source in query.order:
        with mistakes.collect():
            order += [reader.order(source, item) for item in read_order_text(source)]
    limit = None
    if query.most_rows:
        with mistakes.collect():
            limit = check_limit(SourceText("", at=query.most_rows[1]), 0, query.most_rows[0])
    return reader.shape(conjunction(conditions), order, limit)


def _groups(
    query: Query, stream: model.Stream, scope: Scope, mistakes: Mistakes
) -> tuple[list[model.Key], model.Window | None]:
    keys: list[model.Key] = []
    window_: model.Window | None = None
    has_window = any(isinstance(what, model.Window) for _, what, _ in query.groups)
    for name, what, at in query.groups:
        with mistakes.collect(), placed(at):
            if isinstance(what, SourceText) and not has_window:
                bucket = _bucket(name, what, stream, scope)
                if bucket is not None and window_ is None:
                    window_ = bucket
                    continue
            if isinstance(what, model.Window) and name is None:
                if window_:
                    raise DefinitionError("a view has one window", fix="remove one; a query can use other windows")
                window_ = what
            elif isinstance(what, SourceText):
                keys.append(_key(name, what, scope))
            else:
                raise DefinitionError("a key is a text or hr.window(…)", found=repr(what))
    return keys, window_


def _bucket(name: str | None, source: SourceText, stream: model.Stream, scope: Scope) -> model.Window | None:
    """The window that a key such as date_trunc('hour', at) or session_window(at, …) is; None for other keys."""
    item = read_item_text(source, "key")
    if isinstance(item.node, Call) and is_window_call(item.node):
        return _named(read_window(source, item.node, stream, scope), name or item.alias, None)
    if not is_bucket(item.node, stream):
        return None
    return _named(read_bucket(source, item.node, stream), name or item.alias, None)


def _key(name: str | None, source: SourceText, scope: Scope) -> model.Key:
    item = read_item_text(source, "key")
    expression = check(source, item.node, scope)
    check_key(expression)
    name = name or item.alias or Checker(source, scope).name(item.node)
    if name is None:
        written = plain(expression.sql)
        raise DefinitionError(f"the key {written} has no name", fix=f'write group_by(name="{written}")')
    check_name(name, "key")
    return model.Key(name, expression)


def _column(name: str, aggregation: Aggregation | SourceText, scope: Scope) -> model.Column | None:
    """The column of an aggregate; None for an expression over aggregates."""
    if isinstance(aggregation, SourceText):
        node = parse_tree(aggregation)
        return make_column(aggregation, scope, node, name) if is_aggregate(node) else None
    with placed(aggregation.at):
        check_name(name, "column")
        cls, where = aggregation.of, aggregation.where
        nodes = [(source, parse_tree(source)) for source in aggregation.arguments]
        arguments = read_arguments(cls, nodes, scope)
        pairs = zip(cls.constants, aggregation.parameters, strict=False)
        parameters = [make_parameter(cls, parameter, value) for parameter, value in pairs]
        condition = check_condition(where, parse_tree(where), scope, "where") if where else None
        return model.Column(name, make_aggregate(cls, arguments, tuple(parameters), condition))


def _schedule_ms(schedule: str | timedelta | None) -> int | None:
    ms = None if schedule is None else milliseconds(schedule)
    if ms is not None and ms < SECOND_MS:
        raise DefinitionError("a schedule is at least 1 second", fix='for example schedule="1 hour"')
    return ms


def milliseconds(duration: str | timedelta) -> int:
    """A duration in milliseconds."""
    if isinstance(duration, timedelta):
        duration = f"{duration / timedelta(milliseconds=1)} ms"
    if not isinstance(duration, str):
        raise DefinitionError("a duration is a text", found=repr(duration), expected="for example '1 minute'")
    return parse_duration(duration)


def declare(definition: Declared, at: Location) -> Declared:
    """Record a definition of the file that runs, if one does."""
    records = declared.get()
    if records is not None:
        records.append((definition, at))
    return definition
