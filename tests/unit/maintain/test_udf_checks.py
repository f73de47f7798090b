"""Functions and aggregates that break a law are refused with a counter-example."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.define.catalog import load
from headrace.maintain.udf_checks import refuse_code
from tests import wording
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
    ("python", "values"),
    [
        (PYTHON.replace("32.0)", "pc.max(celsius))"), ("fahrenheit", "4.2", "1.5", "32.7")),
        (PYTHON.replace("32.0)", "32.0)[:1]"), ("fahrenheit", "1", "4")),
        (PYTHON.replace("pc.multiply(celsius, RATE)", "celsius.no"), ("fahrenheit",)),
        (PYTHON.replace(ADD_LOGS, 'a.field("logs")'), ("30.0", "1.5")),
        (
            PYTHON.replace(ADD_LOGS, 'pc.divide(pc.add(a.field("logs"), b.field("logs")), 2.0)'),
            (),
        ),
        (PYTHON.replace("return pc.exp(", "return list("), ("geometric_mean",)),
    ],
)
def test_code_that_breaks_a_law_is_refused(tmp_path: Path, python: str, values: tuple[str, ...]) -> None:
    wording.check(refused(tmp_path, python), *values)
