"""Parquet files of the lake: how their columns are encoded."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.lake.parquet_file import LakeFileWriter
from headrace.lake.storage import LocalStorage
from headrace.lake.table_schema import COMMIT, POSITION


def test_a_dictionary_is_for_texts_that_repeat(tmp_path: Path) -> None:
    rows = 1_000
    columns = {
        COMMIT: pa.array([1] * rows),
        POSITION: pa.array(range(rows)),
        "visitor": pa.array([f"visitor {index}" for index in range(rows)]),
        "page": pa.array([f"/page/{index % 10}" for index in range(rows)]),
        "empty": pa.nulls(rows, pa.string()),
    }
    writer = LakeFileWriter(LocalStorage(str(tmp_path)), 1, dead=False)
    writer.write(pa.table(columns))
    file = writer.close()
    assert file is not None
    group = pq.read_metadata(tmp_path / file.path).row_group(0)
    dictionaries = {group.column(i).path_in_schema: group.column(i).has_dictionary_page for i in range(len(columns))}
    assert dictionaries == {COMMIT: True, POSITION: False, "visitor": False, "page": True, "empty": True}
    assert pq.read_table(tmp_path / file.path).column("visitor").to_pylist() == columns["visitor"].to_pylist()
