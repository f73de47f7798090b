"""The file of a DuckStore that is missing, corrupt or held by another process: its failures say what to do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from headrace.errors import CorruptionError, WorkspaceError
from headrace.store.duckdb.duckdb_reader import DuckReader, open_file
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.duckdb.table_sql import speed_table
from headrace.store.store_contract import Step
from tests import wording
from tests.unit.store.partial_files import make_view, simple_event, write_partials


def test_a_missing_store_cannot_be_read(tmp_path: Path) -> None:
    with wording.raises(WorkspaceError):
        open_file(tmp_path / "nothing")


def test_a_corrupt_store_says_that_it_can_be_rebuilt(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"x" * 100_000)
    with wording.raises(CorruptionError):
        DuckStore.open(tmp_path / "store", fence=1)


HOLDER = """
import sys
from headrace.store.duckdb.duckdb_store import DuckStore
store = DuckStore.open(sys.argv[1], fence=9)
print("open", flush=True)
sys.stdin.read()
store.close()
"""


@pytest.mark.parametrize("opened", [open_file, partial(DuckStore.open, fence=9)])
def test_a_store_held_by_another_process_is_named(tmp_path: Path, opened: Callable[[Path], DuckReader]) -> None:
    path = tmp_path / "store"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(WorkspaceError, match=r"store .* is in use by another process"):
            opened(path)
        assert holder.stdin is not None
        holder.stdin.close()
    opened(path).close()


def test_strings_of_speed_tables_are_not_compressed_in_blocks(tmp_path: Path) -> None:
    store = DuckStore.open(tmp_path / "store", fence=1)
    view = make_view()
    store.register(view, "f", {"events": 0})
    file = write_partials(tmp_path / "p.parquet", view, [simple_event(f"/{n % 50}", n * 60_000) for n in range(500)])
    store.apply(Step("events", 0, 1, None, None, 0), {("v", 1): [file]})
    writer = store._database.writer
    writer.execute("CHECKPOINT")
    used = writer.execute(f"SELECT compression FROM pragma_storage_info('{speed_table('v', 1, 0)}')").fetchall()
    assert ("DICT_FSST",) not in used
    assert len(used) > 20
    store.close()
