"""UNIQUE (…) WITHIN …: the first event of an id counts, repeats are dead letters; compared with plain Python."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.lake.upkeep import Compaction
from tests import wording
from tests.effort import examples
from tests.unit.lake.dead_lake import stream_of
from tests.unit.lake.unique_lake import SQL, Sent, UniqueLake, verdicts

IDS = st.sampled_from(["a", "b", "c", "ä, 'quoted'", None])
# Minutes around the bounds of the interval and of segments, and days away from them.
MINUTES = st.one_of(
    st.sampled_from([0.0, 59.0, 60.0, 61.0, 119.0, 120.0, 121.0, 20_000.0, -9_000.0]),
    st.integers(-300, 300).map(float),
)
EVENTS = st.builds(Sent, IDS, MINUTES, st.integers(0, 9))
STEPS = st.lists(
    st.one_of(
        st.lists(EVENTS, min_size=1, max_size=12),
        st.sampled_from(["commit", "commit in ranges", "fail", "restart", "compact"]),
    ),
    max_size=30,
)


def lake_verdicts(lake: UniqueLake) -> list[bool]:
    """Whether each event counts, by position."""
    rows = [(row["_position"], True) for row in lake.rows(dead=False)]
    rows += [(row["_position"], False) for row in lake.rows(dead=True)]
    return [counts for _, counts in sorted(rows)]


@settings(max_examples=examples(20), deadline=None)
@given(STEPS)
def test_it_equals_the_reference(steps: list[object]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = UniqueLake(Path(folder))
        sent: list[Sent] = []
        for step in [*steps, "commit"]:
            if isinstance(step, list):
                sent += step
                lake.post(*(event.line() for event in step))
            elif step == "restart":
                lake = lake.again()
            elif step == "compact":
                Compaction(lake.table, gather=2).run_once()
            elif lake.journal.end != lake.table.state.position:
                lake.commit(ranges=3 if step == "commit in ranges" else 1, fails=step == "fail")
        expected = verdicts(sent, 3600)
        assert lake_verdicts(lake) == expected
        assert lake.table.duplicates == expected.count(False)
        again = lake.again()
        assert again.table.duplicates == expected.count(False)
        again.close()


REPLAYS = st.lists(
    st.one_of(
        st.lists(st.builds(Sent, IDS, MINUTES, st.sampled_from([1, 1.5])), min_size=1, max_size=8),
        st.sampled_from(["commit", "commit", "loosen", "replay", "replay", "restart", "compact"]),
    ),
    max_size=30,
)
LOOSE = stream_of(SQL.replace("x INT", "x DOUBLE"))


@settings(max_examples=examples(20), deadline=None)
@given(REPLAYS)
def test_replays_equal_the_reference(steps: list[object]) -> None:
    """Letters that a replay can read are judged after all commits before it, in the order of the log."""
    with tempfile.TemporaryDirectory() as folder:
        lake = UniqueLake(Path(folder))
        sent: list[Sent] = []
        waiting: list[int] = []  # not committed yet, by their number
        letters: list[int] = []
        counted: list[int] = []

        def judge(numbers: list[int]) -> list[int]:
            """Those that do not count."""
            kept = []
            for number in numbers:
                readable = isinstance(sent[number].x, int) or lake.stream == LOOSE
                counts = verdicts([*(sent[each] for each in counted), sent[number]], 3600)[-1]
                (counted if readable and counts else kept).append(number)
            return kept

        for step in [*steps, "commit", "loosen", "replay", "replay"]:
            if isinstance(step, list):
                waiting += range(len(sent), len(sent) + len(step))
                sent += step
                lake.post(*(event.line() for event in step))
            elif step == "restart":
                lake = lake.again()
            elif step == "compact":
                Compaction(lake.table, gather=2).run_once()
            elif step == "loosen":
                lake.redefine(LOOSE)
            elif step == "replay":
                before = len(counted)
                letters = judge(letters)
                assert lake.replay.step(lake.stream, dry_run=True).readable == len(counted) - before
                assert lake.replay.step(lake.stream).readable == len(counted) - before
            elif waiting:
                letters += judge(waiting)
                waiting = []
                lake.commit()
        assert lake_verdicts(lake) == [number in counted for number in range(len(sent))]
        lake.close()


@pytest.fixture
def lake(tmp_path: Path) -> UniqueLake:
    return UniqueLake(tmp_path)


def test_the_reason_names_the_id_and_the_first_event(lake: UniqueLake) -> None:
    lake.add(Sent("p-1", 0).line(), Sent("p-1", 1).line())
    lake.add(Sent("p-1", 2).line())
    first = lake.rows(dead=False)[0]["_position"]
    letters = lake.dead.page().dead_letters
    assert [letter.reason for letter in letters] == [f"duplicate, found id = 'p-1', first at position {first}"] * 2
    assert [(reason.reason, reason.count) for reason in lake.dead.reasons()] == [("duplicate", 2)]
    assert len(lake.dead.page(reason="duplicate").dead_letters) == 2


def test_an_event_that_did_not_count_repeats_nothing(lake: UniqueLake) -> None:
    """A chain of repeats ends: the third is far enough from the first, and the second did not count."""
    lake.add(Sent("a", 0).line(), Sent("a", 50).line(), Sent("a", 70).line(), Sent("a", 71).line())
    assert lake_verdicts(lake) == [True, False, True, False]


def test_several_columns_are_compared_together(tmp_path: Path) -> None:
    sql = "CREATE STREAM s (id STRING, x INT, at TIMESTAMP NOT NULL, WATERMARK FOR at, UNIQUE (id, x) WITHIN 1 HOUR)"
    lake = UniqueLake(tmp_path, stream_of(sql))
    lake.add(Sent("a", 0, 1).line(), Sent("a", 0, 2).line(), Sent("a1", 0, 1).line(), Sent("a", 0, 1).line())
    assert lake_verdicts(lake) == [True, True, True, False]
    (letter,) = lake.dead.page().dead_letters
    wording.check(letter.reason, "a", 1)
    lake.add(b'{"id":"a","at":"2026-02-02T02:40:00Z"}', b'{"id":"a","at":"2026-02-02T02:40:00Z"}')
    assert lake_verdicts(lake)[4:] == [True, True], "NULL is no id"


@pytest.mark.parametrize(
    ("type_", "values"),
    [
        ("BIGINT", ["1", "2", "1", "-1"]),
        ("DOUBLE", ["0.0", "1.5", "-0.0", "1e3"]),
        ("DECIMAL(10,2)", ["1.50", "1.05", "1.5", "15"]),
        ("BOOLEAN", ["true", "false", "true", "null"]),
        ("DATE", ['"2026-03-01"', '"2026-03-02"', '"2026-03-01"', "null"]),
        ("TIMESTAMP", ['"2026-03-01T12:00:00Z"', '"2026-03-01T12:00:01Z"', '"2026-03-01T13:00:00+01:00"', "null"]),
        ("STRING", ['""', '" "', '""', '"\\u0000"']),
    ],
)
def test_ids_of_every_type(tmp_path: Path, type_: str, values: list[str]) -> None:
    """The third has the value of the first. There is no event time: it is that of arrival."""
    lake = UniqueLake(tmp_path, stream_of(f"CREATE STREAM s (k {type_}, UNIQUE (k) WITHIN INTERVAL 1 DAY)"))
    lake.add(*(f'{{"k":{value}}}'.encode() for value in values))
    assert lake_verdicts(lake) == [True, True, False, True]
    lake = lake.again()
    lake.add(*(f'{{"k":{value}}}'.encode() for value in values))
    assert lake_verdicts(lake)[4:] == [value == "null" for value in values]


def test_one_id_all_the_time(tmp_path: Path) -> None:
    """A short interval: the id of a sensor counts once a second, many times in one block."""
    sql = "CREATE STREAM s (id STRING, x INT, at TIMESTAMP NOT NULL, WATERMARK FOR at, UNIQUE (id) WITHIN '10 seconds')"
    lake = UniqueLake(tmp_path, stream_of(sql))
    sent = [Sent("t", (n * 7919 % 4001) / 60) for n in range(4000)]
    lake.add(*(event.line() for event in sent[:3000]))
    lake.add(*(event.line() for event in sent[3000:]))
    expected = verdicts(sent, 10)
    assert lake_verdicts(lake) == expected
    assert 200 < expected.count(True) < 401


def test_late_events_are_judged_once_more_with_the_ids_of_their_time(lake: UniqueLake) -> None:
    lake.add(Sent("old", 0).line())
    lake.add(Sent("new", 30 * 1440).line())
    lake = lake.again()
    lake.add(Sent("x", 30 * 1440).line())
    assert lake.attempts == 1
    assert lake.index.entries == 2, "only ids of about the time of the stream are loaded"
    lake.add(Sent("old", 30).line(), Sent("old2", 30).line())
    assert lake.attempts == 3
    assert lake_verdicts(lake) == [True, True, True, False, True]
    lake.add(Sent("old2", 31).line())
    assert lake.attempts == 4, "what was loaded stays for a while"
    assert lake_verdicts(lake) == [True, True, True, False, True, False]
    assert not [file for file in lake.table.folder.rglob("*.parquet") if file.name not in _names(lake)]


def _names(lake: UniqueLake) -> set[str]:
    return {Path(file.path).name for file in lake.table.all_files()}


def test_runs_are_merged_and_segments_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.lake.event_id_index.KEPT_S", 0.0)
    lake = UniqueLake(tmp_path)
    sent: list[Sent] = []
    for number in range(60):
        sent += [Sent(str(number), number * 20), Sent(str(max(0, number - 2)), number * 20)]
        lake.add(sent[-2].line(), sent[-1].line())
    assert lake_verdicts(lake) == verdicts(sent, 3600)
    assert lake.index.entries < 30, "of some hours, not of the whole day"
    assert len(list((tmp_path / "scratch-0").rglob("*.ids"))) < 20


def test_a_damaged_cache_costs_time_only(lake: UniqueLake) -> None:
    lake.add(Sent("a", 0).line())
    for file in (lake.folder / "scratch-0").rglob("*.ids"):
        file.write_bytes(b"")
    lake.post(Sent("a", 1).line())
    with pytest.raises(ValueError, match="changed since it was written"):
        lake.commit()
    lake.index.reset()  # as the append does after every failure
    lake.commit()
    assert lake_verdicts(lake) == [True, False]


def test_a_change_applies_from_the_next_commit_on(tmp_path: Path) -> None:
    fields = "id STRING, x INT, at TIMESTAMP NOT NULL, WATERMARK FOR at"
    plain = stream_of(f"CREATE STREAM s ({fields})")
    lake = UniqueLake(tmp_path, plain)
    lake.add(Sent("a", 0, 1).line(), Sent("a", 0, 2).line())
    lake.redefine(stream_of(f"CREATE STREAM s ({fields}, UNIQUE (id) WITHIN 1 HOUR)"))
    lake.add(Sent("a", 1, 3).line(), Sent("b", 1, 3).line())
    lake.redefine(stream_of(f"CREATE STREAM s ({fields}, UNIQUE (x) WITHIN 1 HOUR)"))
    lake.add(Sent("c", 1, 1).line(), Sent("a", 1, 4).line())
    lake.redefine(stream_of(f"CREATE STREAM s ({fields}, UNIQUE (x) WITHIN 1 MINUTE)"))
    lake.add(Sent("d", 2.5, 4).line())
    lake.redefine(plain)
    lake.add(Sent("d", 2.5, 4).line())
    assert lake_verdicts(lake) == [True, True, False, True, False, True, True, True]


def test_a_field_that_was_added_is_read_from_older_events(tmp_path: Path) -> None:
    lake = UniqueLake(tmp_path, stream_of("CREATE STREAM s (at TIMESTAMP NOT NULL, WATERMARK FOR at)"))
    lake.add(Sent("a", 0).line(), Sent("b", 0).line())
    lake.redefine(
        stream_of("CREATE STREAM s (at TIMESTAMP NOT NULL, id STRING, WATERMARK FOR at, UNIQUE (id) WITHIN 1 HOUR)")
    )
    lake.add(Sent("a", 1).line(), Sent("c", 1).line())
    assert lake_verdicts(lake) == [True, True, False, True]


def test_a_wider_type_is_the_same_id(tmp_path: Path) -> None:
    sql = "CREATE STREAM s (id STRING, x {}, at TIMESTAMP NOT NULL, WATERMARK FOR at, UNIQUE (x) WITHIN 1 HOUR)"
    lake = UniqueLake(tmp_path, stream_of(sql.format("INT")))
    lake.add(Sent("a", 0, 1).line())
    lake.redefine(stream_of(sql.format("DOUBLE")))
    lake.add(Sent("a", 0, 1).line(), Sent("a", 0, 2).line())
    assert lake_verdicts(lake) == [True, False, True]


def test_replay_leaves_duplicates_where_they_are(lake: UniqueLake) -> None:
    lake.add(Sent("a", 0).line(), Sent("a", 1).line())
    files, state = lake.table.files(0, 9, dead=True), lake.table.state
    for dry_run in (True, False):
        step = lake.replay.step(lake.stream, dry_run=dry_run)
        assert (step.read, step.readable) == (1, 0)
    assert (lake.table.files(0, 9, dead=True), lake.table.state) == (files, state)


def test_replayed_events_are_judged_like_others(tmp_path: Path) -> None:
    strict = "CREATE STREAM s (id STRING, x INT, at TIMESTAMP NOT NULL, WATERMARK FOR at, UNIQUE (id) WITHIN 1 HOUR)"
    lake = UniqueLake(tmp_path, stream_of(strict))
    late = b'{"id":"%s","x":1.5,"at":"2026-02-02T02:40:00Z"}'
    lake.add(late % b"a", late % b"b", late % b"b", b"broken")
    lake.add(Sent("a", 0).line())
    lake.redefine(stream_of(strict.replace("x INT", "x DOUBLE")))
    assert lake.replay.step(lake.stream, dry_run=True).readable == 1
    assert lake.replay.step(lake.stream).readable == 1
    assert [row["id"] for row in lake.rows(dead=False)] == ["b", "a"]
    reasons = [row["_reason"].split(",")[0] for row in lake.rows(dead=True)]
    assert reasons[:2] == ["duplicate", "duplicate"]
    assert len(reasons) == 3
    lake.add(Sent("b", 5).line(), Sent("c", 5).line())
    assert [row["id"] for row in lake.rows(dead=False)] == ["b", "a", "c"], "the index has replayed events"
    lake = lake.again()
    files = lake.table.files(0, 9, dead=True)
    assert lake.replay.step(lake.stream).readable == 0
    assert lake.table.files(0, 9, dead=True) == files


def test_without_the_clause_replay_makes_events_of_duplicates(lake: UniqueLake) -> None:
    lake.add(Sent("a", 0).line(), Sent("a", 1).line())
    lake.redefine(stream_of("CREATE STREAM s (id STRING, x INT, at TIMESTAMP NOT NULL, WATERMARK FOR at)"))
    assert lake.replay.step(lake.stream).readable == 1
    assert [row["id"] for row in lake.rows(dead=False)] == ["a", "a"]
