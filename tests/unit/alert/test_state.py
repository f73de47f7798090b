"""What an alert remembers."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.alert.incident import Incident
from headrace.alert.state import AlertState, Entry, Notice, Silence, key_text, read_state, write_state
from headrace.errors import CorruptionError

INCIDENT = Incident("firing", 1, 2, {"page": "/home", "n": 7}, 1, 4, windowed=True, fired_at_us=9)


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    entry = Entry({"page": "/home"}, INCIDENT)
    state = AlertState(
        fingerprint="f",
        cursor="c",
        open={key_text(entry.key): entry},
        resolved=(entry,),
        silences=(Silence("s1", {"page": "/home"}, 5, "maintenance"),),
        notices=(Notice("n1", "firing", entry.key, INCIDENT, ("log", "webhook")),),
        seen_events=3,
    )
    write_state(tmp_path / "alerts" / "a.json", state)
    assert read_state(tmp_path / "alerts" / "a.json") == state


def test_without_a_file_it_is_new(tmp_path: Path) -> None:
    assert read_state(tmp_path / "none.json") == AlertState()


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(b'{"open": 3')
    with pytest.raises(CorruptionError, match=r"a\.json"):
        read_state(file)


def test_a_silence_covers_rows_with_its_values_until_it_ends() -> None:
    silence = Silence("s", {"page": "/home"}, 100)
    assert silence.covers({"page": "/home", "n": 3}, 99)
    assert not silence.covers({"page": "/home", "n": 3}, 100)
    assert not silence.covers({"page": "/other", "n": 3}, 99)
    assert Silence("all", {}, 100).covers({"page": None}, 5)
