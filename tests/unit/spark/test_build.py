"""A local session has slots beside those that builds take."""

from __future__ import annotations

import os

import pytest

from headrace.spark.build import _cores, _with_slots

HERE = os.cpu_count() or 2


@pytest.mark.parametrize(
    ("master", "cores", "expected"),
    [
        ("local", 1, "local[2]"),
        ("local[3]", 3, "local[6]"),
        ("local[*]", HERE, f"local[{2 * HERE}]"),
        ("local[ * ]", HERE, f"local[{2 * HERE}]"),
        ("local[2,4]", 2, "local[4,4]"),
        ("local[*, 2]", HERE, f"local[{2 * HERE}, 2]"),
        ("spark://host:7077", HERE, "spark://host:7077"),
    ],
)
def test_each_core_of_a_local_master_has_two_slots(master: str, cores: int, expected: str) -> None:
    assert _cores(master) == cores
    assert _with_slots(master, cores) == expected
