"""The metadata of an answer, and that JSON, Arrow and pandas have the same values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import orjson
import pyarrow as pa
import pytest

from headrace.define.model import Window
from headrace.serve.answer import Answer
from headrace.serve.evaluate import answer
from headrace.serve.freshness import Fresh
from headrace.serve.question import Question
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.store_contract import Step
from headrace.transport.position import Position
from tests.unit.store.partial_files import Event, make_view, simple_event, write_partials

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
NEWEST = datetime(2026, 1, 1, 11, 59, 30, 250_000, tzinfo=UTC)
AT_MS = 1_767_268_740_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckStore]:
    opened = DuckStore.open(tmp_path / "store", fence=1)
    opened.register(make_view(), "f", {"events": 0})
    yield opened
    opened.close()


def merge(store: DuckStore, folder: Path, *events: Event) -> None:
    file = write_partials(folder / "p.parquet", make_view(), events)
    newest_us = int(NEWEST.timestamp() * 1_000_000)
    store.apply(Step("events", 0, 4, Position.at(99), newest_us, 0), {("v", 1): [file]})


def ask(store: DuckStore) -> Answer:
    return answer(store, Question.of("v"), lambda version: Fresh(version.bases[0].applied_to), NOW)


def through_json(result: Answer) -> dict[str, object]:
    text: dict[str, object] = orjson.loads(orjson.dumps(result.as_dict()))
    assert repr(Answer.from_dict(text).as_dict()) == repr(result.as_dict())
    return text


def test_the_json_of_an_answer(store: DuckStore, tmp_path: Path) -> None:
    merge(store, tmp_path, simple_event("/a", AT_MS, 3))
    result = through_json(ask(store))
    (row,) = result.pop("rows")  # type: ignore[misc]
    assert list(row)[:3] == ["k0", "window_start", "window_end"]
    assert list(row)[-1] == "settled"
    assert (row["window_start"], row["window_end"]) == ("2026-01-01T11:59:00Z", "2026-01-01T12:00:00Z")
    assert (row["sum_bigint"], row["sum_decimal"], row["max_date"]) == (3, "3.00", "2026-01-01")
    columns = {column["name"]: column["type"] for column in result.pop("columns")}  # type: ignore[attr-defined]
    assert list(columns) == list(row)
    assert (columns["sum_bigint"], columns["sum_decimal"], columns["settled"]) == ("BIGINT", "DECIMAL(38,2)", "BOOLEAN")
    approximate = result.pop("approximate")
    assert all(name.startswith("approx_") for name in approximate)  # type: ignore[attr-defined]
    assert result == {
        "next_cursor": None,
        "more_rows": 0,
        "view": "v",
        "version": 1,
        "as_of": {
            "commits": {"events": 4},
            "newest_event": "2026-01-01T11:59:30.250000Z",
            "at": "2026-01-01T12:00:00Z",
            "streams": {
                "events": {
                    "commits": 4,
                    "horizon": 0,
                    "newest_event": "2026-01-01T11:59:30.250000Z",
                    "settled_until": "2026-01-01T11:59:30.250000Z",
                    "freshness_ms": 4,
                    "freshness_reason": None,
                }
            },
        },
        "freshness_ms": 4,
        "freshness_reason": None,
        "events": {"batch": 0, "speed": 1},
        "corrections": 0,
        "estimates": {},
        "windows": {"start": None, "end": None, "counted_from": None, "window_ms": 60_000, "every_ms": 60_000},
        "stalled": None,
        "errors": [],
    }


def test_aliases_of_window_bounds_are_additional_columns(tmp_path: Path) -> None:
    store = DuckStore.open(tmp_path / "store", fence=1)
    store.register(make_view(window=Window(60_000, 60_000, "minute", "until")), "f", {"events": 0})
    merge(store, tmp_path, simple_event("/a", AT_MS, 3))
    result = ask(store)
    (row,) = through_json(result)["rows"]  # type: ignore[misc]
    assert list(row)[:5] == ["k0", "window_start", "window_end", "minute", "until"]
    assert (row["minute"], row["until"]) == (row["window_start"], row["window_end"])
    assert (row["minute"], row["until"]) == ("2026-01-01T11:59:00Z", "2026-01-01T12:00:00Z")
    assert (row["sum_bigint"], row["settled"]) == (3, False)
    assert result.arrow().column("minute")[0].as_py() == datetime(2026, 1, 1, 11, 59, tzinfo=UTC)
    store.close()


def test_a_stalled_view_still_answers_and_says_so(store: DuckStore, tmp_path: Path) -> None:
    merge(store, tmp_path, simple_event("/a", AT_MS))
    store.stall("v", 1, "events", "division by zero")
    result = ask(store)
    assert (result.stalled, len(result.rows())) == ("division by zero", 1)


def test_a_view_without_events_answers_with_no_rows(store: DuckStore) -> None:
    result = ask(store)
    assert through_json(result)["rows"] == []
    assert result.arrow().num_rows == 0
    assert list(result.pandas().columns) == [name for name, _ in result.columns]


def test_a_sum_beyond_64_bits_keeps_its_digits(store: DuckStore, tmp_path: Path) -> None:
    event = simple_event("/a", AT_MS)
    big = replace(event, values={**event.values, "BIGINT": 2**63 - 1})
    merge(store, tmp_path, big, big, simple_event("/b", AT_MS))
    result = ask(store)
    assert [row["sum_bigint"] for row in result.rows()] == [Decimal(2**64 - 2), Decimal(1)]
    assert dict(result.columns)["sum_bigint"].name == "DECIMAL"
    assert [row["sum_bigint"] for row in through_json(result)["rows"]] == ["18446744073709551614", "1"]  # type: ignore[attr-defined]


def test_infinity_and_nan_are_text_in_json(store: DuckStore, tmp_path: Path) -> None:
    event = simple_event("/a", AT_MS)
    inf = replace(event, values={**event.values, "DOUBLE": float("-inf")})
    nan = replace(event, keys=("/b",), values={**event.values, "DOUBLE": float("nan")})
    merge(store, tmp_path, inf, nan)
    rows = through_json(ask(store))["rows"]
    assert [row["sum_double"] for row in rows] == ["-Infinity", "NaN"]  # type: ignore[attr-defined]


def test_arrow_has_the_types_of_the_columns(store: DuckStore, tmp_path: Path) -> None:
    merge(store, tmp_path, simple_event("/a", AT_MS))
    schema = ask(store).arrow().schema
    assert schema.field("window_start").type == pa.timestamp("us", "UTC")
    assert schema.field("sum_bigint").type == pa.int64()
    assert schema.field("sum_decimal").type == pa.decimal128(38, 2)
    assert schema.field("max_date").type == pa.date32()
