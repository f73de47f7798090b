"""`headrace tables`."""

from __future__ import annotations

from headrace.cli.options import JsonOption, WorkspaceOption, open_connection
from headrace.cli.output import console, count, fit_table, make_table, print_json
from headrace.format import freshness

NO_TABLES = "no tables yet: CREATE TABLE … PRIMARY KEY in definitions/, then `headrace up`"


def tables(workspace: WorkspaceOption = ".", as_json: JsonOption = False) -> None:
    """List the tables: primary key, rows, version, freshness."""
    with open_connection(workspace) as connection:
        statuses = connection.verbs.tables()
    if as_json:
        print_json(statuses)
        return
    out = console()
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
    left_titles = ("table", "primary key", "latest by", "made from", "freshness", "problem")
    out.print(fit_table(cells, out.width, left_titles=left_titles, wide_titles=("dead letters", "changes")))
    out.print()
    columns = [[table.name, column.name, column.type] for table in statuses for column in table.columns]
    out.print(make_table(["table", "column", "type"], columns))
