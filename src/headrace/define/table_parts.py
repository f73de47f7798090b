"""The two parts of a table: the stream of its changes, and the view of the latest row of each key.

Both have the table's name. The log, HTTP, files, dead letters, builds, answers and as-of questions are those of streams
and views; plan, status and commands show the two as one table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from headrace.aggregate.ordered import LatestRow
from headrace.aggregate.signature import KEPT
from headrace.define.definition_rules import check_key
from headrace.define.fingerprint import aggregate_id
from headrace.define.model import ARRIVED, JSON, Column, Field, Key, Output, Over, Shape, Source, Stream, Table, View
from headrace.define.relation import Relation
from headrace.define.relation_rewrites import view_over
from headrace.engine.duckdb_views import duckdb_view
from headrace.errors import DefinitionError, nearest
from headrace.language.identifiers import check_distinct
from headrace.language.terms import Expression, Term, conjunction, quote
from headrace.language.user_functions import functions_of
from headrace.types import BOOLEAN, TIMESTAMP

DELETED = "_deleted"  # of a change: whether it deletes the row of its key
_ROW = "row"


def make_table(
    name: str,
    fields: Sequence[Field],
    key: Sequence[str],
    event_time: str | None = None,
    patience_ms: int = 0,
    *,
    relation: Relation | None = None,
    source: Source | None = None,
    format_: str = JSON,
) -> Table:
    """A table with the columns of its key spelled as they are declared. Raises DefinitionError, without a place."""
    by_name = {field.name.lower(): field for field in fields}
    if not key:
        raise DefinitionError(f"table '{name}' has no primary key", fix=_example(fields))
    check_distinct(key, f"table '{name}': the column of the primary key")
    columns = []
    for each in key:
        field = by_name.get(each.lower())
        if field is None:
            near = nearest(each, [one.name for one in fields])
            raise DefinitionError(
                f"table '{name}' has no column '{each}' for its primary key",
                found=", ".join(one.name for one in fields),
                fix=f"did you mean '{near}'?" if near else "name one of its columns",
            )
        check_key(Expression.field(field.name, field.type))
        columns.append(field.name)
    for field in fields:
        check_column(name, field, columns, event_time)
    if source is not None and event_time in columns:
        raise DefinitionError(
            f"table '{name}': the event time '{event_time}' is part of the primary key, "
            "so that a message without a value could not say which row it deletes",
            fix="leave it out of the primary key, or leave out WATERMARK",
        )
    if format_ != JSON:
        raise DefinitionError(
            f"table '{name}' has the format {format_.upper()}", expected="JSON",
            fix="declare a stream of that format, and CREATE TABLE … PRIMARY KEY (…) AS SELECT … FROM it",
        )  # fmt: skip
    return Table(name, tuple(fields), tuple(columns), event_time, patience_ms, relation, source)


def check_column(table: str, field: Field, key: Sequence[str], event_time: str | None) -> None:
    """Raise DefinitionError, without a place, for a column that rows of a table cannot have."""
    if not KEPT.takes(field.type):
        raise DefinitionError(
            f"table '{table}': the column '{field.name}' is a {field.type}, which has no order",
            fix="declare its values as columns, as in plan STRING FROM '$.labels.plan'",
        )
    if not field.nullable and field.name not in key and field.name != event_time:
        raise DefinitionError(
            f"table '{table}': the column '{field.name}' is NOT NULL: a change that deletes a row has only its key",
            fix="leave out NOT NULL",
        )


def derived_table(changes: Stream, key: Sequence[str]) -> Table:
    """The table of the latest row of each key of a derived stream. Raises DefinitionError, without a place."""
    # The event time is carried along even where it is not selected.
    fields = [Field(each.name, each.type) for each in changes.fields if not each.name.startswith("_")]
    return make_table(changes.name, fields, key, changes.event_time, changes.patience_ms, relation=changes.relation)


def _example(fields: Sequence[Field]) -> str:
    first = next((field for field in fields if not field.type.is_nested), None)
    if first is None:
        return "add a column that is not nested, and make it the PRIMARY KEY"
    return f'write {quote(first.name)} {first.type} PRIMARY KEY; in Python key="{first.name}"'


def changes_of(table: Table) -> Stream:
    """The stream of a table's changes: of a declared table a base stream, which also has `_deleted`."""
    if table.relation is not None:
        fields = tuple(Field(name, of) for name, of in table.relation.fields)
        return Stream(table.name, fields, table.event_time, table.patience_ms, relation=table.relation)
    fields = tuple(replace(field, nullable=field.nullable and field.name not in table.key) for field in table.fields)
    deleted = Field(DELETED, BOOLEAN)
    return Stream(
        table.name, (*fields, deleted), table.event_time, table.patience_ms, table.format, source=table.source
    )


def logs_of(tables: Iterable[Table]) -> tuple[str, ...]:
    """The streams that hold the changes of these tables, each once."""
    logs = (table.relation.streams if table.relation else (table.name,) for table in tables)
    return tuple(dict.fromkeys(name for names in logs for name in names))


def view_of(table: Table) -> View:
    """The view of a table: the latest row of each key by event time and position, without those that are deleted.

    A change of a declared table has its key. What a query selects may lack it: that is no row, here as in joins.
    """
    changes = changes_of(table)
    types = {field.name: field.type for field in changes.fields}
    rest = [field for field in table.fields if field.name not in table.key]
    is_deleted = Term(
        "field" if DELETED in types else "literal", BOOLEAN, text=DELETED if DELETED in types else "FALSE"
    )
    latest = LatestRow((*(Expression.field(field.name, field.type) for field in rest), Expression(is_deleted)))
    row = Expression.field(aggregate_id(latest), latest.spark_type)
    outputs = (Output(field.name, row.part(name, field.type)) for field, name in zip(rest, latest.names, strict=False))
    read = [*table.key, *(field.name for field in rest), *([DELETED] if DELETED in types else [])]
    view = View(
        name=table.name,
        streams=(table.name,),
        keys=tuple(Key(name, Expression.field(name, types[name])) for name in table.key),
        columns=(Column(_ROW, latest),),
        where=_has_key(table) if table.relation is not None else None,
        reads=tuple((name, types[name]) for name in read),
        shape=Shape(tuple(outputs), having=row.is_present, only_keys=not rest),
    )
    return view_over(view, changes) if changes.relation else view


def holds_rows_of_table(view: View) -> bool:
    """Return True if it is the view of a table."""
    return len(view.columns) == 1 and isinstance(view.columns[0].aggregate, LatestRow)


def _has_key(table: Table) -> Expression | None:
    types = table.types()
    return conjunction(Expression.field(name, types[name]).is_present for name in table.key)


def rows_of_table(table: Table, time: str | None = None) -> Stream:
    """Return the rows of a table as a stream for views over it: each is an event at `time`, or at its last change."""
    return Stream(table.name, table.fields, time)


def over_table(table: Table, build: Callable[[Stream], View]) -> View:
    """The view that `build` makes over the rows of a table; raises DefinitionError for what cannot be maintained.

    Its windows may be of any time in the row: those that the definition names decide.
    """
    times = [field.name for field in table.fields if field.type == TIMESTAMP and field.name != table.event_time]
    candidates = [table.event_time, *times, None] if table.event_time else [None, *times]
    first_error: DefinitionError | None = None
    for time in candidates:
        rows = rows_of_table(table, time)
        try:
            view = build(rows)
        except DefinitionError as error:
            first_error = first_error or error
            continue
        if view.has_sessions:
            raise DefinitionError(
                f"view '{view.name}' has sessions of the rows of table '{table.name}', which are not available yet",
                expected="sessions of the events of a stream",
                fix="write windows of a fixed size: window(…) in GROUP BY",
            )
        if view.relation is not None:
            raise DefinitionError(
                f"view '{view.name}' makes other rows of table '{table.name}' before it groups them",
                expected="FROM the table, WHERE and GROUP BY",
                fix="make a table of these rows: CREATE TABLE … PRIMARY KEY (…) AS SELECT … FROM a stream",
            )
        if table.event_time and any(
            ARRIVED in of.fields() for of in view.expressions
        ):  # a row is stored with one time, that of its last change
            raise DefinitionError(
                f"view '{view.name}': the rows of table '{table.name}' do not have the time of arrival",
                fix=f"write {quote(table.event_time)}, the time of their last change",
            )
        needs_time = view.window is not None or any(column.aggregate.ordered for column in view.columns)
        over = Over(table.name, time if needs_time else None)
        reads = {**dict(view.reads), **({over.event_time: TIMESTAMP} if over.event_time else {})}
        view = replace(view, streams=view_of(table).streams, reads=tuple(reads.items()), over=over)
        _refuse_spark(view, rows)
        return view
    assert first_error is not None, "there is a candidate"
    raise first_error


def _refuse_spark(view: View, rows: Stream) -> None:
    """A view over a table is computed where its rows are kept, which is not in Spark."""
    fix = "compute it in the query that makes the table, or select the column itself"
    own = functions_of(view.expressions)
    if own:
        raise DefinitionError(f"view '{view.name}' over a table calls {own[0].name}() of a definition file", fix=fix)
    try:
        duckdb_view(rows, view)
    except DefinitionError as error:
        raise DefinitionError(f"view '{view.name}' over a table: {error.message}", fix=fix) from error


def with_parts(
    tables: Mapping[str, Table], streams: Mapping[str, Stream], views: Mapping[str, View]
) -> tuple[dict[str, Stream], dict[str, View]]:
    """These streams and views, and the parts of these tables that run as such.

    The changes of a table AS SELECT are no stream that anybody reads: its view makes them.
    """
    logs = {name: changes_of(table) for name, table in tables.items() if table.relation is None}
    return {**streams, **logs}, {**{name: view_of(table) for name, table in tables.items()}, **views}
