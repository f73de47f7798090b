"""Format versions: data without one is of the first format, a newer one is refused and left as it is."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable

from headrace.disk import FORMAT_FILE, read_format
from headrace.errors import CorruptionError, HeadraceError, NewerFormatError
from headrace.lake.delta_table import FORMAT_ID, LakeTable
from headrace.server.leasing import take_lease
from headrace.transport.journal.journal import Journal, read_sent
from headrace.transport.journal.journal_records import HEADER, MAGIC, OLDER_MAGIC, pack, segment_name, unpack
from headrace.transport.position import Range
from headrace.transport.sent_files import FilePiece
from headrace.workspace.settings import SETTINGS_FILE, Workspace
from tests import wording
from tests.newer import make_lake_newer, make_newer
from tests.unit.lake.lake_rows import STREAM, rows_of, small_lake


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def check_refused(action: Callable[[], object], folder: Path, what: str, newest: int = 1) -> None:
    """Nothing of the folder changes, and the sentence says all that is needed."""
    before = content(folder)
    with pytest.raises(NewerFormatError) as error:
        action()
    assert str(error.value) == (
        f"{what} was written by a newer Headrace; found format 3; expected at most format {newest}, the newest that "
        "this Headrace reads; nothing was changed; use the newer Headrace"
    )
    assert content(folder) == before


def test_a_workspace_carries_its_format(tmp_path: Path) -> None:
    (tmp_path / SETTINGS_FILE).touch()
    workspace = Workspace.open(tmp_path)
    assert (workspace.format, workspace.data.exists()) == (1, False)
    take_lease(workspace, None).release()
    assert (workspace.data / FORMAT_FILE).read_bytes() == b'{"format":1}'
    assert Workspace.open(tmp_path).format == 1


def test_a_newer_workspace_is_refused(tmp_path: Path) -> None:
    (tmp_path / SETTINGS_FILE).touch()
    (tmp_path / "data").mkdir()
    make_newer(tmp_path / "data")
    check_refused(lambda: Workspace.open(tmp_path), tmp_path, f"workspace '{tmp_path}/data'")


def filled_journal(folder: Path) -> Path:
    journal = Journal(folder, fence=1)
    journal.submit(b"{}\n", 1, [], file=FilePiece("a.json", "end")).result()
    journal.close()
    return folder


def test_a_journal_without_a_version_is_read_and_gets_one(tmp_path: Path) -> None:
    (filled_journal(tmp_path) / FORMAT_FILE).unlink()
    assert read_sent(tmp_path).contents("a.json")
    journal = Journal(tmp_path, fence=2)
    journal.close()
    assert journal.sent.contents("a.json")
    assert (tmp_path / FORMAT_FILE).exists()


def test_a_newer_journal_is_refused(tmp_path: Path) -> None:
    make_newer(filled_journal(tmp_path))
    check_refused(lambda: Journal(tmp_path, fence=2), tmp_path, f"journal '{tmp_path}'", newest=2)
    check_refused(lambda: read_sent(tmp_path), tmp_path, f"journal '{tmp_path}'", newest=2)


def test_a_journal_of_format_1_is_read_and_raised_to_format_2(tmp_path: Path) -> None:
    (tmp_path / FORMAT_FILE).write_bytes(b'{"format":1}')
    meta = b'{"key":"k","digest":"d","accepted":1,"refused":[],"file":{"name":"a.json","mark":"end"}}'
    rest = HEADER.pack(OLDER_MAGIC, 0, len(meta), 3, 5, 0)[8:] + meta + b"{}\n"
    (tmp_path / segment_name(0, 1)).write_bytes(OLDER_MAGIC + struct.pack("<I", zlib.crc32(rest)) + rest)
    journal = Journal(tmp_path, fence=2)
    journal.submit(b"[]\n", 1, []).result()
    journal.close()
    receipt = journal.recall("k")
    assert receipt is not None
    assert (receipt.digest, receipt.accepted, len(journal.sent.contents("a.json"))) == ("d", 1, 1)
    assert read_format(tmp_path) == 2
    part = Range(0, 0, journal.end.offset())
    assert [list(events.frames) for events in journal.reader.read(part, "json")] == [[b"{}"], [b"[]"]]


@pytest.mark.parametrize("position", [4, 12, 20, 40, -1])
def test_a_flipped_bit_in_a_record_of_either_format_is_found(tmp_path: Path, position: int) -> None:
    for magic in (OLDER_MAGIC, MAGIC):
        rest = HEADER.pack(magic, 0, 0, 9, 5, 0)[8:] + b'{"a":12}\n'
        raw = bytearray(pack(b"", b'{"a":12}\n', 5, 0) + b'{"a":12}\n')
        if magic == OLDER_MAGIC:
            raw[:8] = OLDER_MAGIC + struct.pack("<I", zlib.crc32(rest))
        record = unpack(bytes(raw[: HEADER.size]), 0)
        assert record is not None
        assert record.matches(bytes(raw))
        raw[position] ^= 1
        changed = unpack(bytes(raw[: HEADER.size]), 0)
        assert changed is None or not changed.matches(bytes(raw))


def test_a_lake_carries_its_format_through_a_checkpoint(tmp_path: Path) -> None:
    table = small_lake(tmp_path / "lake", 3, rows=2)
    table.log.tidy(every=1)
    assert DeltaTable(table.folder).transaction_version(FORMAT_ID) == 1
    assert LakeTable(table.folder, STREAM, None).format == 1


def test_a_lake_without_a_version_is_read_and_gets_one(tmp_path: Path) -> None:
    table = small_lake(tmp_path / "lake", 3, rows=2)
    for entry in (table.folder / "_delta_log").glob("*.json"):
        lines = entry.read_bytes().splitlines(keepends=True)
        entry.write_bytes(b"".join(line for line in lines if FORMAT_ID.encode() not in line))
    assert DeltaTable(table.folder).transaction_version(FORMAT_ID) is None
    assert LakeTable(table.folder, STREAM, None).format == 1
    again = LakeTable(table.folder, STREAM, 9)
    assert rows_of(again) == rows_of(table)
    assert DeltaTable(table.folder).transaction_version(FORMAT_ID) == 1


@pytest.mark.parametrize("fence", [None, 9])
def test_a_newer_lake_is_refused(tmp_path: Path, fence: int | None) -> None:
    table = small_lake(tmp_path / "lake", 3, rows=2)
    make_lake_newer(table.folder)
    check_refused(lambda: LakeTable(table.folder, STREAM, fence), tmp_path, f"lake '{table.folder}'")


@pytest.mark.parametrize("raw", [b"", b"garbage", b"[]", b"{}", b'{"format": null}'])
def test_a_damaged_format_file_is_named(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / FORMAT_FILE).write_bytes(raw)
    with wording.raises(CorruptionError, f"{tmp_path}/{FORMAT_FILE}") as error:
        read_format(tmp_path)
    assert not isinstance(error.value, NewerFormatError)


def test_a_failed_write_of_the_version_releases_the_lease(tmp_path: Path) -> None:
    (tmp_path / SETTINGS_FILE).touch()
    workspace = Workspace.open(tmp_path)
    workspace.make_data()
    blocked = workspace.data / "format.tmp"  # where the file is written before it gets its name
    blocked.mkdir()
    with pytest.raises((OSError, HeadraceError)):
        take_lease(workspace, None)
    blocked.rmdir()
    take_lease(workspace, None).release()
