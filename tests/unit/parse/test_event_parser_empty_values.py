"""Records of Kafka may have an empty value: it gets a reason, and its neighbours are read."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from headrace.define.catalog import parse
from headrace.define.model import JSON
from headrace.lake.added_fields import parser_of
from headrace.parse.frames import frame_values

STREAM = parse("CREATE STREAM s (a BIGINT, at TIMESTAMP, WATERMARK FOR at AS at);").streams["s"]
GOOD = b'{"a": 1, "at": "2026-01-01T00:00:00Z"}'


@pytest.mark.parametrize("values", [[b""], [GOOD, b"", GOOD], [b"  ", b"x", b""], [GOOD] * 5_000 + [b""]])
def test_an_empty_value_is_refused_alone(values: list[bytes]) -> None:
    frames = frame_values(JSON, pa.array(values, pa.binary()))
    parsed = parser_of(STREAM).parse(frames, np.full(len(values), 1_767_225_600_000_000), None)
    assert parsed.reasons is not None
    assert [reason is None for reason in parsed.reasons.to_pylist()] == [value == GOOD for value in values]
