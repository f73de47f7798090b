"""The judge of answers: the rows of a definition after each commit, and that a wrong number is reported."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
from bench.ours import history
from bench.ours.edits import edits, estimates_off_by
from bench.ours.judge import Definition, Judge, PageAnswer, wrong_answers

from headrace.define.catalog import parse
from headrace.lake.delta_table import LakeTable


def small_lake(folder: Path) -> LakeTable:
    table = LakeTable(folder / "visits", history.VISITS, fence=1)
    for _ in range(3):
        history.extend(table, 2_000)
    return table


def plain_totals(table: LakeTable, page: str, commits: int) -> dict[str, tuple[int, int, int]]:
    """Hits, bytes and the largest of each hour, one event at a time; without those of status 304."""
    hours: dict[str, list[int]] = defaultdict(list)
    for file in table.files(0, commits):
        for row in pq.read_table(table.folder / file.path).to_pylist():
            if row["page"] == page and row["status"] != 304:
                hours[f"{row['at']:%Y-%m-%dT%H}:00:00Z"].append(row["bytes"])
    return {hour: (len(sizes), sum(sizes), max(sizes)) for hour, sizes in hours.items()}


def test_it_computes_the_rows_after_each_commit(tmp_path: Path) -> None:
    table = small_lake(tmp_path)
    judge = Judge(table, Definition(where="status <> 304"))
    for commits in (1, 2, 3):
        rows = {r["window_start"]: (r["hits"], r["bytes"], r["largest"]) for r in judge.expected("/p/7", commits)}
        assert rows == plain_totals(table, "/p/7", commits) != {}


def test_it_notices_a_wrong_number_and_a_wrong_commit(tmp_path: Path) -> None:
    table = small_lake(tmp_path)
    rows = tuple(Judge(table, Definition()).expected("/p/7", 2))
    right = PageAnswer("/p/7", 1, 2, rows)
    assert wrong_answers(table, {1: Definition()}, [right]) == []
    (first, *rest) = rows
    others = (
        replace(right, rows=({**first, "bytes": first["bytes"] + 1}, *rest)),
        replace(right, commit=3),
        replace(right, rows=()),
    )
    assert len(wrong_answers(table, {1: Definition()}, others)) == 3


def test_every_edit_is_a_definition_that_differs_from_the_one_before() -> None:
    texts = [Definition().sql, *(definition.sql for _, definition in edits())]
    assert all(parse(text).views for text in texts)
    assert len(texts) == 21
    assert all(a != b for a, b in pairwise(texts))


def test_estimates_are_judged_by_a_factor_to_either_side() -> None:
    figure = estimates_off_by([(2.0, 1.0), (1.0, 4.0), (3.0, 3.0)])
    assert (figure.value, figure.spread, figure.passes) == (2.0, "1.00 to 4.00 in 3 builds", True)
    assert estimates_off_by([(1.0, 2.5)]).passes is False
