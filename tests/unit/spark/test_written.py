"""A file that this process does not see as its task wrote it is an error, never a lost row."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.errors import LostFileError
from headrace.spark.written import Written, check_written
from tests import wording


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """What a task reports of a file that is there."""
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"n": [1, 2, 3]}), path)
    return Written(str(path), path.stat().st_size, 3)


def test_a_file_as_it_was_written_is_accepted(written: Written) -> None:
    check_written([written, written])


def test_a_file_that_is_not_there(written: Written) -> None:
    other = written._replace(path=f"{written.path}.other")
    with wording.raises(LostFileError):
        check_written([written, other])


def test_a_file_with_other_rows(written: Written) -> None:
    with wording.raises(LostFileError, 3, 4):
        check_written([written._replace(rows=4)])


@pytest.mark.parametrize("bytes_", [0, 20])
def test_a_file_that_is_cut_off(written: Written, bytes_: int) -> None:
    Path(written.path).write_bytes(Path(written.path).read_bytes()[:bytes_])
    with wording.raises(LostFileError):
        check_written([written])


def test_another_file_of_the_same_name(written: Written) -> None:
    pq.write_table(pa.table({"n": [1, 2, 3], "more": ["a", "b", "c"]}), written.path)
    with wording.raises(LostFileError, 3):
        check_written([written])
