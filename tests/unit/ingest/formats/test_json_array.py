"""A JSON array as lines, wherever its blocks are cut."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import IngestError
from headrace.ingest.formats import json_array
from headrace.ingest.formats.byte_source import ByteSource
from headrace.ingest.formats.json_array import array_lines
from tests import wording

json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(st.sampled_from('a"\\[]{},é\n'), max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=6,
)


@given(
    st.lists(json_values, max_size=6), st.sampled_from([None, 0, 2]), st.booleans(), st.sampled_from([1, 2, 7, 1 << 20])
)
def test_elements_are_found_wherever_blocks_end(values: list[Any], indent: int | None, ascii: bool, block: int) -> None:
    text = json.dumps(values, indent=indent, ensure_ascii=ascii).encode()
    with patch.object(json_array, "BLOCK_BYTES", block):
        lines = b"".join(array_lines(ByteSource(b"\n " + text + b" \n"))).split(b"\n")
    assert [json.loads(line) for line in lines[:-1]] == values
    assert lines[-1] == b""


@pytest.mark.parametrize(
    ("body", "values"),
    [
        (b"[1,2", ()),
        (b"]", ()),
        (b'["]', ()),
        (b"[1]]", ()),
        (b"[1] [2]", ()),
        (b"[[1]", ()),
        (b"[1}", ()),
        (b"{}", ()),
        (b"[1,,2]", ()),
        (b"[,]", ()),
        (b"[1,]", ()),
    ],
)
def test_other_input_than_an_array_is_refused(body: bytes, values: tuple[str, ...]) -> None:
    with wording.raises(IngestError, *values):
        list(array_lines(ByteSource(body)))


def test_an_element_has_a_longest_length() -> None:
    with wording.raises(IngestError):
        list(array_lines(ByteSource(b'["' + b"a" * 200 + b'"]'), block_bytes=10, longest_bytes=100))
