"""A stream whose files are damaged, or that is gone, holds no other one up."""

from __future__ import annotations

import threading

import pytest

from headrace.define.catalog import parse
from headrace.errors import CorruptionError
from headrace.server.damaged_stream import DamagedStream
from headrace.server.neighbours import Neighbours
from headrace.server.running_stream import Running

CATALOG = parse("""
CREATE TABLE rates (currency STRING, rate DOUBLE, PRIMARY KEY (currency) NOT ENFORCED);
CREATE STREAM sales (currency STRING, amount DOUBLE, at TIMESTAMP);
CREATE MATERIALIZED VIEW turnover AS SELECT sum(amount * rate) AS total FROM sales JOIN rates USING (currency);
""")
DAMAGE = CorruptionError("lake file part-0.parquet is damaged")


class NeverWaited(threading.Event):
    def wait(self, timeout: float | None = None) -> bool:
        raise AssertionError("waited for a table that cannot be read")


@pytest.mark.parametrize("damaged", [{"rates": DamagedStream(CATALOG.streams["rates"], DAMAGE)}, {}])
def test_a_join_does_not_wait_for_a_table_that_cannot_be_read(damaged: dict[str, DamagedStream]) -> None:
    neighbours = Neighbours(lambda: Running(CATALOG, damaged))
    neighbours.wait_for_tables("sales", NeverWaited())
    assert neighbours.pins() == {}
    assert neighbours.end_of("rates") == 0


def test_a_damaged_lake_is_an_error_and_a_missing_one_is_not() -> None:
    neighbours = Neighbours(lambda: Running(CATALOG, {"rates": DamagedStream(CATALOG.streams["rates"], DAMAGE)}))
    with pytest.raises(CorruptionError):
        neighbours.find_lake("rates")
    assert neighbours.find_lake("sales") is None
