"""Figures in the README and the docs are those of the benchmarks, whose page is that of the results."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from bench.nexmark.queries import DEFINED, OTHERS, QUERIES, STREAMS

from headrace.define.catalog import parse

ROOT = Path(__file__).parents[2]
MEASURED = (ROOT / "docs" / "benchmarks.md").read_text()
NUMBER = re.compile(r"(?<![\w.,])\d[\d,]*(?:\.\d+)?(?![\w])")
TABLES = [
    ("README.md", "Measured by `make bench-full`"),
    ("docs/once-per-id.md", "`python -m bench ours --only unique` measures it"),
]


def figures_of(page: str, beginning: str) -> list[str]:
    """The numbers in the last column of the first table after a text."""
    text = (ROOT / page).read_text()
    rows = re.findall(r"^\|.*\|$", text[text.index(beginning) :].split("\n\n")[1], re.M)
    return [number.rstrip(",") for row in rows for number in NUMBER.findall(row.strip("|").split("|")[-1])]


@pytest.mark.parametrize(("page", "beginning"), TABLES, ids=[page for page, _ in TABLES])
def test_figures_are_those_of_the_benchmarks(page: str, beginning: str) -> None:
    figures, measured = figures_of(page, beginning), {number.rstrip(",") for number in NUMBER.findall(MEASURED)}
    assert len(figures) > 4
    assert [figure for figure in figures if figure not in measured] == []


def test_queries_of_nexmark_are_measured_or_defined_or_not_there_yet() -> None:
    assert sorted([*(query.number for query in QUERIES), *OTHERS]) == list(range(23))
    for number, sql in DEFINED.items():
        parse(STREAMS + sql)
        assert "not yet" not in OTHERS[number][1]
