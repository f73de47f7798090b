"""Builds what reads others: derived streams and tables, sinks and alerts in SQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from headrace.define.connector_options import OptionError
from headrace.define.model import Alert, Output, Sink, Stream, Table, View
from headrace.define.outgoing_rules import WrittenShape, make_absence, make_alert, make_sink, row_scope
from headrace.define.row_builder import NO_TABLES, Inputs, rows_of_query
from headrace.define.table_parts import derived_table
from headrace.language.check import Checker, check, check_condition
from headrace.language.identifiers import check_distinct, check_name
from headrace.language.outline import rewrite
from headrace.language.source_text import Mistakes, SourceText, located
from headrace.language.statements.create_alert import AlertStatement
from headrace.language.statements.create_sink import SinkStatement
from headrace.language.statements.create_stream import DerivedStatement
from headrace.language.statements.create_table import DerivedTable
from headrace.language.statements.with_options import WrittenOption, canonical


def build_derived(
    statement: DerivedStatement, streams: Mapping[str, Stream], tables: Mapping[str, Table] = NO_TABLES
) -> Stream:
    """The derived stream; raises all mistakes of the statement at once. `streams` are by name in lower case."""
    source, outline, mistakes = statement.source, statement.outline, Mistakes(statement.mistakes)
    if outline.reasons:
        write = rewrite(source, outline)
        mistakes.errors.append(source.error(outline.start, "; ".join(outline.reasons), write=write, end=outline.end))
    with mistakes.collect():
        rows = rows_of_query(statement.query, Inputs(source, streams, tables=tables))
        rows = replace(rows, owner=f"stream '{statement.name}'")
        if statement.watermark:
            time, patience_ms = statement.watermark
            with located(source, time.start):
                rows = rows.watermark(time.text, patience_ms)
    mistakes.check()
    return rows.stream(statement.name)


def build_table(statement: DerivedTable, streams: Mapping[str, Stream], tables: Mapping[str, Table]) -> Table:
    """The table of the latest row of each key; raises all mistakes of the statement at once."""
    changes = build_derived(statement, streams, tables)
    with located(statement.source, statement.key[0].start):
        return derived_table(changes, [each.text for each in statement.key])


@contextmanager
def _at_option(source: SourceText, options: Iterable[WrittenOption]) -> Iterator[None]:
    """Set the place of a mistake in one of these options."""
    try:
        yield
    except OptionError as error:
        spans = {option.name: option.span for option in options}
        if error.option in spans:
            error.where = error.where or source.locate(spans[error.option][0])
        raise


def build_sink(statement: SinkStatement, reads: Stream | View) -> Sink:
    """The sink over what it reads; raises all mistakes of the statement at once."""
    source, where = statement.source, None
    mistakes = Mistakes(statement.mistakes)
    if statement.where is not None:
        with mistakes.collect():
            where = check_condition(source, statement.where, row_scope(reads), "WHERE")
    options = [(option.name, option.value) for option in statement.options]
    written = WrittenShape(options, where, statement.format, statement.encode, statement.on_close)
    sink = None
    with mistakes.collect(), located(source, statement.at), _at_option(source, statement.options):
        sink = make_sink(statement.name, reads, written)
    mistakes.check()
    assert sink is not None, "without a mistake there is a sink"
    return sink


def build_alert(statement: AlertStatement, reads: Stream | View) -> Alert:
    """The alert over what it reads; raises all mistakes of the statement at once."""
    source, options = statement.source, canonical(statement.options)
    mistakes = Mistakes(statement.mistakes)
    with located(source, statement.at), _at_option(source, statement.options):
        if statement.absent_ms is not None:
            mistakes.check()
            return make_absence(statement.name, reads, statement.absent_ms, options)
        scope = row_scope(reads)
        outputs: list[Output] = []
        for item in statement.items:
            with mistakes.collect():
                expression = check(source, item.node, scope)
                name = item.alias or Checker(source, scope).name(item.node)
                if name is None:
                    raise source.error(item.node.at, "this expression has no name", fix="add one: AS total, or another")
                with located(source, item.node.at):
                    check_name(name, "field")
                outputs.append(Output(name, expression))
        with mistakes.collect():
            check_distinct([output.name for output in outputs], "the column")
        where = None
        with mistakes.collect():
            assert statement.where is not None, "only an alert for absence has no condition"
            where = check_condition(source, statement.where, scope, "WHERE")
        mistakes.check()
        assert where is not None, "without a mistake there is a condition"
        return make_alert(
            statement.name, reads, tuple(outputs), where, statement.for_ms, options, on_close=statement.on_close
        )
