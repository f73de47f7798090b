"""A lookup of many keys: its rows in the order of the keys, and the keys that have none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.aggregate import Value
from headrace.errors import QuestionError
from headrace.serve.plan import ReadPlan
from headrace.serve.question import Question
from headrace.store.few import rank

Row = tuple[Any, ...]
Names = tuple[str, ...]


def arrange(plan: ReadPlan, rows: list[Row]) -> tuple[list[Row], tuple[Mapping[str, Value], ...]]:
    """The rows of each key that was asked for, in that order, and the keys without rows.

    A key that was asked for twice has its rows twice. The rows of one key stay in the order of their windows.
    """
    by_names: dict[Names, dict[Row, list[Row]]] = {tuple(key): {} for key in plan.where}
    for names, groups in by_names.items():
        places = [1 + plan.by.index(name) for name in names]
        for row in rows:
            groups.setdefault(tuple(rank(row[place]) for place in places), []).append(row)
    arranged: list[Row] = []
    missing = []
    for key in plan.where:
        own = by_names[tuple(key)].get(tuple(map(rank, key.values())), [])
        arranged += own
        if not own:
            missing.append(key)
    return arranged, tuple(missing)


def too_many_rows(question: Question) -> QuestionError:
    """The error for a lookup whose rows do not fit an answer."""
    return QuestionError(
        f"the keys of this lookup of view '{question.view}' have more than {question.limit:,} rows",
        expected=f"at most {question.limit:,}",
        fix="ask for fewer keys at once, or for fewer windows, such as window=all or start=-1h",
    )
