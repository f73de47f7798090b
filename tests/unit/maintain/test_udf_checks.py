"""Functions and aggregates that break a law are refused with a counter-example."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.define.catalog import load
from headrace.maintain.udf_checks import refuse_code
from tests.own_code import PYTHON, write_definitions

AT = datetime(2026, 3, 1, tzinfo=UTC)
EVENTS = pa.table(
    {
        "sensor": ["a1", "b1", "a2", "c"],
        "c": [1.5, None, 30.0, 7.25],
        "k": pa.array([1, 2, None, 4], pa.int32()),
        "at": pa.array([AT] * 4, pa.timestamp("us", "UTC")),
    }
)
ADD_LOGS = 'pc.add(a.field("logs"), b.field("logs"))'


def refused(tmp_path: Path, python: str) -> str | None:
    catalog = load(write_definitions(tmp_path, python))
    return refuse_code(catalog.streams["readings"], catalog.views["heat"], EVENTS)


def test_code_that_keeps_the_laws_is_accepted(tmp_path: Path) -> None:
    assert refused(tmp_path, PYTHON) is None


@pytest.mark.parametrize(
    ("python", "message"),
    [
        (PYTHON.replace("32.0)", "pc.max(celsius))"), "function 'fahrenheit' gives 4.2 for (1.5) alone and 32.7 next"),
        (PYTHON.replace("32.0)", "32.0)[:1]"), "function 'fahrenheit' returned 1 values for 4 events"),
        (PYTHON.replace("pc.multiply(celsius, RATE)", "celsius.no"), "function 'fahrenheit' failed: AttributeError"),
        (PYTHON.replace(ADD_LOGS, 'a.field("logs")'), "depends on the order: events (30.0) and (1.5) give"),
        (
            PYTHON.replace(ADD_LOGS, 'pc.divide(pc.add(a.field("logs"), b.field("logs")), 2.0)'),
            "depends on how events are split",
        ),
        (PYTHON.replace("return pc.exp(", "return list("), "present of aggregate 'geometric_mean' returned list"),
    ],
)
def test_code_that_breaks_a_law_is_refused(tmp_path: Path, python: str, message: str) -> None:
    assert message in str(refused(tmp_path, python))
