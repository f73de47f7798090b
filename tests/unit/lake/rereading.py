"""Dead letters read again without Spark, with looser and looser definitions of the same stream."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from headrace.lake.replay_files import Reread, dead_file_reader
from tests.unit.lake.dead_lake import stream_of

STRICT = stream_of("CREATE STREAM s (id INT NOT NULL, x INT, at TIMESTAMP NOT NULL, WATERMARK FOR at)")
LOOSE = stream_of("CREATE STREAM s (id INT NOT NULL, x DOUBLE, at TIMESTAMP NOT NULL, WATERMARK FOR at)")
LOOSER = stream_of("CREATE STREAM s (id INT, x DOUBLE, at TIMESTAMP, WATERMARK FOR at)")


def in_this_process(work: Reread, paths: Sequence[str]) -> list[Any]:
    """What Spark's workers do, without Spark."""
    batch = pa.RecordBatch.from_pydict({"path": list(paths)})
    return [SimpleNamespace(**row) for result in dead_file_reader(work)(iter([batch])) for row in result.to_pylist()]
