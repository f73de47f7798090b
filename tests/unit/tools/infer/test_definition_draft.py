"""Inference: whatever the events hold, the definition loads and the parser takes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.errors import IngestError
from headrace.tools.infer import Draft, draft
from headrace.tools.infer.field_profile import plain_name, stream_name
from headrace.tools.infer.file_sample import read_sample
from tests import wording
from tests.effort import examples

TIME = "2024-05-17T10:{:02d}:{:02d}Z"


def infer(folder: Path, *events: dict[str, Any], name: str = "orders") -> Draft:
    file = folder / "orders.ndjson"
    file.write_text("".join(json.dumps(event) + "\n" for event in events))
    return draft(name, [read_sample(file)])


def types(definition: Draft) -> dict[str, str]:
    return {field.name: str(field.type) for field in definition.stream.fields}


def test_types_are_the_narrowest_that_accept_all_values(tmp_path: Path) -> None:
    definition = infer(
        tmp_path,
        {"a": 1, "b": 1, "c": 5_000_000_000, "d": True, "e": "x", "f": "2024-05-17", "g": "2024-05-17 10:05", "id": 1},
        {
            "a": 2,
            "b": 1.5,
            "c": None,
            "d": False,
            "e": "y",
            "f": "2024-05-18",
            "g": "2024-05-17T10:05:03+02:00",
            "id": 2,
        },
    )
    assert types(definition) == {
        "a": "INT", "b": "DOUBLE", "c": "BIGINT", "d": "BOOLEAN", "e": "STRING", "f": "DATE", "g": "TIMESTAMP",
        "id": "BIGINT",
    }  # fmt: skip
    assert {field.name for field in definition.stream.fields if not field.nullable} == {"g", "id"}
    assert definition.stream.event_time == "g"
    assert (definition.fitting, definition.sampled) == (2, 2)


@pytest.mark.parametrize(
    ("times", "expression"),
    [
        ([1715940303, 1715940304], "timestamp_seconds(ts)"),
        ([1715940303123, 1715940304123], "timestamp_millis(ts)"),
        ([1715940303123456, 1715940304123456], "timestamp_micros(ts)"),
        ([1715940303123456789, 1715940304123456789], "timestamp_micros(ts DIV 1000"),
        ([1715940303.25, 1715940304.5], "timestamp_micros(CAST(ts * 1000000"),
        (["1715940303123", "1715940304123"], "timestamp_millis(CAST(ts AS BIGINT))"),
        (["2024-05-17T10:05:03.123456789Z", "2024-05-17T10:05:04.123456789Z"], "to_timestamp(ts)"),
        (["17/05/2024 10:05", "17/05/2024 10:06"], "to_timestamp(ts, 'dd/MM/yyyy HH:mm')"),
        (["05/17/2024 10:05:00", "05/17/2024 10:06:00"], "to_timestamp(ts, 'MM/dd/yyyy HH:mm:ss')"),
        (["17.05.2024", "18.05.2024"], "to_timestamp(ts, 'dd.MM.yyyy')"),
        (["5/17/2024 9:05", "12/1/2024 10:06"], "to_timestamp(trim(concat(regexp_extract(ts,"),
        (["2024/05/17 10:05", "2024/05/17 10:06"], "to_timestamp(trim(concat(regexp_extract(ts,"),
        (
            ["17/May/2024:10:05:03 +0000", "17/Jun/2024:10:05:03 +0200"],
            "to_timestamp(ts, '[E, ]d/MMM/yyyy:H:mm[:ss] Z')",
        ),
        (["17/May/2024:10:05:03 +0000", "17 Jun 2024:10:05:03 +0200"], "to_timestamp(concat(regexp_extract(ts,"),
        (["5/17/2024 9:05 AM", "12/1/2024 10:06 pm"], "to_timestamp(ts, 'M/d/yyyy[,] h:mm[:ss] a')"),
        (
            ["Fri, 17 May 2024 10:05 GMT", "7 Jun 2024 10:05 GMT"],
            "to_timestamp(ts, '[E, ]d MMM yyyy H:mm[:ss] z')",
        ),
    ],
)
def test_times_in_other_formats_are_read_by_a_computed_field(tmp_path: Path, times: list[Any], expression: str) -> None:
    definition = infer(tmp_path, *({"ts": time, "n": 1} for time in times))
    assert definition.stream.event_time == "at"
    computed = next(field.computed for field in definition.stream.fields if field.name == "at")
    assert computed is not None
    assert computed.sql.startswith(expression)
    assert definition.fitting == 2
    assert definition.span is not None
    assert 1970 + definition.span.first_us // 31_556_952_000_000 == 2024


def test_the_event_time_is_chosen_by_name(tmp_path: Path) -> None:
    event = {"updated_at": "2024-05-17T10:05:03Z", "created_at": "2024-05-17T10:05:03Z", "birth_date": "1970-05-17"}
    assert infer(tmp_path, event).stream.event_time == "created_at"


def test_a_time_in_the_future_is_not_the_event_time(tmp_path: Path) -> None:
    event = {"at": "2999-05-17T10:05:03Z", "seen": "2024-05-17T10:05:03Z"}
    assert infer(tmp_path, event).stream.event_time == "seen"


def test_without_a_time_arrival_is_the_event_time_and_a_note_says_so(tmp_path: Path) -> None:
    definition = infer(tmp_path, {"n": 1715940303, "when": "at noon"})
    assert definition.stream.event_time is None
    wording.check(definition.notes[0])
    assert "window(_arrived, '1 minute')" in definition.sql


@pytest.mark.parametrize(
    ("field", "value", "example"),
    [
        ("start_timestamp", 30685, "timestamp_seconds(start_timestamp) (timestamp_millis, if it counts milliseconds)"),
        ("started", 1715940303123, "timestamp_millis(started)"),
        ("day", 20240517, "to_timestamp(…"),
        ("user_id", 1715940303, "to_timestamp(…"),
        ("n", 5, "to_timestamp(…"),
    ],
)
def test_the_note_about_a_missing_time_has_an_example_of_the_kind_of_field(
    tmp_path: Path, field: str, value: int, example: str
) -> None:
    definition = infer(tmp_path, {"song": "a", field: value}, {"song": "b", field: value + 1})
    assert f"at TIMESTAMP AS {example}" in definition.notes[0]


def test_patience_and_window_come_from_the_sampled_times(tmp_path: Path) -> None:
    definition = infer(tmp_path, *({"at": TIME.format(i // 60, (i - 40 * (i % 7 == 0)) % 60)} for i in range(300)))
    assert definition.stream.patience_ms == 60_000
    assert "window(at, '1 minute')" in definition.sql
    days = infer(tmp_path, *({"at": f"2024-{m:02d}-{d:02d}T00:00:00Z"} for m in range(1, 4) for d in range(1, 28)))
    assert "window(at, '1 day')" in days.sql
    assert days.stream.patience_ms == 60_000


def test_a_file_in_descending_order_is_recognized(tmp_path: Path) -> None:
    definition = infer(tmp_path, *({"at": TIME.format(59 - i, 0)} for i in range(50)))
    assert definition.span is not None
    assert definition.span.newest_first
    assert definition.stream.patience_ms == 60_000
    wording.check_line(definition.notes)


def test_the_view_has_a_count_a_sum_and_a_distinct_count(tmp_path: Path) -> None:
    definition = infer(
        tmp_path,
        *(
            {"order_id": i, "customer": f"c{i % 40}", "country": ["DE", "FR", "IT"][i % 3], "zip": 10_000 + i % 9,
             "price": i / 4, "at": TIME.format(i % 60, 0)}
            for i in range(200)
        ),
    )  # fmt: skip
    assert definition.view == "orders_by_country"
    view = definition.sql[definition.sql.index("CREATE MATERIALIZED") :]
    assert "sum(price)" in view
    assert "approx_count_distinct(customer)" in view
    assert "zip" not in view


def test_odd_names_have_paths_and_values_that_cannot_be_a_field_are_listed(tmp_path: Path) -> None:
    definition = infer(
        tmp_path,
        {"ok": 1, "Ok": 2, "a b": 1, "_x": 1, "window": 1, "mixed": 1, "none": None},
        {"ok": 1, "Ok": 2, "a b": 1, "_x": 1, "window": 1, "mixed": "text", "none": None},
    )
    assert types(definition) == dict.fromkeys(("ok", "Ok_2", "a_b", "x", "window_column"), "INT")
    assert "a_b INT FROM 'a b'" in " ".join(definition.sql.split())
    assert set(definition.left_out) == {"mixed", "none"}
    assert "1 integer, 1 string" in definition.left_out["mixed"]
    assert definition.fitting == 2


def test_a_few_values_of_another_kind_are_refused_and_counted(tmp_path: Path) -> None:
    definition = infer(tmp_path, *({"n": i} for i in range(199)), {"n": "many"})
    assert types(definition) == {"n": "INT"}
    assert definition.fitting == 199
    assert list(definition.refused.values()) == [1]


def test_names_that_are_keywords_and_comments_that_are_data(tmp_path: Path) -> None:
    definition = infer(tmp_path, *({"select": "a\n); --`", "end": 5 * i, "at": TIME.format(i, 0)} for i in range(3)))
    assert types(definition) == {"select": "STRING", "end": "INT", "at": "TIMESTAMP"}


@pytest.mark.parametrize(
    ("content", "values"),
    [
        (b"", ()),
        (b" \n\n", ()),
        (b"\x89PNG\0\0\0", ()),
        (b"{broken\n{also", ()),
        (b"[1, 2, 3]", ()),
        (b"{}\n{}", ()),
    ],
)
def test_files_that_cannot_be_read_are_refused(tmp_path: Path, content: bytes, values: tuple[str, ...]) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)
    with wording.raises(IngestError, *values):
        draft("events", [read_sample(file)])


def test_an_array_is_read_and_a_large_file_is_sampled_throughout(tmp_path: Path) -> None:
    array = tmp_path / "array.json"
    array.write_text(json.dumps([{"a": i} for i in range(50)], indent=2))
    assert draft("events", [read_sample(array)]).fitting == 50
    large = tmp_path / "large.ndjson"
    with large.open("w") as out:
        for i in range(150_000):
            out.write(f'{{"at": "2024-05-{1 + i // 6000:02d}T10:00:00Z", "padding": "{"x" * 40}"}}\n')
    sample = read_sample(large)
    assert len(sample.events) < 25_000
    assert sample.rows[-1]["at"].startswith("2024-05-25")


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (["orders.csv"], "orders"),
        (["orders_2024-05-17.csv.gz"], "orders"),
        (["Bestellungen Köln (1).csv"], "bestellungen_koln"),
        (["2010-12-01.csv", "2010-12-02.csv"], "events"),
        (["clicks-01.json", "clicks-02.json"], "clicks"),
        (["数据.csv"], "events"),
    ],
)
def test_a_stream_is_named_after_its_files(files: list[str], name: str) -> None:
    assert stream_name(files) == name
    assert plain_name("9 lives") == "events_9_lives"


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = {
    "INT": st.integers(-999_999, 999_999),
    "BIGINT": st.integers(-(1 << 63), (1 << 63) - 1),
    "DOUBLE": st.floats(allow_nan=False, allow_infinity=False),
    "BOOLEAN": st.booleans(),
    "STRING": TEXT,
    "DATE": st.dates().map(str),
    "TIMESTAMP": st.datetimes().map(lambda at: at.isoformat() + "Z"),
}


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_event_of_a_schema_fits_the_inferred_definition(tmp_path: Path, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(["at", "ts", "page", "user_id", "amount", "order", "x"]), unique=True))
    schema = {name: data.draw(st.sampled_from(sorted(VALUES))) for name in ["plain", *names]}
    strategy = st.fixed_dictionaries({name: VALUES[of] for name, of in schema.items()})
    events = data.draw(st.lists(strategy, min_size=1, max_size=20))
    definition = infer(tmp_path, *events)
    assert not definition.left_out
    # Whichever field is the event time, no more than its share of odd times may be refused.
    assert definition.sampled - definition.fitting <= 0.01 * definition.sampled


def test_nested_values_are_fields_arrays_and_maps(tmp_path: Path) -> None:
    events = [
        {
            "meta": {"ts": TIME.format(i, 0), "source": {"country": ["DE", "FR", "IT"][i % 3], "odd name": 1}},
            "tags": ["a", "b"][: i % 3],
            "items": [{"sku": "x", "price": 1.5}, {"sku": "y", "price": 2}],
            "scores": {f"player {i}": i},
            "empty": [],
            "mixed": [1, "a"],
        }
        for i in range(20)
    ]
    definition = infer(tmp_path, *events)
    assert types(definition) == {
        "meta_ts": "TIMESTAMP",
        "meta_source_country": "STRING",
        "meta_source_odd_name": "INT",
        "tags": "ARRAY<STRING>",
        "items": "ARRAY<STRUCT<sku: STRING, price: DOUBLE>>",
        "scores": "MAP<STRING, INT>",
    }
    assert definition.fitting == 20
    assert set(definition.left_out) == {"empty", "mixed"}
    sql = " ".join(definition.sql.split())
    assert "meta_ts TIMESTAMP FROM '$.meta.ts' NOT NULL" in sql
    assert "meta_source_odd_name INT FROM '$.meta.source[\\'odd name\\']'" in sql
    assert definition.view == "orders_by_meta_source_country"


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(1 << 70), 1 << 70),
        st.floats(allow_nan=False, allow_infinity=False),
        TEXT,
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "B", "b", "x y", "end"]), inner),
    max_leaves=6,
)


@settings(max_examples=examples(80), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    events=st.lists(
        st.dictionaries(st.sampled_from(["a", "A", "at", "id", "x y", "end"]), JSON), min_size=1, max_size=8
    )
)
def test_an_inferred_definition_accepts_any_json_of_its_sample(tmp_path: Path, events: list[Any]) -> None:
    definition = infer(tmp_path, *({**event, "plain": 1} for event in events))
    assert definition.fitting == definition.sampled, (definition.sql, definition.refused)
