"""A definition file with functions and an aggregate of its own, and what they compute in plain Python."""

from __future__ import annotations

import math
from pathlib import Path

PYTHON = '''
import headrace as hr
import pyarrow as pa
import pyarrow.compute as pc

RATE = 1.8


@hr.udf("celsius DOUBLE", gives="DOUBLE")
def fahrenheit(celsius):
    return pc.add(pc.multiply(celsius, RATE), 32.0)


@hr.udf("text STRING, length INT", gives="STRING")
def beginning(text, length):
    return pa.array([t if t is None or n is None else t[:n] for t, n in zip(text.to_pylist(), length.to_pylist())])


@hr.udaf("x DOUBLE", partial="STRUCT<n: BIGINT, logs: DOUBLE>", gives="DOUBLE")
class geometric_mean:
    """The n-th root of the product."""

    def lift(self, x):
        positive = pc.if_else(pc.greater(x, 0), x, None)
        ones = pa.array([1] * len(x), pa.int64())
        return pa.StructArray.from_arrays([ones, pc.ln(positive)], ["n", "logs"], mask=pc.is_null(positive))

    def merge(self, a, b):
        return pa.StructArray.from_arrays(
            [pc.add(a.field("n"), b.field("n")), pc.add(a.field("logs"), b.field("logs"))], ["n", "logs"]
        )

    def present(self, partials):
        return pc.exp(pc.divide(pc.struct_field(partials, "logs"), pc.struct_field(partials, "n")))
'''
SQL = """
CREATE STREAM readings (sensor STRING NOT NULL, c DOUBLE, k INT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);
CREATE MATERIALIZED VIEW heat AS
SELECT beginning(sensor, 1) AS room, count(*) AS n, max(fahrenheit(c)) AS most, sum(fahrenheit(k)) AS total,
       count(*) FILTER (WHERE fahrenheit(c) > 100) AS hot, geometric_mean(c) AS mean,
       geometric_mean(fahrenheit(k)) FILTER (WHERE c > 0) AS other
FROM readings WHERE fahrenheit(c) > 0 OR c IS NULL GROUP BY beginning(sensor, 1), window(at, '1 minute');
"""


def write_definitions(folder: Path, python: str = PYTHON, sql: str = SQL) -> Path:
    """A folder of definitions."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "own.py").write_text(python)
    (folder / "heat.sql").write_text(sql)
    return folder


def geometric_mean(values: list[float | None]) -> float | None:
    """The same in plain Python."""
    logs = [math.log(value) for value in values if value is not None and value > 0]
    return math.exp(sum(logs) / len(logs)) if logs else None
