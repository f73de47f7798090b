"""Checks answers against the lake: each must equal its definition computed over the commits that it names."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb

from headrace.lake.delta_table import LakeTable
from headrace.serve.question_times import iso_ms

Row = dict[str, Any]


@dataclass(frozen=True)
class Definition:
    """A view over visits whose answers can be checked: its first key is the page, and each column is exact."""

    columns: tuple[tuple[str, str], ...] = (("hits", "count(*)"), ("bytes", "sum(bytes)"), ("largest", "max(bytes)"))
    where: str = ""
    keys: tuple[str, ...] = ("page",)
    pane: str = "1 minute"
    patience: str = "1 MINUTE"
    schedule: str = ""

    @property
    def condition(self) -> str:
        """Its filter as SQL."""
        return f"WHERE {self.where}" if self.where else ""

    @property
    def sql(self) -> str:
        """The stream and the view in SQL."""
        selected = ", ".join([*self.keys, *(f"{sql} AS {name}" for name, sql in self.columns)])
        return (
            "CREATE STREAM visits (\n"
            "  visitor STRING NOT NULL, page STRING, status INT, bytes BIGINT, at TIMESTAMP NOT NULL,\n"
            f"  WATERMARK FOR at AS at - INTERVAL {self.patience});\n"
            f"CREATE MATERIALIZED VIEW traffic {self.schedule} AS\n"
            f"SELECT {selected}\nFROM visits {self.condition}\n"
            f"GROUP BY {', '.join(self.keys)}, window(at, '{self.pane}');\n"
        )


@dataclass(frozen=True)
class PageAnswer:
    """An answer for one page by hour, with its version, over commits [0, commit)."""

    page: str
    version: int
    commit: int
    rows: tuple[Row, ...]


class Judge:
    """The exact rows of a definition for each page and hour after each commit."""

    def __init__(self, table: LakeTable, definition: Definition) -> None:
        self._names = [name for name, _ in definition.columns]
        self._hours: dict[str, dict[str, tuple[list[int], list[tuple[Any, ...]]]]] = {}
        files = [table.storage.locate(file.path) for file in table.files(0, table.state.next_commit)]
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            for page, hour_ms, commit, *values in connection.execute(_query(definition), {"files": files}).fetchall():
                commits, totals = self._hours.setdefault(page, {}).setdefault(iso_ms(hour_ms), ([], []))
                commits.append(commit)
                totals.append(tuple(values))

    def expected(self, page: str, commit: int) -> list[Row]:
        """The rows of a correct answer over commits [0, commit)."""
        rows = []
        for start, (commits, values) in self._hours.get(page, {}).items():
            at = bisect_left(commits, commit) - 1
            if at >= 0:
                rows.append({"window_start": start, **dict(zip(self._names, values[at], strict=True))})
        return sorted(rows, key=lambda row: row["window_start"])

    def is_right(self, answer: PageAnswer) -> bool:
        """Whether an answer has exactly these rows. Large integers are text in JSON."""
        names = ["window_start", *self._names]
        rows = [{name: _integer(row.get(name)) for name in names} for row in answer.rows]
        return rows == self.expected(answer.page, answer.commit)


def wrong_answers(table: LakeTable, definitions: dict[int, Definition], answers: Sequence[PageAnswer]) -> list[str]:
    """A sentence for each wrong answer; `definitions` are those of the versions, by number."""
    judges = {number: Judge(table, definitions[number]) for number in {answer.version for answer in answers}}
    return [
        f"version {answer.version} at commit {answer.commit}, {answer.page}: {list(answer.rows)} "
        f"instead of {judges[answer.version].expected(answer.page, answer.commit)}"
        for answer in answers
        if not judges[answer.version].is_right(answer)
    ]


def _integer(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.lstrip("-").isdigit() else value


def _query(definition: Definition) -> str:
    """The running totals of each page and hour, commit by commit, directly from the events."""
    names = [name for name, _ in definition.columns]
    totals = ", ".join(f"{_running(sql)}({name}) OVER so_far" for name, sql in definition.columns)
    return (
        f"SELECT page, hour_ms, _commit, {totals} FROM (\n"
        f"  SELECT page, epoch_ms(date_trunc('hour', \"at\")) AS hour_ms, _commit, "
        f"{', '.join(f'{sql} AS {name}' for name, (_, sql) in zip(names, definition.columns, strict=True))}\n"
        f"  FROM read_parquet($files) {definition.condition} GROUP BY ALL)\n"
        "WINDOW so_far AS (PARTITION BY page, hour_ms ORDER BY _commit) ORDER BY page, hour_ms, _commit"
    )


def _running(aggregate: str) -> str:
    """How the values of commits are merged."""
    name = aggregate.split("(", 1)[0]
    return {"count": "sum"}.get(name, name)
