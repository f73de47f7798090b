"""How far files were sent: compare-and-set, stored with the events, and longer than these are in the journal."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.errors import CorruptionError, StaleMarkError
from headrace.transport.journal.idempotency_keys import WINDOW_US
from headrace.transport.journal.journal import Journal, read_sent
from headrace.transport.journal.journal_records import list_segments
from headrace.transport.sent_files import FilePiece, SentFiles
from tests import wording
from tests.unit.transport.journals import LINE, Clock


def put(journal: Journal, piece: FilePiece, events: int = 1) -> int:
    journal.sent.check(piece)
    return journal.submit(LINE * events, events, [], key=piece.mark, digest="d", file=piece).result().end.offset()


def counts(files: SentFiles, name: str) -> dict[str, int]:
    return {sent.mark: sent.events for sent in files.contents(name)}


def test_a_piece_is_accepted_only_at_the_stored_mark(tmp_path: Path) -> None:
    journal = Journal(tmp_path, fence=1)
    first = put(journal, FilePiece("a", "m1", start=True), 3)
    with wording.raises(StaleMarkError, "a"):
        put(journal, FilePiece("a", "m1", start=True), 3)  # another sender that knows no mark either
    put(journal, FilePiece("a", "m2", after="m1"), 2)
    with pytest.raises(StaleMarkError):
        put(journal, FilePiece("a", "m2", after="m1"), 2)
    assert counts(journal.sent, "a") == {"m2": 5}
    with pytest.raises(StaleMarkError):
        put(journal, FilePiece("a", "n1", seen=first, start=True))  # m2 was stored since
    journal.close()


def test_several_contents_of_one_name_and_one_that_is_sent_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path, fence=1)
    version = put(journal, FilePiece("log", "m1", first="f", start=True), 3)
    put(journal, FilePiece("log", "n1", seen=version, first="g", start=True), 4)
    assert counts(journal.sent, "log") == {"m1": 3, "n1": 4}
    put(journal, FilePiece("log", "m2", after="m1", first="f"))  # of another machine, perhaps
    put(journal, FilePiece("log", "n1", after="n1", first="g", start=True), 4)
    assert counts(journal.sent, "log") == {"m2": 4, "n1": 4}
    assert [name for name, _ in journal.sent.beginning_with("g", "other")] == ["log", "log"]
    assert journal.sent.beginning_with("g", "log") == []
    journal.close()


def test_marks_of_files_are_read_from_the_journal_after_a_restart(tmp_path: Path) -> None:
    journal = Journal(tmp_path, fence=1)
    put(journal, FilePiece("a", "m1", first="f", start=True), 3)
    version = put(journal, FilePiece("a", "m2", after="m1", first="f"), 2)
    journal.close()
    assert counts(read_sent(tmp_path), "a") == {"m2": 5}
    again = Journal(tmp_path, fence=2)
    assert counts(again.sent, "a") == {"m2": 5}
    assert again.sent.version("a") == version
    again.close()


def test_an_incomplete_piece_is_not_known(tmp_path: Path) -> None:
    journal = Journal(tmp_path, fence=1)
    put(journal, FilePiece("a", "m1", start=True), 3)
    put(journal, FilePiece("a", "m2", after="m1"), 2)
    journal.close()
    segment = list_segments(tmp_path)[-1]
    os.truncate(segment.path, segment.end - segment.start - 1)
    (tmp_path / "durable").unlink()
    assert counts(read_sent(tmp_path), "a") == {"m1": 3}
    again = Journal(tmp_path, fence=2)
    assert counts(again.sent, "a") == {"m1": 3}
    put(again, FilePiece("a", "m2", after="m1"), 2)
    again.close()


def test_files_are_known_after_their_records_are_reclaimed(tmp_path: Path) -> None:
    clock = Clock()
    journal = clock.open(tmp_path, 1)
    for number in range(3):
        put(journal, FilePiece(f"file {number}", "m1", first="f", start=True), 2)
    journal.close()
    later = clock.open(tmp_path, 2)
    clock.passes(WINDOW_US * 2)
    put(later, FilePiece("file 2", "m2", after="m1", first="f"), 1)
    assert later.reclaim(later.end) > 0
    assert later.recall("m1") is None
    later.close()
    lake_end = later.end
    for fence in (3, 4):  # what was written is read, and written again by another process
        last = clock.open(tmp_path, fence, lake_end)
        clock.passes(WINDOW_US * 2)
        assert [counts(last.sent, f"file {number}") for number in range(3)] == [{"m1": 2}, {"m1": 2}, {"m2": 3}]
        with pytest.raises(StaleMarkError):
            put(last, FilePiece("file 0", "m1", first="f", start=True))
        last.submit(LINE, 1, []).result()
        lake_end = last.end
        assert last.reclaim(lake_end) > 0
        last.close()
    assert [path.name for path in tmp_path.glob("sent-*")] == ["sent-00000004.json"]


def test_damage_to_what_is_known_of_files_is_named(tmp_path: Path) -> None:
    (tmp_path / "sent-00000001.json").write_bytes(b'{"files": [')
    with wording.raises(CorruptionError, "00000001"):
        Journal(tmp_path, fence=2)


def test_an_older_journal_opens(tmp_path: Path) -> None:
    journal = Journal(tmp_path, fence=1)
    journal.submit(LINE, 1, [], key="k", digest="d").result()
    journal.close()
    again = Journal(tmp_path, fence=2)
    assert again.recall("k") is not None
    assert again.sent.contents("k") == []
    again.close()
