"""Work that takes longer than its limit, or that runs when the server stops, is interrupted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from headrace.errors import HeadraceError, QuestionLimitError, UnavailableError
from headrace.serve.evaluate import question_limit
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.time_limit import TimeLimit, check_time
from tests import wording
from tests.waiting import wait_until

ENDLESS = "SELECT count(*) FROM range(1_000_000) a, range(1_000_000) b, range(1_000_000) c WHERE a.range = b.range + 1"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckStore]:
    with closing(DuckStore.open(tmp_path / "store", fence=1)) as store:
        yield store


def run_endless(store: DuckStore, limit: TimeLimit) -> None:
    with limit.watch(), store.snapshot() as snapshot:
        snapshot.connection.execute(ENDLESS).fetchall()  # type: ignore[attr-defined]


def test_a_query_beyond_the_limit_is_interrupted(store: DuckStore) -> None:
    with pytest.raises(QuestionLimitError) as failure:
        run_endless(store, question_limit(0.1))
    wording.check(failure.value.found, "0.1")
    assert "question_timeout_s" in str(failure.value)
    with question_limit(60).watch(), store.snapshot() as snapshot:
        assert snapshot.versions() == []


def test_a_loop_beyond_the_limit_ends() -> None:
    def loop() -> None:
        with question_limit(0.1).watch():
            while True:
                check_time()

    with pytest.raises(QuestionLimitError):
        loop()


def test_a_failure_within_the_limit_is_reported_as_it_is(store: DuckStore) -> None:
    with pytest.raises(duckdb.ParserException), question_limit(60).watch(), store.snapshot() as snapshot:
        snapshot.connection.execute("SELEC 1")  # type: ignore[attr-defined]


def test_a_stop_ends_what_runs_and_what_begins_later(store: DuckStore) -> None:
    limit, ends = question_limit(3600), list[HeadraceError]()

    def ask() -> None:
        try:
            run_endless(store, limit)
        except HeadraceError as error:
            ends.append(error)

    running = threading.Thread(target=ask, daemon=True)
    running.start()
    wait_until(lambda: any(work.interrupts for work in limit._working))
    limit.stop()
    running.join(60)
    ask()
    assert [type(error) for error in ends] == [UnavailableError] * 2
