"""Logical views beside the others: what they are told to be, how fresh, and what is not asked of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.define.model import LogicalView
from headrace.errors import QuestionError
from headrace.server.state import LogicalStatus, TypedColumn, ViewStatus


def parts_of(view: LogicalView, logical: Mapping[str, LogicalView]) -> tuple[str, ...]:
    """The materialized views that a logical view is computed from, also through other logical views."""
    names: dict[str, None] = {}
    for name in view.reads:
        names |= dict.fromkeys(parts_of(logical[name], logical) if name in logical else (name,))
    return tuple(names)


def describe_logical(logical: Mapping[str, LogicalView], views: Iterable[ViewStatus]) -> list[LogicalStatus]:
    """The logical views, each as fresh as the stalest view that it is computed from."""
    by_name = {view.name: view for view in views}
    return [_describe(view, [by_name[name] for name in parts_of(view, logical) if name in by_name])
            for _, view in sorted(logical.items())]  # fmt: skip


def _describe(view: LogicalView, parts: list[ViewStatus]) -> LogicalStatus:
    unknown = next((part for part in parts if part.freshness_ms is None), None)
    stalest = unknown or max(parts, key=lambda part: part.freshness_ms or 0, default=None)
    stalled = next((part for part in parts if part.stalled), None)
    return LogicalStatus(
        name=view.name,
        sql=view.sql,
        columns=tuple(TypedColumn(name, str(of)) for name, of in view.columns),
        reads=view.reads,
        parts=tuple(part.name for part in parts),
        freshness_ms=stalest.freshness_ms if stalest else None,
        freshness_reason=_reason(stalest) if stalest else "no view that it reads is there",
        stalled=f"view '{stalled.name}': {stalled.stalled}" if stalled else None,
    )


def _reason(part: ViewStatus) -> str | None:
    return f"view '{part.name}': {part.freshness_reason}" if part.freshness_reason else None


def refuse_logical(logical: Mapping[str, LogicalView], view: str, what: str) -> None:
    """Refuse what only a materialized view has."""
    if view in logical:
        raise QuestionError(
            f"view '{view}' is logical: it is computed when it is asked and has no {what}",
            fix=f"name a view that it reads: {', '.join(parts_of(logical[view], logical))}",
        )
