"""The events of a stream from its lake: in order, each once, over compaction, replays, added fields and restarts."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from bench.ours.lake import add_commit

from headrace.deliver import event_chunks
from headrace.deliver.event_log import EventLog
from headrace.deliver.event_page import START, EventCursor, EventPage
from headrace.errors import QuestionError
from headrace.lake.delta_table import LakeTable
from headrace.lake.replay import DeadLetterReplay
from headrace.lake.upkeep import Compaction
from tests import wording
from tests.unit.lake.dead_lake import DeadLake, stream_of
from tests.unit.lake.lake_rows import STREAM, small_lake
from tests.unit.lake.rereading import in_this_process

OLD = stream_of("CREATE STREAM s (id INT NOT NULL)")
NEW = stream_of("CREATE STREAM s (id INT NOT NULL, country STRING, twice INT AS id * 2)")
TYPES = stream_of(
    "CREATE STREAM s (name STRING, price DECIMAL(9, 2), day DATE, at TIMESTAMP, tags ARRAY<STRING>, m MAP<STRING, INT>,"
    " ratio DOUBLE, ok BOOLEAN)"
)


def log_of(table: LakeTable, stream: Any = STREAM) -> EventLog:
    return EventLog(table, lambda: stream)


def read_all(log: EventLog, cursor: EventCursor = START, *, limit: int = 7, where: str | None = None) -> list[Any]:
    """All events after a cursor, page by page."""
    events: list[Any] = []
    while True:
        page = log.after(cursor, log.filter(where), limit)
        assert len(page.lines) <= limit
        assert page.cursor > cursor or not page.more
        events += [orjson.loads(line) for line in page.lines]
        cursor = page.cursor
        if not page.more:
            assert cursor == log.end
            return events


def places(events: list[Any]) -> list[tuple[int, int]]:
    return [(event["commit"], event["position"]) for event in events]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[DeadLake]:
    lake = DeadLake(tmp_path, OLD)
    yield lake
    lake.close()


@pytest.mark.parametrize("seed", range(4))
def test_every_event_once_in_order_whatever_happens_to_the_files(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(
        "headrace.deliver.event_log.read_chunk",
        lambda table, stream, after, rows: event_chunks.read_chunk(table, stream, after, chance.randint(1, 30)),
    )
    table = small_lake(tmp_path, 1, dead=1)
    compaction = Compaction(table, gather=2, group_rows=chance.choice([3, 10, 1000]))
    log, cursor, events = log_of(table), START, []
    for _ in range(40):
        match chance.choice(["append", "append", "compact", "read", "read", "restart"]):
            case "append":
                add_commit(table, STREAM, chance.randint(1, 9), dead=1)
            case "compact":
                compaction.run_once()
            case "read":
                page = log.after(cursor, None, chance.randint(1, 12))
                events += places([orjson.loads(line) for line in page.lines])
                cursor = page.cursor
            case "restart":
                log = log_of(table)
                cursor = EventCursor.from_text(cursor.to_text())
    events += places(read_all(log, cursor))
    assert events == sorted(set(events))
    assert len(events) == table.rows()
    for index in range(0, len(events), 29):
        place = EventCursor(*events[index])
        assert places(read_all(log_of(table), place)) == events[index + 1 :]
        assert log.lag(place) == len(events) - index - 1
        assert places(read_all(log, log.start_of_last(index))) == events[len(events) - index :]


def test_replayed_dead_letters_come_when_they_are_replayed(lake: DeadLake, tmp_path: Path) -> None:
    lake.add(b'{"id":1}', b'{"id":"x"}', b'{"id":2}')
    lake.add(b'{"id":3}')
    log = EventLog(lake.table, lambda: lake.stream)
    first = read_all(log)
    assert [event["event"]["id"] for event in first] == [1, 2, 3]
    loose = stream_of("CREATE STREAM s (id STRING)")
    lake.stream = loose  # as after an edit that reads the letter
    replay = DeadLetterReplay(in_this_process, lake.table, tmp_path)
    replay.step(loose)
    later = read_all(log, EventCursor(first[-1]["commit"], first[-1]["position"]))
    assert [event["event"]["id"] for event in later] == ["x"]
    assert later[0]["position"] < first[1]["position"]
    assert later[0]["commit"] > first[-1]["commit"]


def test_fields_that_were_added_are_read_from_earlier_events(lake: DeadLake) -> None:
    lake.add(b'{"id":1,"country":"de"}')
    log = EventLog(lake.table, lambda: lake.stream)
    assert [event["event"] for event in read_all(log)] == [{"id": 1}]
    lake.redefine(NEW)
    lake.add(b'{"id":2,"country":"fr"}')
    expected = [{"id": 1, "country": "de", "twice": 2}, {"id": 2, "country": "fr", "twice": 4}]
    assert [event["event"] for event in read_all(log)] == expected
    assert [event["event"]["id"] for event in read_all(log, where="country = 'de'")] == [1]


def test_values_are_written_as_in_answers(tmp_path: Path) -> None:
    lake = DeadLake(tmp_path, TYPES)
    lake.add(
        b'{"name":"a","price":"1.50","day":"2026-03-01","at":"2026-03-01T12:00:00Z","tags":["x"],"m":{"k":1},'
        b'"ratio":0.5,"ok":true}',
        b"{}",
    )
    one, none = (event["event"] for event in read_all(EventLog(lake.table, lambda: TYPES)))
    assert one == {
        "name": "a",
        "price": "1.50",
        "day": "2026-03-01",
        "at": "2026-03-01T12:00:00Z",
        "tags": ["x"],
        "m": {"k": 1},
        "ratio": 0.5,
        "ok": True,
    }
    assert set(none.values()) == {None}
    lake.close()


def test_conditions_select_events(lake: DeadLake) -> None:
    lake.add(*(orjson.dumps({"id": number}) for number in range(50)))
    log = EventLog(lake.table, lambda: OLD)

    def ids(**filters: Any) -> list[int]:
        page = log.after(START, log.filter(**{"where": None, **filters}), 100)
        return [orjson.loads(line)["event"]["id"] for line in page.lines]

    assert ids(where="id % 10 = 3") == [3, 13, 23, 33, 43]
    assert ids(where="CAST(CAST(id AS STRING) AS INT) = 7") == [7]  # DuckDB may read other texts than Spark does
    assert ids(key={"id": "4"}) == [4]
    assert ids(key={"id": [4, 5, None]}, where="id > 4") == [5]
    assert log.filter("id = 1") is log.filter(" id = 1 ")
    for where, message in {
        "id": "where takes a condition",
        "idd = 1": "idd",
        "id = ": "where",
        "x" * 5000: "too long",
    }.items():
        with pytest.raises(QuestionError, match=message):
            log.filter(where)
    with wording.raises(QuestionError, "idd"):
        log.filter(None, {"idd": 1})
    with wording.raises(QuestionError, "INT"):
        log.filter(None, {"id": "x"})


def test_a_reader_begins_where_it_is_told(tmp_path: Path) -> None:
    table = small_lake(tmp_path, 3)
    log = log_of(table)
    assert log.start("earliest") == START
    assert log.start("latest") == log.start(None) == EventCursor(3)
    assert log.start("1-7") == EventCursor(1, 7)
    for text, message in {"yesterday": "not a place", "9-4": "no cursor 9-4", "1-2-3": "not a place"}.items():
        with pytest.raises(QuestionError, match=message):
            log.start(text)
    with wording.raises(QuestionError):
        EventCursor.from_text("1-99999999999999999999")


def test_a_time_is_that_of_the_commit(lake: DeadLake) -> None:
    lake.add(b'{"id":1}')
    time.sleep(0.002)  # times are in milliseconds
    now = datetime.now(UTC)
    between = now.replace(microsecond=now.microsecond // 1000 * 1000)
    time.sleep(0.002)
    lake.add(b'{"id":2}')
    log = EventLog(lake.table, lambda: OLD)
    assert log.start("2000-01-01") == log.start("-1h") == START
    assert log.start("2100-01-01T00:00:00Z") == log.end
    assert [event["event"]["id"] for event in read_all(log, log.start(between))] == [2]


def test_many_readers_at_the_end_read_each_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = small_lake(tmp_path, 1)
    log, reads = log_of(table), []
    real = event_chunks._read
    monkeypatch.setattr(
        event_chunks, "_read", lambda groups, *a: reads.append([g.path for g in groups]) or real(groups, *a)
    )
    results: list[list[tuple[int, int]]] = [[] for _ in range(20)]

    def follow(result: list[tuple[int, int]]) -> None:
        cursor = START
        while len(result) < 55:
            rings = log.notifier.count
            page: EventPage = log.recent(cursor, None, 100) or log.after(cursor, None, 100)
            result += places([orjson.loads(line) for line in page.lines])
            cursor = page.cursor
            if len(result) < 55 and not page.more and not log.notifier.wait(rings, 30):
                break

    threads = [threading.Thread(target=follow, args=(result,)) for result in results]
    for thread in threads:
        thread.start()
    for _ in range(10):
        add_commit(table, STREAM, 5)
    for thread in threads:
        thread.join()
    assert all(result == results[0] and len(set(result)) == 55 for result in results)
    paths = [path for group in reads for path in group]
    assert len(paths) < 11 * len(results) / 2
    log.after(START, None, 10)
    assert log.recent(START, None, 10) is not None  # the next reader finds it in memory
