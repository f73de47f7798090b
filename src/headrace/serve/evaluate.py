"""Answers a question from one snapshot of the store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from headrace.errors import HeadraceError, NotFoundError, NotReadyError, did_you_mean
from headrace.format import EPOCH
from headrace.serve.answer import Answer
from headrace.serve.plan import ReadPlan, plan
from headrace.serve.present import next_cursor, present, result_columns
from headrace.serve.question import Question
from headrace.serve.read import Row, count_more, read
from headrace.serve.times import iso_ms
from headrace.store.base import Snapshot, Store, Version

Freshness = Callable[[Version], tuple[int | None, str | None]]


def answer(store: Store, question: Question, freshness: Freshness, now: datetime) -> Answer:
    """Answer from one snapshot of the store. A view that lags or is stalled answers what it has, and says so."""
    with store.snapshot() as snapshot:
        return answer_from(snapshot, find_serving(snapshot, question.view), question, freshness, now)


def answer_from(
    snapshot: Snapshot, version: Version, question: Question, freshness: Freshness, now: datetime
) -> Answer:
    """The same from an open snapshot and one of its versions."""
    planned = plan(question, version)
    rows = read(snapshot, version, planned, question.limit + 1)
    page = rows[: question.limit]
    more = count_more(snapshot, version, planned, page[-1]) if len(rows) > len(page) else 0
    return _make(question, version, planned, page, more, freshness, now)


def find_serving(snapshot: Snapshot, view: str) -> Version:
    """The version that answers for a view; raises if there is none."""
    version = snapshot.serving(view)
    if version is None:
        raise _unknown(view, snapshot)
    return version


def _make(
    question: Question,
    version: Version,
    planned: ReadPlan,
    page: list[Row],
    more: int | None,
    freshness: Freshness,
    now: datetime,
) -> Answer:
    shown = present(version, planned, page)
    freshness_ms, reason = freshness(version)
    newest_us = version.newest_us
    return Answer(
        view=question.view,
        version=version.number,
        columns=result_columns(version.view, planned, shown.wide),
        values=shown.values,
        next_cursor=None if more == 0 else next_cursor(question, version, planned, page[-1]),
        more_rows=more,
        commits=version.commits,
        newest_event=None if newest_us is None else EPOCH + timedelta(microseconds=newest_us),
        at=now,
        freshness_ms=freshness_ms,
        freshness_reason=reason,
        events={"batch": shown.batch_events, "speed": shown.events - shown.batch_events},
        corrections=shown.corrections,
        approximate={c.name: c.aggregate.approximate for c in version.view.columns if c.aggregate.approximate},
        windows=_understood(planned) if version.view.window else None,
        stalled=version.stalled,
    )


def _understood(planned: ReadPlan) -> dict[str, Any]:
    windows, (start_ms, end_ms) = planned.windows, planned.bounds
    times = {"start": start_ms, "end": end_ms, "counted_from": planned.counted_from_ms}
    shown: dict[str, Any] = {name: None if ms is None else iso_ms(ms) for name, ms in times.items()}
    return {**shown, "window_ms": windows and windows.size_ms, "every_ms": windows and windows.every_ms}


def _progress(version: Version) -> str:
    done, whole = sum(base.built_to for base in version.bases), sum(base.horizon for base in version.bases)
    return f"{done:,} of {whole:,} commits read"


def _unknown(view: str, snapshot: Snapshot) -> HeadraceError:
    building = next((version for version in snapshot.versions() if version.view.name == view and version.live), None)
    if building is not None:
        return NotReadyError(
            f"view '{view}' is being built",
            found=building.stalled or _progress(building),
            fix="`headrace versions` shows its progress; ask again when it serves",
        )
    hint = did_you_mean(view, [version.view.name for version in snapshot.versions()])
    return NotFoundError(
        f"view '{view}' does not exist", fix="; ".join(filter(None, [hint, "`headrace views` lists all"]))
    )
