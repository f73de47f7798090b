"""Definitions in Python of logical views: hr.LogicalView. The objects become equal to those of SQL in a catalog."""

from __future__ import annotations

from headrace.define.mistakes import placed
from headrace.define.python.fluent import declare
from headrace.define.python.query import caller, source_of
from headrace.define.rules import check_name
from headrace.define.sql.logical import LogicalStatement
from headrace.errors import DefinitionError


def LogicalView(name: str, query: str) -> LogicalStatement:  # noqa: N802 - reads as the noun it makes
    """A logical view: a SELECT over views, as in CREATE VIEW, that is evaluated whenever it is asked."""
    at = caller()
    with placed(at):
        check_name(name, "view")
        source = source_of(query, "a query")
        sql = source.text.strip().removesuffix(";").rstrip()
        if not sql:
            raise DefinitionError(f"view '{name}' needs a query", expected="SELECT … FROM a view")
        return declare(LogicalStatement(source, 0, name, sql, 0), at)
