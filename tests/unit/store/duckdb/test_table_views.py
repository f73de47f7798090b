"""Views over tables in the store: after any history they say what plain Python says of the table's present rows."""

from __future__ import annotations

import math
import random
import statistics
from collections import defaultdict
from datetime import timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.aggregate.merges import EXACT
from headrace.define.catalog import parse
from headrace.deliver.view_reader import ViewReader
from tests.effort import examples
from tests.unit.store.duckdb.table_bench import DEFINITIONS, EPOCH, NUMBERS, Row, Table, audit, lifted, numbered


def expected(view: str, rows: list[Row]) -> list[Row]:
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        match view:
            case "headcount":
                groups[row["place"]].append(row)
            case "adults" if row["age"] is not None and row["age"] >= 18:
                groups[row["place"] and row["place"].upper()].append(row)
            case "arrivals":
                groups[row["at"] - timedelta(seconds=row["at"].second % 10)].append(row)
    keys = sorted(groups, key=lambda key: (key is not None, key))
    return [_row(view, key, groups[key]) for key in keys]


def _row(view: str, key: Any, rows: list[Row]) -> Row:
    ages = [row["age"] for row in rows if row["age"] is not None]
    match view:
        case "headcount":
            total, oldest = (sum(ages), max(ages)) if ages else (None, None)
            return {"place": key, "people": len(rows), "ages": total, "oldest": oldest}
        case "adults":
            newest = max(rows, key=lambda row: (row["at"], row["_position"]))["id"]
            return {"place": key, "ages": len(set(ages)), "newest": newest}
    return {"window_start": key, "people": len(rows)}


CHANGE = st.fixed_dictionaries(
    {
        "id": st.integers(0, 8),
        "place": st.sampled_from(["Rome", "Oslo", "rome", None]),
        "age": st.one_of(st.none(), st.integers(10, 40)),
        "at": st.integers(0, 40).map(lambda seconds: EPOCH + timedelta(seconds=seconds)),
        "_deleted": st.sampled_from([None, None, False, True]),
    }
)
STEP = st.one_of(st.lists(CHANGE, max_size=6), st.just("reopen"), st.just("crash"))


def some(values: list[Any], fold: Any) -> Any:
    """SQL's aggregate of those that are not NULL."""
    present = [value for value in values if value is not None]
    return fold(present) if present else None


def by_size(value: float) -> tuple[bool, float]:
    """NaN is greater than all numbers, as in Spark."""
    return (True, 0.0) if math.isnan(value) else (False, value)


def heavier(row: Row) -> tuple[Any, ...]:
    return by_size(row["weight"]), row["at"], row["_position"]


def total_of(values: list[float]) -> Any:
    """Their sum within the stated tolerance."""
    return pytest.approx(sum(values), rel=0, abs=1e-9 * sum(map(abs, values)), nan_ok=True)


def totals_of(rows: list[Row]) -> list[Row]:
    result = []
    counted = [row for row in rows if row["weight"] is None or row["weight"] < 1e6]
    for place in (None, "Oslo", "Rome"):
        group = [row for row in counted if row["place"] == place]
        ages = [row["age"] for row in group if row["age"] is not None]
        weights = [row["weight"] for row in group if row["weight"] is not None]
        ranges = [sum(low <= w < high for w in weights) for low, high in ((-math.inf, 0), (0, 2), (2, math.inf))]
        if len(group) > 1:
            result.append(
                {
                    "place": place, "people": len(group), "adults": sum(age > 20 for age in ages),
                    "young": sum(age < 20 for age in ages), "ages": some(ages, sum),
                    "mean": some(ages, lambda ages: pytest.approx(sum(ages) / len(ages))),
                    "pay": some([row["pay"] for row in group], lambda pays: reduce(EXACT.add, pays)),
                    "ranges": ranges if any(ranges) else None,
                }
            )  # fmt: skip
    return result


def extremes_of(rows: list[Row]) -> list[Row]:
    result = []
    for place in (None, "Oslo", "Rome"):
        group = [row for row in rows if row["place"] == place]
        weights = [row["weight"] for row in group]
        numbers = [None if weight is None or math.isnan(weight) else weight for weight in weights]
        weighed = [row for row in group if row["weight"] is not None]
        if group:
            result.append(
                {
                    "place": place, "people": len(group),
                    "heaviest": some(numbers, max),
                    "lightest": some(numbers, min),
                    "heavy": some(weights, lambda weights: any(by_size(w) > by_size(1) for w in weights)),
                    "who": max(weighed, key=heavier)["id"] if weighed else None,
                    "weights": some(weights, total_of),
                }
            )  # fmt: skip
    return result


def wides_of(rows: list[Row]) -> list[Row]:
    ages = [row["age"] for row in rows if row["age"] is not None]
    wide = some([row["wide"] for row in rows], lambda wides: reduce(EXACT.add, wides))
    fits = wide is None or abs(wide) < 10**38
    spread = pytest.approx(statistics.stdev(ages), rel=1e-9, abs=1e-9) if len(ages) > 1 else None
    return [{"wide": wide if fits else None, "spread": spread}] if rows else []


def test_numbers_after_a_long_history(tmp_path: Path) -> None:
    chance = random.Random(5)
    table = Table(tmp_path, NUMBERS)
    for step in range(24):
        if step % 10 == 9:
            table.reopen()
        # A change is the latest of its key more often than not.
        late = timedelta(seconds=0 if chance.random() < 0.3 else 10 * step)
        rows = [numbered(chance) for _ in range(chance.randint(0, 3))]
        table.send([{**row, "at": row["at"] + late} for row in rows])
        present = table.present()
        for view, reference in (("totals", totals_of), ("extremes", extremes_of), ("wides", wides_of)):
            assert table.ask(view) == reference(present), (step, view)
    with table.store.snapshot() as snapshot:
        numbers = {version.view.name: version.number for version in snapshot.versions()}
    assert set(numbers.values()) == {1}, "no view was rebuilt: each step was subtracted and added"
    table.store.close()


def check(table: Table) -> None:
    for view in ("headcount", "adults", "arrivals"):
        assert table.ask(view) == expected(view, table.present())


@settings(max_examples=examples(8), deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEP, max_size=8))
def test_any_history(tmp_path_factory: pytest.TempPathFactory, steps: list[Any]) -> None:
    table = Table(tmp_path_factory.mktemp("store"))
    for step in steps:
        if step == "reopen":
            table.reopen()
        elif step == "crash":  # the process ends after a step of the table, before the views over it are brought on
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("headrace.store.duckdb.table_views.TableViews.follow", lambda *_: None)
                table.send([{"id": 1, "place": "Bari", "age": 20, "at": EPOCH, "_deleted": None}])
            table.reopen()
            table.store.make_over_tables()
        else:
            table.send(step)
        check(table)
    assert all(audit(table, view, table.path.parent).agreed for view in ("headcount", "adults", "arrivals"))
    table.store.close()


def test_followers_are_told_of_rows_that_are_new_other_and_gone(tmp_path: Path) -> None:
    table = Table(tmp_path)
    table.store.follow("headcount", "test")
    person = {"id": 1, "place": "Rome", "age": 20, "at": EPOCH, "_deleted": None}
    table.send([person, {**person, "id": 2}])
    known: dict[str, int] = {}
    cursor = None
    for rows in ([], [{**person, "place": "Oslo"}], [{**person, "id": 2, "_deleted": True}], [{**person, "id": 3}]):
        table.send(rows)
        batch = ViewReader(table.store, "headcount", limit=100).after(cursor)
        cursor = batch.cursor
        for change in batch.changes:
            if change.op == "upsert":
                known[change.row["place"]] = change.row["people"]
            else:
                del known[change.row["place"]]
        assert known == {row["place"]: row["people"] for row in table.ask("headcount")}
    assert known == {"Oslo": 1, "Rome": 1}
    table.store.close()


def test_an_edit_of_a_view(tmp_path: Path) -> None:
    table = Table(tmp_path)
    person = {"id": 1, "place": "Rome", "age": 20, "at": EPOCH, "_deleted": None}
    table.send([person, {**person, "id": 2, "place": "Oslo"}])
    table.apply_catalog(parse(DEFINITIONS.replace("WHERE age >= 18", "WHERE age >= 30")))
    assert table.ask("adults") == []
    table.send([{**person, "id": 3, "age": 40}])
    assert [row["place"] for row in table.ask("adults")] == ["ROME"]
    assert table.ask("headcount") == expected("headcount", table.present())
    table.store.close()


def test_names_of_any_form(tmp_path: Path) -> None:
    text = (
        'CREATE TABLE People (id INT PRIMARY KEY, r STRING, "a place" STRING, "select" INT, at TIMESTAMP NOT NULL, '
        "WATERMARK FOR at AS at); CREATE MATERIALIZED VIEW HeadCount AS "
        'SELECT "a place", count(r) AS "order", sum("select") AS sums, max("select") AS "most of all" '
        "FROM People GROUP BY 1"
    )
    table = Table(tmp_path, text, "People")
    person = {"id": 1, "r": "x", "a place": "Rome", "select": 20, "at": EPOCH, "_deleted": None}
    table.send([person, {**person, "id": 2}])
    table.send([{**person, "a place": None, "select": 30}])
    table.send([{**person, "id": 2, "_deleted": True}])
    assert table.ask("HeadCount") == [{"a place": None, "order": 1, "sums": 30, "most of all": 30}]
    table.store.close()


def test_a_view_that_fails_stalls_alone(tmp_path: Path) -> None:
    text = (
        DEFINITIONS
        + f"CREATE MATERIALIZED VIEW broken AS SELECT max(CAST(age AS DECIMAL(38, 0)) * 1{'0' * 37}) AS n FROM people;"
    )
    table = Table(tmp_path, text)
    person = {"id": 1, "place": "Rome", "age": 1, "at": EPOCH, "_deleted": None}
    table.send([person])
    table.send([{**person, "age": 30}])
    check(table)
    with table.store.snapshot() as snapshot:
        broken = next(version for version in snapshot.versions() if version.view.name == "broken")
    assert "ut of" in (broken.stalled or "")
    table.store.close()


def test_going_back_to_an_earlier_version(tmp_path: Path) -> None:
    table = Table(tmp_path)
    person = {"id": 1, "place": "Rome", "age": 20, "at": EPOCH, "_deleted": None}
    table.send([person])
    table.apply_catalog(parse(DEFINITIONS.replace("WHERE age >= 18", "WHERE age >= 30")))
    table.send([{**person, "id": 2, "place": "Oslo"}])
    assert table.ask("adults") == []
    table.store.revive("adults", 1)
    assert table.ask("adults") == expected("adults", table.present())
    table.send([{**person, "id": 1, "_deleted": True}])
    check(table)
    table.store.close()


def test_a_row_without_its_key_is_no_row_of_a_table_made_from_a_stream() -> None:
    catalog = parse(
        "CREATE STREAM moves (person STRING, place STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at); "
        "CREATE TABLE lives PRIMARY KEY (person, place) AS SELECT person, place, at FROM moves;"
    )
    keys = [("ann", "Rome"), (None, "Rome"), ("ann", None), (None, None), ("bob", "Rome"), ("ann", "Rome")]
    events = [{"person": key[0], "place": key[1], "at": EPOCH, "_position": at} for at, key in enumerate(keys)]
    rows = lifted(catalog.streams["moves"], catalog.views["lives"], events).to_pylist()
    assert {(row["person"], row["place"]) for row in rows} == {("ann", "Rome"), ("bob", "Rome")}
