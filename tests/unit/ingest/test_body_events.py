"""What a body becomes is the same whichever way it is read."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import IngestError
from headrace.ingest import body_events
from headrace.ingest.body_events import BodyEvents, BodyParser
from headrace.ingest.formats.format_detection import ANY, FileLayout, Format
from tests.unit.lake.dead_lake import stream_of

STREAM = stream_of("CREATE STREAM s (a INT, b STRING, c ARRAY<STRUCT<x INT>>)")
# Strings and nested arrays that contain what separates the elements of an array.
TRICKY = st.text(st.sampled_from('}{,] ["\\a\n'), max_size=8)
events = st.one_of(
    st.fixed_dictionaries(
        {},
        optional={
            "a": st.one_of(st.integers(-5, 5), st.just("no integer")),
            "b": st.one_of(TRICKY, st.just("},{"), st.just('"}, {"')),
            "c": st.lists(st.fixed_dictionaries({"x": st.integers(0, 9)}), max_size=3),
            "other": st.lists(st.dictionaries(TRICKY, st.integers(), max_size=2), max_size=3),
        },
    ),
    st.integers(),
    st.lists(st.integers(), max_size=2),
)


def judged(body: bytes, layout: FileLayout, *, keep_bad: bool = False) -> BodyEvents | str:
    try:
        return BodyParser(STREAM, lambda: 10**15, 1 << 20).parse(body, layout, keep_bad=keep_bad)
    except IngestError as error:
        return str(error)


def check_as_scanned(body: bytes) -> None:
    """The judgement of an array equals that of its exact scan."""
    quick = judged(body, FileLayout(Format.JSON))
    with patch.object(body_events, "compact_array_lines", lambda body: None):
        assert quick == judged(body, FileLayout(Format.JSON))


@given(st.lists(events, max_size=5), st.sampled_from([(",", ":"), (", ", ": "), (" ,", ":")]), st.booleans())
def test_an_array_is_judged_as_if_it_was_scanned(values: list[Any], separators: tuple[str, str], ascii: bool) -> None:
    check_as_scanned(json.dumps(values, separators=separators, ensure_ascii=ascii).encode())


@pytest.mark.parametrize(
    "body",
    [
        b'[{"a":1},{"a":2}]',
        b' [{"a":1}, {"a":2}]\r\n',
        b'[{"a":1},{"a":2}, {"a":3}]',
        b'[{"a":1},,{"a":2}]',
        b'[{"a":1},{"a":2},]',
        b'[{"a":1},{"a":2}]]',
        b'[{"a":1}]{"a":2}]',
        b'[{"a":1}},{{"a":2}]',
        b'[{"b":"},{"},{"b":"}, {"}]',
        b'[{"b":"},{"a":1}]',
        b'[{"b":"\\"},{\\"a\\":1"},{"a":2}]',
        b'[{"other":[{"x":1},{"x":2}]},{"a":1}]',
        b'[{"c":[{"x":1},{"x":2}]}]',
        b'[{"a":1},\n{"a":2}]',
        b'[{"a":1},{"a":"x"}]',
        b"[{}]",
        b"[]",
        b'[{"a":1} {"a":2}]',
    ],
)
def test_arrays_of_every_kind_are_judged_as_if_they_were_scanned(body: bytes) -> None:
    check_as_scanned(body)


@pytest.mark.parametrize("body", [b'{"a":1}\n{"a":2}\n', b'{"a":1}\n\n{"a":2}', b"\n \n[]", b'{"a":1}\r\n{"a"', b" \n"])
@pytest.mark.parametrize("layout", [FileLayout(Format.NDJSON), ANY])
def test_a_view_of_memory_is_judged_as_bytes_are(body: bytes, layout: FileLayout) -> None:
    for keep_bad in (True, False):
        of_bytes = judged(body, layout, keep_bad=keep_bad)
        of_view = judged(memoryview(bytearray(body)), layout, keep_bad=keep_bad)  # type: ignore[arg-type]
        assert of_view == of_bytes


def test_a_cell_of_csv_is_found_by_the_title_that_a_field_names() -> None:
    stream = stream_of(
        "CREATE STREAM s (day DATE FROM 'Order Date', `user-id` BIGINT, n INT FROM '# of items', b STRING FROM '$.b.c')"
    )
    body = b"Order Date,user-id,# of items,b\n2026-03-01,7,3,x\nMarch,8,,y\n"
    judgement = BodyParser(stream, lambda: 10**15, 1 << 20).parse(body, FileLayout(Format.CSV), keep_bad=False)
    assert bytes(judgement.payload) == b'{"Order Date":"2026-03-01","user-id":7,"# of items":3,"b":"x"}\n'
    assert [refused["reason"] for refused in judgement.refused] == [
        """field 'day' from 'Order Date' takes DATE (as "2024-05-17"), found the string "March\""""
    ]


def test_an_event_is_refused_for_what_is_at_the_place_of_a_field() -> None:
    stream = stream_of("CREATE STREAM s (name STRING FROM '$.service.name', sku INT NOT NULL FROM '$.items[1].sku')")
    reasons = {
        b'{"service":{"name":"a"},"items":[{},{"sku":5}]}': None,
        b'{"service":"a","items":[0,{"sku":5}]}': None,
        b'{"service":{"name":5},"items":[0,{"sku":5}]}': "field 'name' from '$.service.name' takes STRING, found the "
        "number 5",
        b'{"items":[{"sku":5}]}': "field 'sku' from '$.items[1].sku' is missing or null",
        b'{"service":{"name":1,"name":2},"items":[0,{"sku":5}]}': "field 'name' from '$.service.name' appears twice",
    }
    for body, reason in reasons.items():
        judgement = BodyParser(stream, lambda: 10**15, 1 << 20).parse(body, FileLayout(Format.NDJSON), keep_bad=False)
        assert [refused["reason"] for refused in judgement.refused] == ([reason] if reason else [])
