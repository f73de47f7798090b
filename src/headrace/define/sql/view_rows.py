"""What CREATE MATERIALIZED VIEW aggregates: the rows of its FROM; and the view over these."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from headrace.define.derived_rows import DerivedRows, RowScope
from headrace.define.expression.check import check
from headrace.define.model import Stream, Table, View
from headrace.define.relation_rewrites import view_over
from headrace.define.sql.joins import apply_queries
from headrace.define.sql.peers import resolve, rewrite
from headrace.define.sql.row_query import NO_TABLES, Inputs, hoist, rows_of_from
from headrace.define.sql.select import ViewBuilder, ViewStatement
from headrace.define.sql.sessions import without_sessions
from headrace.define.view_columns import contains_aggregate
from headrace.errors import DefinitionError
from headrace.language.source_text import FollowUpError, Mistakes, each, join
from headrace.language.syntax import Node, Star
from headrace.language.terms import quote


def build_view(
    select: ViewStatement,
    streams: Mapping[str, Stream],
    tables: Mapping[str, Table] = NO_TABLES,
    *,
    of_table: bool = False,
) -> View:
    """The view over its streams, every rule checked; raises all mistakes of the statement at once.

    With `of_table` the stream stands for the rows of a table.
    """
    words = select.left_out
    mistakes = Mistakes(select.mistakes)
    with mistakes.collect():
        stream, scope, where = _read_from(select, streams, tables)
        scope.owner = f"table '{stream.name}'" if of_table else scope.owner
    if len(mistakes.errors) > len(select.mistakes):
        raise join(mistakes.errors)
    select = replace(select, where=where)
    _refuse_rows(select, scope, "VIEW" if of_table else "STREAM")
    select, errors = resolve(without_sessions(select), stream)
    select = replace(select, mistakes=(*select.mistakes, *errors), incomplete=select.incomplete or bool(words))
    try:
        return view_over(ViewBuilder(select, stream, scope).view(), stream)
    except DefinitionError as error:
        # A name that is declared in a part that could not be read is no second mistake.
        rest = [one for one in each(error) if not any(f"'{word}'" in one.message.lower() for word in words)]
        rest = [one for one in rest if not (words and one.message.endswith("has no aggregate"))]
        if words and not rest:
            raise FollowUpError(f"view '{select.name}' could not be read") from None
        raise join(rest) from None


def _read_from(
    select: ViewStatement, streams: Mapping[str, Stream], tables: Mapping[str, Table]
) -> tuple[Stream, RowScope, Node | None]:
    """What the view aggregates: its base stream, or the rows of FROM as a derived stream; and their names."""
    item = select.from_clause.input
    inputs = Inputs(select.source, streams, tables=tables).with_queries(select.queries)
    rows = rows_of_from(select.from_clause, replace(inputs, where=select.where))
    rows, where = apply_queries(select.where, rows, inputs.table_scope)
    exploded, scope = hoist(select.source, rows, [(each.node, [each.alias or "col"]) for each in select.items])
    stream = streams.get((item.name or "").lower())
    if stream is None or exploded != DerivedRows.of(stream, item.alias):
        stream = exploded.stream(item.name or item.alias or select.name)
    return stream, scope, where


def _refuse_rows(select: ViewStatement, scope: RowScope, instead: str) -> None:
    """Raise if the query has no aggregates, with the CREATE STREAM or CREATE VIEW to write."""
    grouped = select.groups or select.all_keys or select.table_window or select.having or select.peer.distinct
    if grouped or select.incomplete or select.left_out or any(contains_aggregate(item.node) for item in select.items):
        return
    try:
        for item in select.items:
            if not isinstance(item.node, Star):
                check(select.source, item.node, scope)
    except DefinitionError:
        return  # perhaps a misspelled aggregate: reported below
    is_table = re.match(r"CREATE\s+TABLE", select.source.text[select.peer.start :], re.IGNORECASE)
    if is_table:
        message = f"CREATE TABLE {select.name} AS SELECT has neither a PRIMARY KEY nor an aggregate"
        fix = f"write CREATE TABLE {quote(select.name)} PRIMARY KEY (…) AS SELECT … for the latest row of each key, "
        fix += f"or CREATE {instead} {quote(select.name)} AS SELECT … for all rows"
    else:
        what = "its rows are events one by one: a stream" if instead == "STREAM" else "its rows are those of the table"
        message = f"view '{select.name}' has no aggregate, so that {what}"
        fix = f"write CREATE {instead} {quote(select.name)} AS SELECT …, or add an aggregate: count(*) AS hits"
    written = rewrite(select.source, select.peer, [])
    head = re.match(r"CREATE(\s+OR\s+\w+)?\s+MATERIALIZED\s+VIEW", written, re.IGNORECASE)
    if head and not is_table:
        fix = f"write CREATE {instead}{written[head.end() :]}, or add an aggregate: count(*) AS hits"
    error = select.source.error(select.at, message, fix=fix)
    if head:
        error.write = f"CREATE {instead}{written[head.end() :]}"
        error.replaces = (select.peer.start, select.peer.end)
    raise join([*select.mistakes, error])
