"""The table of a view in SQL has the columns and rows of its default question."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from headrace.serve.sql.load_views import default_plan, describe_version, load_view
from tests.unit.serve.shaped import SELECT, Views

LABEL = "SELECT k0, concat(k0, '!') AS label, max(i) - min(i) AS spread, sum(b) AS b FROM events GROUP BY k0"


@pytest.mark.parametrize(
    "select",
    [
        SELECT,
        f"{SELECT} HAVING sum(b) > 4 AND mean < 9",
        f"{SELECT} ORDER BY b DESC LIMIT 3",
        f"{SELECT} ORDER BY max(i) / 2, k0 DESC NULLS FIRST",
        f"{SELECT} LIMIT 2",
        f"{LABEL} HAVING label IS NOT NULL ORDER BY 2 DESC",
        SELECT.replace("'1 minute'", "'2 minutes', '1 minute'") + " HAVING n > 1 ORDER BY mean",
    ],
)
def test_the_table_of_a_view_is_its_answer(tmp_path: Path, select: str) -> None:
    views = Views(tmp_path)
    views.add(select)
    with views.store.snapshot() as snapshot, duckdb.connect() as connection:
        version = snapshot.serving("v")
        assert version is not None
        connection.execute("SET TimeZone = 'UTC'")
        read_plan = default_plan(version)
        pieces = snapshot.pieces(version, read_plan.selection(None), ordered=read_plan.overlapping)
        empty = pa.RecordBatch.from_pylist([], schema=pieces.schema)
        load_view(connection, describe_version(version), iter([empty, *pieces]))
        table = connection.sql("SELECT * FROM v").to_arrow_table()
    reply = views.ask()
    views.store.close()
    assert table.column_names == [name for name, _ in reply.columns]
    rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    if " ORDER BY " in select or " LIMIT " in select:
        assert rows == reply.values
    else:
        assert len(rows) == len(reply.values)
        assert all(row in reply.values for row in rows)
