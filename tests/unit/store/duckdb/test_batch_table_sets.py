"""Sets that only the batch layer has: kept where memory allows it, and left out, not an error, where it does not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.aggregate import REGISTRY
from headrace.aggregate.unique_counts import FORMAT, SKETCH
from headrace.define.model import Column, Key, View
from headrace.language.terms import Expression
from headrace.serve.answer import Answer
from headrace.serve.evaluate import answer
from headrace.serve.freshness import up_to_date
from headrace.serve.question import Question
from headrace.store.duckdb import snapshot
from headrace.store.duckdb.batch_table import make_batch_table
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.key_ids import key_id_of
from headrace.store.partial_columns import CORRECTIONS, EVENTS, KEY_ID, PANE, partial_columns
from headrace.store.store_contract import Step
from headrace.transport.position import Position
from headrace.types import BIGINT, STRING
from tests.contracts.store.layers import point
from tests.unit.store.partial_files import MINUTE

UNIQUE = REGISTRY["unique"]((Expression.field("x", BIGINT),))
VIEW = View("v", ("events",), (Key("k0", Expression.field("k0", STRING)),), (Column("n", UNIQUE),), MINUTE)
NAMES = [name for name, _ in partial_columns(UNIQUE)]
VALUES = 20_000  # of a pane
STEP = 1_000  # values that a pane has and the one before has not
Cell = tuple[str, int, int]  # key, minute, first value


def write(path: Path, cells: list[Cell], *, batch: bool = True) -> Path:
    """Partials of cells with so many values each, as a layer would write them; any integer is as good as a hash."""
    values = [np.arange(first, first + VALUES) for _, _, first in cells]
    hashes = [np.sort(np.concatenate([each * 2, each * 2 + 1])).astype("<u8") + 1 for each in values]
    heads = [FORMAT.to_bytes(8, "little") + len(each).to_bytes(8, "little") for each in hashes]
    sets = [head + each.tobytes() if batch else b"" for head, each in zip(heads, hashes, strict=True)]
    columns = {
        KEY_ID: pa.array([key_id_of(VIEW, {"k0": key}) for key, _, _ in cells]),
        PANE: pa.array([minute * 60_000 for _, minute, _ in cells]),
        "k0": pa.array([key for key, _, _ in cells]),
        EVENTS: pa.array([VALUES] * len(cells)),
        CORRECTIONS: pa.array([0] * len(cells)),
        NAMES[0]: SKETCH.run(pa.array([each.tolist() for each in values], pa.list_(pa.int64()))),
        NAMES[1]: pa.array(sets, pa.binary()),
    }
    pq.write_table(pa.table(columns), path)
    return path


def found(path: Path, table: str) -> dict[int, tuple[Any, bool]]:
    """Of each row, its number and whether it is exact."""
    columns = ", ".join([PANE, *(f'"{name}"' for name in NAMES)])
    with closing(duckdb.connect(str(path), read_only=True)) as connection:
        rows = connection.execute(f"SELECT {columns} FROM {table} ORDER BY {PANE}").fetchall()
    return {pane // 60_000: (UNIQUE.present(partial), UNIQUE.is_exact(partial)) for pane, *partial in rows}


def compressions(path: Path, column: str) -> set[str]:
    """How DuckDB has compressed the values of a column."""
    with closing(duckdb.connect(str(path), read_only=True)) as connection:
        query = "SELECT compression FROM pragma_storage_info('panes') WHERE column_name = ? AND segment_type = 'BLOB'"
        return {compression for (compression,) in connection.execute(query, [column]).fetchall()}


@pytest.mark.parametrize("most_bytes", [None, 1_000_000, 10_000_000])
def test_portions_of_any_size_keep_sets_exact(tmp_path: Path, most_bytes: int | None) -> None:
    minutes = range(0, 120, 4)
    files = [
        write(tmp_path / f"{half}", [("a", minute, minute * STEP + half * STEP) for minute in minutes])
        for half in range(2)
    ]
    make_batch_table(VIEW, tmp_path / "table", partials=files, earlier=[], most_bytes=most_bytes)
    assert found(tmp_path / "table", "panes") == dict.fromkeys(minutes, (VALUES + STEP, True))
    spans = {0: (56 * STEP + STEP + VALUES, True), 60: (56 * STEP + STEP + VALUES, True)}
    assert found(tmp_path / "table", "hours") == spans
    assert found(tmp_path / "table", "days") == {0: (116 * STEP + STEP + VALUES, True)}


def test_without_enough_memory_rows_have_no_set_and_nothing_fails(tmp_path: Path) -> None:
    cells = [("a", minute, minute * VALUES) for minute in range(60)]
    make_batch_table(VIEW, tmp_path / "table", partials=[write(tmp_path / "p", cells)], earlier=[], memory_mb=30)
    counts = [*found(tmp_path / "table", "panes").values(), *found(tmp_path / "table", "days").values()]
    assert not all(exact for _, exact in counts), "the sets have 19 MB, and are in memory more than once"
    for (number, exact), wanted in zip(counts, [VALUES] * 60 + [60 * VALUES], strict=True):
        assert abs(number - wanted) <= (0 if exact else 0.08 * wanted)


def test_a_large_table_is_read_and_merged_in_little_memory(tmp_path: Path) -> None:
    """Its sets have 32 MB. DuckDB compresses nothing there: else it would read those of all rows for one of them."""
    first = [write(tmp_path / f"{n}", [("a", m, m * STEP) for m in range(n, 100, 5)]) for n in range(5)]
    make_batch_table(VIEW, tmp_path / "first", partials=first, earlier=[], memory_mb=70)
    with closing(duckdb.connect(config={"memory_limit": "15MB", "threads": 1})) as connection:
        connection.execute(f"ATTACH '{tmp_path / 'first'}' AS t (READ_ONLY)")
        query = f'SELECT octet_length("{NAMES[1]}") FROM t.panes WHERE {PANE} = 60000'
        assert connection.execute(query).fetchall() == [(16 + 16 * VALUES,)]
    assert compressions(tmp_path / "first", NAMES[1]) == {"Uncompressed"}
    more = [write(tmp_path / "more", [("a", 99, 0)])]
    make_batch_table(VIEW, tmp_path / "both", partials=more, earlier=[tmp_path / "first"], memory_mb=70)
    assert found(tmp_path / "both", "panes") == {m: (VALUES * (1 + (m == 99)), True) for m in range(100)}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckStore]:
    """Two keys in a batch table, one of them in the speed layer, too."""
    with closing(DuckStore.open(tmp_path / "store", fence=1)) as store:
        version = store.register(VIEW, "f", {"events": 0}, {"events": point(1)})
        store.build("v", version.number, "events", 1)
        files = [write(tmp_path / "partials", [("a", 0, 0), ("b", 0, 0), ("b", 1, STEP)])]
        store.fill("v", version.number, "events", store.make_batch_table(version, (0, 1), files))
        store.promote("v", version.number)
        yield store


def ask(store: DuckStore, **question: Any) -> Answer:
    return answer(store, Question.of("v", **question), up_to_date, datetime(2026, 1, 1, tzinfo=UTC))


def test_a_question_reads_sets_only_if_they_fit(store: DuckStore, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ask(store)
    assert ([row["n"] for row in whole.rows()], dict(whole.estimates)) == ([VALUES] * 3, {})
    assert [row["n"] for row in ask(store, by=[], window="1h").rows()] == [VALUES + STEP]
    monkeypatch.setattr(snapshot, "MOST_BATCH_ONLY", 2 * VALUES * 16)
    large = ask(store)
    assert dict(large.estimates) == {"n": (0, 1, 2)}
    assert large.stated_errors() == {"n": "within 3.2 % in 95 of 100 answers"}
    assert all(abs(row["n"] - VALUES) < 0.08 * VALUES for row in large.rows())
    few = ask(store, key={"k0": "b"})
    assert ([row["n"] for row in few.rows()], few.approximate) == ([VALUES] * 2, {})


def test_speed_rows_make_estimates_of_their_own_rows(store: DuckStore, tmp_path: Path) -> None:
    speed = write(tmp_path / "speed", [("a", 0, 5 * VALUES)], batch=False)
    store.apply(Step("events", 1, 2, Position.at(20), 0, 0), {("v", 1): [str(speed)]})
    mixed = ask(store)
    assert dict(mixed.estimates) == {"n": (0,)}
    assert mixed.stated_errors() == {"n": "within 3.2 % in 95 of 100 answers in 1 of 3 rows, exact in the others"}
    assert abs(mixed.rows()[0]["n"] - 2 * VALUES) < 0.08 * 2 * VALUES
    assert [row["n"] for row in mixed.rows()[1:]] == [VALUES] * 2
    assert Answer.from_dict(mixed.as_dict()).estimates == mixed.estimates
