"""Logical views, sinks and alerts in Python: `hr.LogicalView`, `hr.Sink` and `hr.Alert`, equal to those of SQL."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from headrace.define import model
from headrace.define.outgoing_rules import WrittenShape, make_absence, make_alert, make_sink, row_scope
from headrace.define.python.definition_builder import declare, milliseconds
from headrace.define.python.query_builder import caller, source_of
from headrace.errors import DefinitionError
from headrace.language.check import Checker, check, check_condition
from headrace.language.expressions import parse_tree
from headrace.language.identifiers import check_distinct, check_name
from headrace.language.source_text import placed
from headrace.language.statements.create_view import LogicalStatement
from headrace.language.terms import Expression


def LogicalView(name: str, query: str) -> LogicalStatement:  # noqa: N802 - reads as the noun it makes
    """A logical view: a SELECT over views, as in CREATE VIEW, that is evaluated when it is queried."""
    at = caller()
    with placed(at):
        check_name(name, "view")
        source = source_of(query, "a query")
        sql = source.text.strip().removesuffix(";").rstrip()
        if not sql:
            raise DefinitionError(f"view '{name}' needs a query", expected="SELECT … FROM a view")
        return declare(LogicalStatement(source, 0, name, sql, 0), at)


OptionValue = str | int | float | bool


def Sink(  # noqa: N802 - reads as the noun it makes
    name: str,
    source: model.View | model.Stream,
    connector: str,
    options: Mapping[str, OptionValue],
    *,
    where: str | None = None,
    mode: str | None = None,
    on_close: bool | None = None,
    corrections: bool | None = None,
) -> model.Sink:
    """A sink of a view or a stream: the connector and its options as in WITH (…).

    `mode` is "append", "update" or "complete"; with `on_close` rows are sent when their window is settled, and
    `corrections` states whether later changes of these rows are sent.
    """
    at = caller()
    with placed(at):
        check_name(name, "sink")
        reads = _readable(source, f"sink '{name}'")
        condition = None if where is None else _condition(where, reads)
        written_options = {"connector": connector, **options}
        if corrections is not None:
            written_options["corrections"] = corrections
        written = WrittenShape(_options(written_options), condition, mode, None, on_close)
        return declare(make_sink(name, reads, written), at)


def Alert(  # noqa: N802
    name: str,
    source: model.View | model.Stream,
    where: str | None = None,
    *,
    columns: tuple[str, ...] | list[str] = (),
    hold: str | timedelta = "0s",
    absent: str | timedelta | None = None,
    on_close: bool = False,
    options: Mapping[str, OptionValue] | None = None,
) -> model.Alert:
    """An alert on the rows of a view for which a condition holds for the time `hold`.

    With `on_close`, rows are evaluated when their window is settled. With `absent` instead of a condition, it fires
    when no event of a stream, or of a key of a view, has arrived for this time.
    """
    at = caller()
    with placed(at):
        check_name(name, "alert")
        reads = _readable(source, f"alert '{name}'")
        written_options = _options(options or {})
        if (where is None) == (absent is None):
            raise DefinitionError(f"alert '{name}' has either a condition or a time of absence", fix="give one of them")
        if absent is not None:
            return declare(make_absence(name, reads, milliseconds(absent), written_options), at)
        assert where is not None, "checked above"
        outputs = tuple(_output(column, reads) for column in columns)
        check_distinct([output.name for output in outputs], "the column")
        condition, for_ms = _condition(where, reads), milliseconds(hold)
        return declare(make_alert(name, reads, outputs, condition, for_ms, written_options, on_close=on_close), at)


def _readable(source: object, owner: str) -> model.View | model.Stream:
    if not isinstance(source, model.View | model.Stream):
        raise DefinitionError(
            f"{owner} needs a view or a stream", found=type(source).__name__, fix="give the object of hr.View"
        )
    return source


def _condition(text: str, reads: model.View | model.Stream) -> Expression:
    source = source_of(text, "a condition")
    return check_condition(source, parse_tree(source), row_scope(reads), "where")


def _output(text: str, reads: model.View | model.Stream) -> model.Output:
    source, scope = source_of(text, "a column"), row_scope(reads)
    node = parse_tree(source)
    name = Checker(source, scope).name(node)
    if name is None:
        raise DefinitionError(f"the column {text!r} has no name", fix="name a column of the view")
    return model.Output(name, check(source, node, scope))


def _options(options: Mapping[str, OptionValue]) -> model.Options:
    return tuple(sorted((name.lower(), _text(name, value)) for name, value in options.items()))


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, OptionValue):
        raise DefinitionError(f"the option '{name}' is a text or a number", found=type(value).__name__)
    return str(value)
