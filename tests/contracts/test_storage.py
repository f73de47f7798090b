"""What every storage must do: put a file only if there is none of its name, whole, and list files."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.lake.storage import LocalStorage, Storage

STORAGES = {"local": LocalStorage}
ENTRY = "_delta_log/00000000000000000001.json"


@pytest.fixture(params=STORAGES)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    table_storage: Storage = STORAGES[request.param](tmp_path / "table")
    table_storage.prepare("_delta_log/", "_dead=false/")
    table_storage.prepare("_delta_log/", "_dead=false/")
    return table_storage


def read(storage: Storage, name: str) -> bytes:
    with storage.open(name) as file:
        return file.read()


def names(storage: Storage, prefix: str) -> list[str]:
    return [file.name for file in storage.list(prefix)]


def write(storage: Storage, name: str, content: bytes) -> None:
    draft = storage.draft(name)
    draft.write_bytes(content)
    storage.finish(draft, name)


def test_a_file_is_put_once(storage: Storage) -> None:
    assert storage.stat(ENTRY) is None
    assert storage.put(ENTRY, b"first")
    assert not storage.put(ENTRY, b"second")
    assert read(storage, ENTRY) == b"first"
    stored = storage.stat(ENTRY)
    assert stored is not None
    assert (stored.name, stored.size) == (ENTRY, 5)
    assert storage.list("_delta_log/") == [stored]


def test_of_many_concurrent_puts_one_succeeds(storage: Storage) -> None:
    outcomes: list[tuple[bool, bytes]] = []
    start = threading.Barrier(8)

    def put(content: bytes) -> None:
        start.wait()
        outcomes.append((storage.put(ENTRY, content), content))

    threads = [threading.Thread(target=put, args=(bytes([65 + n]) * 10_000,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ((_, content),) = [outcome for outcome in outcomes if outcome[0]]
    assert read(storage, ENTRY) == content
    assert names(storage, "_delta_log/") == [ENTRY]


def test_files_are_listed_by_prefix_in_their_order(storage: Storage) -> None:
    for name in ("_dead=false/2", "_dead=false/1", "_delta_log/1"):
        write(storage, name, b"")
    assert names(storage, "_dead=false/") == ["_dead=false/1", "_dead=false/2"]
    assert names(storage, "_dead=false/2") == ["_dead=false/2"]
    assert names(storage, "_dead=true/") == []


def test_a_draft_is_a_file_once_it_is_finished(storage: Storage) -> None:
    draft = storage.draft("_dead=false/draft.parquet")
    pq.write_table(pa.table({"a": [1, 2]}), draft)
    storage.finish(draft, "_dead=false/file.parquet")
    storage.sync_names(["_dead=false/file.parquet"])
    storage.sync("_dead=false/file.parquet")
    assert names(storage, "_dead=false/") == ["_dead=false/file.parquet"]
    assert pq.read_table(storage.locate("_dead=false/file.parquet"), partitioning=None)["a"].to_pylist() == [1, 2]


def test_a_draft_may_be_written_in_another_place(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "aside").write_bytes(b"rows")
    storage.finish(tmp_path / "aside", "_dead=false/file")
    assert read(storage, "_dead=false/file") == b"rows"
    assert not (tmp_path / "aside").exists()


def test_any_part_of_a_file_can_be_read(storage: Storage) -> None:
    write(storage, "_dead=false/file", b"0123456789")
    with storage.open("_dead=false/file") as file:
        file.seek(-3, 2)
        assert file.read(2) == b"78"
    with pytest.raises(OSError, match="nothing"):
        storage.open("_dead=false/nothing")


def test_a_file_that_is_touched_counts_as_new(storage: Storage) -> None:
    write(storage, "_dead=false/file", b"")
    before, deadline = storage.stat("_dead=false/file"), time.monotonic() + 10
    assert before is not None
    while time.monotonic() < deadline:  # clocks of file systems are coarse
        storage.touch("_dead=false/file")
        after = storage.stat("_dead=false/file")
        assert after is not None
        if after.modified_s > before.modified_s:
            return
    pytest.fail("touching it changes nothing")


def test_a_file_that_is_removed_is_gone_and_its_name_free(storage: Storage) -> None:
    storage.put(ENTRY, b"first")
    storage.remove(ENTRY)
    storage.remove(ENTRY)
    assert (storage.stat(ENTRY), names(storage, "_delta_log/")) == (None, [])
    assert storage.put(ENTRY, b"second")


def test_delta_rs_opens_the_table(storage: Storage) -> None:
    write_deltalake(storage.location, pa.table({"a": [1]}))
    assert DeltaTable(storage.location).version() == 0
    assert names(storage, "_delta_log/") == [f"_delta_log/{0:020d}.json"]
