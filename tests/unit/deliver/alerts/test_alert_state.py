"""What an alert remembers."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from headrace.deliver.alerts.alert_state import (
    AlertSilence,
    AlertState,
    Incident,
    IncidentEntry,
    Notice,
    key_text,
    read_state,
    write_state,
)
from headrace.errors import CorruptionError

INCIDENT = Incident(1, 2, {"page": "/home", "n": 7}, 2, 1, 4, "firing", fired_at_us=1)


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    entry = IncidentEntry({"page": "/home"}, INCIDENT)
    state = AlertState(
        fingerprint="f",
        cursor="c",
        from_us=-5,
        settled_us=1,
        keys={key_text(entry.key): (entry,)},
        withdrawn=(entry,),
        silences=(AlertSilence("s1", {"page": "/home"}, 5, "maintenance"),),
        notices=(Notice("n1", "firing", entry.key, INCIDENT, ("log", "webhook")),),
        seen_events=3,
    )
    write_state(tmp_path / "alerts" / "a.json", state)
    assert read_state(tmp_path / "alerts" / "a.json") == state


def test_the_state_of_an_older_version_is_read(tmp_path: Path) -> None:
    older = {
        "state": "firing",
        "since_us": 5,
        "until_us": 9,
        "row": {"n": 7},
        "version": 1,
        "commit": 4,
        "windowed": True,
        "fired_at_us": 70,
        "resolved_at_us": None,
        "reason": None,
        "observed": 5,
    }
    over = {**older, "state": "resolved", "since_us": 1, "until_us": 2, "resolved_at_us": 80}
    state = {
        "fingerprint": "f",
        "cursor": "c",
        "silences": [],
        "notices": [],
        "seen_events": None,
        "seen_at_us": None,
        "open": {"{}": {"key": {}, "incident": older, "notified_at_us": 71}},
        "resolved": [{"key": {}, "incident": over, "notified_at_us": 72}],
    }
    file = tmp_path / "a.json"
    file.write_bytes(orjson.dumps(state))
    read = read_state(file)
    assert [(entry.incident.since_us, entry.incident.until_us) for entry in read.keys["{}"]] == [(1, 2), (5, 9)]
    assert [entry.notified for entry in read.keys["{}"]] == ["resolved", "firing"]


def test_without_a_file_it_is_new(tmp_path: Path) -> None:
    assert read_state(tmp_path / "none.json") == AlertState()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b'{"open": 3')
    with pytest.raises(CorruptionError, match=r"a\.json"):
        read_state(file)


def test_a_silence_covers_rows_with_its_values_until_it_ends() -> None:
    silence = AlertSilence("s", {"page": "/home"}, 100)
    assert silence.covers({"page": "/home", "n": 3}, 99)
    assert not silence.covers({"page": "/home", "n": 3}, 100)
    assert not silence.covers({"page": "/other", "n": 3}, 99)
    assert AlertSilence("all", {}, 100).covers({"page": None}, 5)
