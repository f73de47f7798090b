"""A field that is added to a stream: earlier events are kept, and read as if the field had always existed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.define.model import JSON, TEXT, Field, Stream
from headrace.lake.added_fields import read_filled, shape_of
from headrace.lake.delta_table import LakeTable
from headrace.lake.replay import DeadLetterReplay
from headrace.lake.upkeep import Compaction
from headrace.parse.frames import frame_lines, frame_values
from headrace.parse.json_objects import LenientReader
from headrace.transport.position import Position
from headrace.types import BIGINT, STRING
from tests import wording
from tests.unit.lake.dead_lake import DeadLake, stream_of
from tests.unit.lake.rereading import in_this_process

OLD = stream_of("CREATE STREAM s (id INT NOT NULL)")
NEW = stream_of("CREATE STREAM s (country STRING, id INT NOT NULL, twice INT AS id * 2)")
NEWER = stream_of("CREATE STREAM s (country STRING, id INT, n INT, twice INT AS id * 2)")
EVENTS = [b'{"id":1,"country":"de","n":1}', b'{"id":2,"country":5,"n":2}', b'{"id":3,"n":"x"}']


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[DeadLake]:
    lake = DeadLake(tmp_path, OLD)
    yield lake
    lake.close()


def filled(table: LakeTable, stream: Stream) -> list[dict[str, Any]]:
    """All events, with every field of the stream, by position."""
    columns = ["_position", *(field.name for field in stream.fields)]
    rows = []
    for file in table.files(0, table.state.next_commit):
        path = str(table.folder / file.path)
        for read in read_filled(path, range(len(shape_of(path).groups)), stream, columns):
            rows += read.to_pylist()
    return [{**row, "_position": None} for row in sorted(rows, key=lambda row: row["_position"])]


def fields_of(lake: DeadLake, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in filled(lake.table, lake.stream)]


def test_what_does_not_fit_is_null_in_that_field_alone() -> None:
    fields = [
        Field("a", BIGINT),
        Field("b", STRING),
        Field("c", STRING),
    ]
    lines = [
        b'{"a":1,"b":"x","c":"y"}',
        b'{"a":"1","b":"x"}',
        b'{"a":2,"b":3,"c":4}',
        b'{"a":5,"a":6,"b":"z"}',
        b"{}",
        b'{"b":"\\ud800","a":7}',
    ]
    for count in (1, 400):
        read = LenientReader(fields).read(frame_lines(b"\n".join(lines * count)))
        assert read.to_pylist() == count * [
            {"a": 1, "b": "x", "c": "y"},
            {"a": None, "b": "x", "c": None},
            {"a": 2, "b": None, "c": None},
            {"a": None, "b": "z", "c": None},
            {"a": None, "b": None, "c": None},
            {"a": 7, "b": None, "c": None},
        ]


def test_events_that_wait_in_the_journal_are_not_refused_for_it(lake: DeadLake) -> None:
    assert lake.post(*EVENTS, keep_bad=False).accepted == 3
    lake.redefine(NEW)
    assert [refusal["index"] for refusal in lake.post(*EVENTS, keep_bad=False).refused] == [1]
    lake.commit()
    assert fields_of(lake, "id", "country", "twice") == [
        (1, "de", 2),
        (2, None, 4),
        (3, None, 6),
        (1, "de", 2),
        (3, None, 6),
    ]
    lake.post(*EVENTS)  # bad events become dead letters
    lake.redefine(NEWER)
    lake.commit()
    (dead,) = lake.rows(dead=True)
    wording.check(dead["_reason"], "country", "STRING", 5)
    assert fields_of(lake, "country", "n")[5:] == [("de", 1), (None, None)]
    assert [name for name, _ in lake.table.since] == ["country", "twice", "n"]


def test_older_files_are_filled_from_the_stored_events_also_when_compacted(lake: DeadLake) -> None:
    for stream in (OLD, NEW, NEWER):
        if stream is not OLD:
            lake.redefine(stream)
        for event in EVENTS if stream is OLD else EVENTS[:1]:
            lake.add(event)
    expected = [("de", 1, 2, 1), (None, 2, 4, 2), (None, 3, 6, None), *([("de", 1, 2, 1)] * 2)]
    assert fields_of(lake, "country", "id", "twice", "n") == expected
    while Compaction(lake.table, gather=2).run_once():
        pass
    shapes = [shape_of(str(lake.table.folder / file.path)) for file in lake.table.files(0, 9)]
    assert [sum(shape.groups) for shape in shapes] == [3, 1, 1]  # NULL is never written for a field that was not parsed
    assert [{"country", "n"} & shape.names for shape in shapes] == [set(), {"country"}, {"country", "n"}]
    assert fields_of(lake, "country", "id", "twice", "n") == expected


def test_a_start_finishes_a_change_that_a_kill_left(lake: DeadLake) -> None:
    """The catalog has the new definition, the lake does not yet: the journal's events were judged by the old one."""
    lake.add(EVENTS[1])
    lake.post(EVENTS[1])
    again = LakeTable(lake.table.folder, NEW, fence=1)
    assert again.since == ()
    again.redefine(NEW, lake.journal.end)
    lake.table, lake.stream = again, NEW
    lake.commit()
    assert not lake.rows(dead=True)
    assert fields_of(lake, "id", "country") == [(2, None), (2, None)]
    again.redefine(NEW, Position.at(lake.journal.end.offset() + 100))  # and the next start has nothing to do
    again.log.tidy(every=1)
    again.log.tidy(every=0)
    assert again.since == (("country", lake.journal.end), ("twice", lake.journal.end))
    assert LakeTable(lake.table.folder, NEW, fence=None).since == again.since


def test_earlier_dead_letters_are_not_refused_for_it(lake: DeadLake, tmp_path: Path) -> None:
    lake.add(b'{"country":5,"n":1}', b'{"country":"de"}')
    lake.redefine(NEWER)
    lake.add(b'{"country":5,"id":1}')
    assert DeadLetterReplay(in_this_process, lake.table, tmp_path).step(NEWER).readable == 2
    assert fields_of(lake, "id", "country", "n") == [(None, None, 1), (None, "de", None)]
    assert len(lake.rows(dead=True)) == 1


def test_lines_of_text_have_computed_fields_only(tmp_path: Path) -> None:
    text = "CREATE STREAM s (value STRING NOT NULL{}) FORMAT TEXT"
    lake = DeadLake(tmp_path, stream_of(text.format("")))
    lake.add(b"one two", b"three")
    lake.redefine(stream_of(text.format(", word STRING AS split(value, ' ')[0]")))
    lake.add(b"four five")
    assert fields_of(lake, "word") == [("one",), ("three",), ("four",)]
    lake.close()


def test_the_new_definition_applies_from_a_known_position(lake: DeadLake) -> None:
    """Requests arrive all the time; none that the old definition accepted lies after that position."""
    started, ends, refusals = threading.Event(), list[int](), list[Any]()

    def send() -> None:
        while not refusals:
            reply = lake.post(b'{"id":1,"country":5}' + b" " * 100_000, keep_bad=False)
            refusals.extend(reply.refused)
            ends.extend([int(reply.token.rpartition(".")[2], 16)] if reply.accepted else [])
            started.set()

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    started.wait()
    position = lake.ingest.redefine(NEW)
    for thread in threads:
        thread.join()
    assert ends
    assert max(ends) <= position.offset()
    assert position == lake.journal.end


def test_stored_events_are_framed_again() -> None:
    values = pa.array([b"{}", b'{\n"a":\r1}', b'{"b":2}', b'{"c":3}'], pa.binary())
    assert list(frame_values(JSON, values)) == [b"{}", b'{ "a": 1}', b'{"b":2}', b'{"c":3}']
    assert list(frame_values(JSON, values.slice(2))) == [b'{"b":2}', b'{"c":3}']
    assert list(frame_values(TEXT, values.slice(1, 2))) == [b'{\n"a":\r1}', b'{"b":2}']
    assert not len(frame_values(JSON, values.slice(4)))
