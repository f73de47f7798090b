"""Lines and events are counted as the slower functions that split them would count them."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.ingest import body_events, line_buffers
from headrace.ingest.body_events import count_events
from headrace.ingest.line_buffers import count_newlines, end_of_lines
from headrace.parse.frames import frame

TEXT = st.text(st.sampled_from("{}a\n\r\t \x0b\x0c\x00é"), max_size=40).map(str.encode)


@given(TEXT, st.sampled_from(["json", "text"]), st.sampled_from([1, 2, 7, 1 << 17]), st.booleans())
def test_counts_equal_those_of_frames(body: bytes, stream_format: str, step: int, as_view: bool) -> None:
    lines = memoryview(body) if as_view else body
    patches = {"STEP_BYTES": step, "TAIL_BYTES": step, "LARGE_BYTES": step}
    with patch.multiple(line_buffers, **patches), patch.object(body_events, "STEP_BYTES", step):
        assert count_newlines(lines) == body.count(b"\n")
        assert count_events(stream_format, lines) == len(frame(stream_format, body))
        assert end_of_lines(lines) == body.rfind(b"\n") + 1


@pytest.mark.parametrize("line", [b"{}\n", b" {}\n", b"{}\n\n", b"{}\r\n"])
def test_large_bodies_are_counted_over_the_borders_of_steps(line: bytes) -> None:
    body = line * 200_000
    assert count_newlines(body) == body.count(b"\n")
    assert count_events("json", body) == 200_000
