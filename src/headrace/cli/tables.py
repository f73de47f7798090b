"""`headrace tables`."""

from __future__ import annotations

from headrace.cli.options import JsonOption, WideOption, WorkspaceOption, open_connection
from headrace.cli.output import console, count, print_json, record_table
from headrace.cli.table import FittedTable
from headrace.format import freshness

NO_TABLES = "no tables yet: CREATE TABLE … PRIMARY KEY in definitions/, then `headrace up`"


def tables(workspace: WorkspaceOption = ".", wide: WideOption = False, as_json: JsonOption = False) -> None:
    """List the tables: primary key, rows, version, freshness."""
    with open_connection(workspace) as connection:
        statuses = connection.verbs.tables()
    if as_json:
        print_json(statuses)
        return
    out = console(wide=wide)
    if not statuses:
        out.print(NO_TABLES)
        return
    cells = [
        {
            "table": table.name,
            "primary key": ", ".join(table.key),
            "rows": count(table.rows),
            "version": count(table.version),
            "changes": count(table.changes),
            "dead letters": count(table.dead_letters),
            "latest by": table.latest_by or "arrival",
            "made from": ", ".join(table.derived_from) or "–",
            "freshness": freshness(table.freshness_ms, table.freshness_reason),
            "problem": table.problem or "–",
        }
        for table in statuses
    ]
    left = ("table", "primary key", "latest by", "made from", "freshness", "problem")
    out.print(record_table(cells, left, ("changes", "dead letters", "made from", "latest by", "version")))
    out.print()
    columns = [[table.name, column.name, column.type] for table in statuses for column in table.columns]
    out.print(FittedTable(["table", "column", "type"], columns))
