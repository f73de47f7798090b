"""Sinks at work: present state first, then changes; failures stall one sink alone; edits go on or start over."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from headrace.deliver.sinks import sink_runner
from headrace.deliver.sinks.sink_progress import read_progress
from headrace.errors import NotFoundError
from headrace.secrets import without_passwords
from tests import wording
from tests.unit.deliver.sinks.sink_bench import Bench, Receiver, data_files, latest, read_files
from tests.waiting import wait_until

FILES = "CREATE SINK k FROM v WITH (connector = 'files', path = 'out', format = 'json'{more}) {clauses};"


def files(clauses: str = "", more: str = "") -> str:
    return FILES.format(clauses=clauses, more=f", {more}" if more else "")


def http(receiver: Receiver, source: str = "v", clauses: str = "", more: str = "") -> str:
    more = f", {more}" if more else ""
    return f"CREATE SINK k FROM {source} WITH (connector = 'http', url = '{receiver.url}'{more}) {clauses};"


def counts(*pairs: tuple[str, int, int]) -> dict[tuple[str, str], int]:
    return {(key, f"1970-01-01T00:{minute:02d}:00Z"): n for key, minute, n in pairs}


def test_a_sink_over_history_sends_the_present_state_and_then_changes(bench: Bench) -> None:
    bench.commit(("a", 0), ("b", 0), ("a", 0))
    bench.run(files())
    bench.wait_sent()
    assert latest(read_files(bench.folder / "out")) == counts(("a", 0, 2), ("b", 0, 1))
    before = len(read_files(bench.folder / "out"))
    bench.commit(("a", 0), ("c", 1))
    bench.wait_sent()
    assert latest(read_files(bench.folder / "out")) == counts(("a", 0, 3), ("b", 0, 1), ("c", 1, 1))
    sent = read_files(bench.folder / "out")[before:]
    assert {row["k0"] for row in sent} >= {"a", "c"}


def test_progress_is_kept_over_restarts_and_nothing_is_sent_twice(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.run(files())
    bench.commit(("a", 0))
    bench.wait_sent()
    bench.stop()
    sent = read_files(tmp_path / "out")
    bench = Bench(tmp_path)
    bench.run(files())
    bench.wait_sent()
    assert read_files(tmp_path / "out") == sent
    bench.events.append([])
    bench.commit(("a", 0))
    bench.wait_sent()
    assert latest(read_files(tmp_path / "out")) == counts(("a", 0, 2))
    bench.stop()


def test_settled_rows_only_and_corrections(bench: Bench) -> None:
    bench.run(files("EMIT ON WINDOW CLOSE"))
    bench.commit(("a", 0), ("b", 0))
    bench.wait_sent()
    assert read_files(bench.folder / "out") == []
    bench.commit(("a", 2))
    bench.wait_sent()
    assert latest(read_files(bench.folder / "out")) == counts(("a", 0, 1), ("b", 0, 1))
    bench.commit(("a", 0))  # too late for its window: a correction
    bench.wait_sent()
    assert latest(read_files(bench.folder / "out")) == counts(("a", 0, 2), ("b", 0, 1))


@pytest.mark.parametrize("clauses", ["FORMAT APPEND ENCODE JSON", "EMIT ON WINDOW CLOSE"])
def test_without_corrections_each_settled_row_is_sent_once(bench: Bench, clauses: str) -> None:
    bench.run(files(clauses, "" if "APPEND" in clauses else "corrections = 'false'"))
    bench.commit(("a", 0), ("b", 0))
    bench.commit(("a", 2))
    bench.wait_sent()
    bench.commit(("a", 0))
    bench.commit(("a", 5))
    bench.wait_sent()
    rows = [(row["k0"], row["window_start"], row["n"]) for row in read_files(bench.folder / "out")]
    zero, two = "1970-01-01T00:00:00Z", "1970-01-01T00:02:00Z"
    assert sorted(rows) == [("a", zero, 1), ("a", two, 1), ("b", zero, 1)]


def test_complete_sends_all_rows_and_replaces_the_files_before(bench: Bench) -> None:
    bench.commit(("a", 0), ("b", 0))
    bench.run(files(more="mode = 'complete'"))
    bench.wait_sent()
    (first,) = data_files(bench.folder / "out")
    bench.commit(("c", 0))
    bench.wait_sent()
    (second,) = data_files(bench.folder / "out")
    assert first != second
    assert {row["k0"]: row["n"] for row in read_files(bench.folder / "out")} == {"a": 1, "b": 1, "c": 1}


def test_a_condition_sends_deletes_only_of_rows_that_were_sent(bench: Bench, receiver: Receiver) -> None:
    bench.run(http(receiver, "total", "WHERE n % 2 = 1"))
    bench.commit(("a", 0), ("b", 0), ("b", 0))
    bench.wait_sent()
    assert [(row["_op"], row["k0"]) for row in receiver.rows] == [("upsert", "a")]
    bench.commit(("a", 0), ("c", 0), ("c", 0))
    bench.wait_sent()
    assert [(row["_op"], row["k0"]) for row in receiver.rows[1:]] == [("delete", "a")]
    assert "n" not in receiver.rows[1]
    bench.commit(("b", 0))
    bench.wait_sent()
    assert [(row["_op"], row["k0"], row.get("n")) for row in receiver.rows[2:]] == [("upsert", "b", 3)]


def test_events_of_a_stream_in_batches_and_from_now_on(bench: Bench, receiver: Receiver) -> None:
    bench.append(7)
    bench.run(http(receiver, "s", more="batch.rows = 3"))
    bench.wait_sent()
    bench.append(2)
    bench.wait_sent()
    assert [row["_position"] for row in receiver.rows] == list(range(9))
    assert max(len(body["rows"]) for body in receiver.bodies) == 3
    assert len({headers["idempotency-key"] for headers in receiver.headers}) == len(receiver.headers)
    bench.run(http(receiver, "s", more="scan.startup.mode = 'latest'").replace("SINK k", "SINK late"))
    bench.wait_sent("late")
    bench.append(1)
    bench.wait_sent("late")
    assert [row["_position"] for row in receiver.rows[9:]] == [9]


def test_events_are_filtered(bench: Bench) -> None:
    bench.append(10)
    bench.run("CREATE SINK k FROM s WHERE id % 2 = 0 WITH (connector = 'files', path = 'out');")
    bench.wait_sent()
    ids = [row["id"] for row in read_files(bench.folder / "out")]
    assert ids
    assert all(id % 2 == 0 for id in ids)


def test_a_failing_sink_stalls_alone_and_catches_up(bench: Bench, receiver: Receiver) -> None:
    receiver.reply = lambda count: (500, {}, b"out of  order\n")
    other = files().replace("SINK k", "SINK other")
    bench.run(http(receiver) + other)
    bench.commit(("a", 0))
    reason = bench.wait_stalled()
    wording.check(reason, "k", 500, without_passwords(receiver.url))
    bench.wait_sent("other")
    wait_until(lambda: receiver.requests >= 2)  # tried again
    bench.commit(("b", 0))
    bench.wait_sent("other")
    state = bench.state()
    assert (state.state, state.progress.rows) == ("stalled", 0)
    assert state.lag_s > 0
    receiver.reply = lambda count: (200, {}, b"")
    bench.sinks.retry("k")
    bench.wait_sent()
    assert latest(receiver.rows) == counts(("a", 0, 1), ("b", 0, 1))
    assert bench.state().progress.errors >= 2
    assert bench.state().lag_s == 0


def test_a_pause_while_a_sink_stalls_is_not_lost(
    bench: Bench, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver.reply = lambda count: (500, {}, b"")
    pausing: list[threading.Thread] = []

    def replace_slowly(progress: Any, **values: Any) -> Any:
        if "errors" in values and not pausing:  # the sink is about to say that it is stalled
            pausing.append(threading.Thread(target=bench.sinks.pause, args=("k", True)))
            pausing[0].start()
            pausing[0].join(0.5)
        return replace(progress, **values)

    monkeypatch.setattr(sink_runner, "replace", replace_slowly)
    bench.run(http(receiver))
    bench.commit(("a", 0))
    wait_until(lambda: pausing and not pausing[0].is_alive())
    wait_until(lambda: bench.state().progress.errors > 0)
    assert bench.state().state == "paused"
    bench.sinks.pause("k", False)
    assert bench.wait_stalled()


def test_retry_after_is_honoured(bench: Bench, receiver: Receiver) -> None:
    receiver.reply = lambda count: (429, {"retry-after": "300"}, b"") if count == 1 else (200, {}, b"")
    bench.run(http(receiver))
    bench.commit(("a", 0))
    bench.wait_stalled()
    assert 200 < bench.state().retry_in_s <= 300
    bench.sinks.retry("k")
    bench.wait_sent()
    assert len(receiver.rows) == 1


def test_a_refused_request_says_what_the_server_answered(bench: Bench, receiver: Receiver) -> None:
    receiver.reply = lambda count: (422, {}, b'{"error": "no column k0"}' + b"x" * 500)
    bench.run(http(receiver))
    bench.commit(("a", 0))
    reason = bench.wait_stalled()
    assert 'answered 422: {"error": "no column k0"}xxx' in reason
    assert len(reason) < 400
    assert bench.state().retry_in_s > 30


def test_an_unreachable_server_and_a_lost_connection(bench: Bench, receiver: Receiver) -> None:
    bench.run("CREATE SINK k FROM v WITH (connector = 'http', url = 'http://127.0.0.1:1/x');")
    bench.commit(("a", 0))
    wording.check(bench.wait_stalled(), "k", 1)
    bench.run(http(receiver))  # a harmless change
    bench.wait_sent()
    assert latest(receiver.rows) == counts(("a", 0, 1))


def test_secrets_are_sent_and_never_shown(
    bench: Bench, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOOK_TOKEN", "hunter2")
    receiver.reply = lambda count: (500, {}, b"") if count == 1 else (200, {}, b"")
    bench.run(http(receiver, more="token = 'secret:HOOK_TOKEN', 'header.x-key' = 'secret:HOOK_TOKEN'"))
    bench.commit(("a", 0))
    bench.wait_stalled()
    bench.sinks.retry("k")
    bench.wait_sent()
    assert receiver.headers[-1]["authorization"] == "Bearer hunter2"
    assert receiver.headers[-1]["x-key"] == "hunter2"
    assert "hunter2" not in bench.store.stored_texts("sink")["k"]
    assert "hunter2" not in str(bench.state())
    assert "hunter2" not in "".join(capfd.readouterr())


def test_an_answer_that_repeats_secrets(bench: Bench, receiver: Receiver) -> None:
    url = f"http://user1@{urlsplit(receiver.url).netloc}/path1?q=query1"
    receiver.reply = lambda count: (400, {}, b"cannot POST /path1?q=query1 (query1) for user1 with Bearer token1, key1")
    more = "token = 'token1', 'header.x-key' = 'key1'"
    bench.run(http(receiver, more=more).replace(receiver.url, url))
    bench.commit(("a", 0))
    wording.check(bench.wait_stalled(), 400, "POST")


@pytest.mark.parametrize(
    "url", ["http://u:pass1/x", "http://127.0.0.1/a b/pass1", "http://h/ü/pass1", "h.example/pass1"]
)
def test_a_url_of_the_environment_that_is_none(bench: Bench, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("HOOK", url)
    bench.run("CREATE SINK k FROM v WITH (connector = 'http', url = 'secret:HOOK');")
    bench.commit(("a", 0))
    wording.check(bench.wait_stalled(), "k")


def test_a_secret_that_cannot_be_a_header(bench: Bench, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_TOKEN", "hunter2\n")
    bench.run(http(receiver, more="token = 'secret:HOOK_TOKEN'"))
    bench.commit(("a", 0))
    reason = bench.wait_stalled()
    wording.check(reason, "token")
    assert "hunter2" not in reason


def test_an_address_of_a_database_with_a_slash_in_its_password(bench: Bench) -> None:
    bench.run("CREATE SINK k FROM v WITH (connector = 'postgres', url = 'postgresql://me:hunter/2@h/db', table = 't');")
    bench.commit(("a", 0))
    reason = bench.wait_stalled()
    wording.check(reason, "url")
    assert "hunter" not in reason


def test_a_missing_secret_stalls_the_sink(bench: Bench, receiver: Receiver) -> None:
    bench.run(http(receiver, more="token = 'secret:NOT_SET_ANYWHERE'"))
    wording.check(bench.wait_stalled(), "secret:NOT_SET_ANYWHERE")


def test_harmless_changes_go_on_others_start_over(bench: Bench, receiver: Receiver) -> None:
    bench.run(http(receiver, "total"))
    bench.commit(("a", 0))
    bench.wait_sent()
    bench.run(http(receiver, "total", more="timeout = '5 seconds'"))
    bench.commit(("b", 0))
    bench.wait_sent()
    assert [row["k0"] for row in receiver.rows] == ["a", "b"]
    bench.run(http(receiver, "total", "WHERE n > 0"))
    bench.wait_sent()
    assert sorted(row["k0"] for row in receiver.rows[2:]) == ["a", "b"]
    assert receiver.bodies[-1]["restarted"]


def test_a_dropped_sink_leaves_nothing_but_what_it_sent(bench: Bench) -> None:
    bench.run(files())
    bench.commit(("a", 0))
    bench.wait_sent()
    sent = data_files(bench.folder / "out")
    bench.run("")
    wait_until(lambda: not read_progress(bench.store))
    assert bench.sinks.states() == []
    wait_until(lambda: not list((bench.folder / "out" / "_headrace").glob("*")))
    with bench.store.snapshot() as snapshot:
        assert snapshot.followers() == []
    bench.run(files())  # created again: the present state again, beside the old files
    bench.wait_sent()
    assert data_files(bench.folder / "out")[: len(sent)] == sent
    assert len(data_files(bench.folder / "out")) == len(sent) + 1


def test_pause_lasts_over_restarts(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.run(files())
    bench.commit(("a", 0))
    bench.wait_sent()
    assert bench.sinks.pause("k", True).state == "paused"
    bench.commit(("b", 0))
    bench.stop()
    bench = Bench(tmp_path)
    bench.run(files())
    wait_until(lambda: bench.state().state == "paused")
    assert latest(read_files(tmp_path / "out")) == counts(("a", 0, 1))
    bench.sinks.pause("k", False)
    bench.wait_sent()
    assert latest(read_files(tmp_path / "out")) == counts(("a", 0, 1), ("b", 0, 1))
    with wording.raises(NotFoundError, "kk"):
        bench.sinks.pause("kk", True)
    bench.stop()


def test_a_lost_store_goes_on_from_what_the_files_record(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.append(5)
    stream_files = "CREATE SINK k FROM s WITH (connector = 'files', path = 'out');"
    bench.run(stream_files)
    bench.wait_sent()
    bench.stop()
    (tmp_path / "store").unlink()
    bench = Bench(tmp_path)
    bench.append(5)
    bench.run(stream_files)
    bench.wait_sent()
    positions = [row["_position"] for row in read_files(tmp_path / "out")]
    assert positions == list(range(10))
    bench.stop()


def test_files_are_partitioned_by_date(bench: Bench) -> None:
    bench.commit(("a", 0), ("b", 60 * 24 + 5))
    bench.run(files(more="partition.by = 'date'"))
    bench.wait_sent()
    folders = sorted(path.parent.name for path in data_files(bench.folder / "out"))
    assert folders == ["dt=1970-01-01", "dt=1970-01-02"]


def test_a_folder_that_cannot_be_written_is_told(bench: Bench) -> None:
    (bench.folder / "out").write_text("a file")
    bench.run(files())
    reason = bench.wait_stalled()
    wording.check(reason, bench.folder / "out" / "_headrace")
    (bench.folder / "out").unlink()
    bench.sinks.retry("k")
    bench.wait_sent()


@pytest.mark.parametrize("point", ["sink.before_commit", "sink.after_commit", "sink.before_progress"])
def test_files_are_exactly_once_over_failures(bench: Bench, monkeypatch: pytest.MonkeyPatch, point: str) -> None:
    fault = bench.folder / "fault"
    monkeypatch.setenv("HEADRACE_FAULT", f"@{fault}")
    bench.run("CREATE SINK k FROM s WITH (connector = 'files', path = 'out', batch.rows = 4);")
    for _ in range(3):
        fault.write_text(f"{point}=EIO")
        bench.append(6)
        assert "injected" in bench.wait_stalled()
        fault.unlink()
        bench.sinks.retry("k")
        bench.wait_sent()
    assert [row["_position"] for row in read_files(bench.folder / "out")] == list(range(18))
    assert not list((bench.folder / "out").rglob("*.tmp"))


def test_a_cursor_is_recorded_with_each_file(bench: Bench) -> None:
    bench.append(3)
    bench.run("CREATE SINK k FROM s WITH (connector = 'files', path = 'out');")
    bench.wait_sent()
    record = json.loads((bench.folder / "out" / "_headrace" / "k.json").read_text())
    assert record["files"] == [path.name for path in data_files(bench.folder / "out")]
    assert record["cursor"] == bench.state().progress.place.to_text()


def test_only_hosts_of_the_setting_are_reached(bench: Bench, receiver: Receiver) -> None:
    workspace = bench.sinks._workspace
    workspace.settings = replace(workspace.settings, http_allow="example.com, *.internal:8443")
    bench.run(http(receiver))
    bench.commit(("a", 0))
    reason = bench.wait_stalled()
    wording.check(reason, "k", "http_allow", "127.0.0.1")
    assert not receiver.requests
    workspace.settings = replace(workspace.settings, http_allow="example.com, 127.0.0.*")
    bench.sinks.retry("k")
    bench.wait_sent()
    assert receiver.requests
