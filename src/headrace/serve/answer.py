"""An answer: rows with version, freshness and settled flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from headrace.aggregate import Value
from headrace.define.fingerprint import parse_type
from headrace.errors import HeadraceError, NotFoundError, NotReadyError, did_you_mean
from headrace.format import EPOCH, iso
from headrace.serve.plan import ReadPlan, plan
from headrace.serve.present import next_cursor, present, result_columns
from headrace.serve.question import Question
from headrace.serve.read import Row, count_more, read
from headrace.serve.times import iso_ms
from headrace.serve.values import arrow_type, decoder, encoder
from headrace.store.base import Snapshot, Store, Version
from headrace.types import Type

Freshness = Callable[[Version], tuple[int | None, str | None]]


@dataclass(frozen=True)
class Answer:
    """The rows of a question to a view, with metadata."""

    view: str
    version: int
    columns: tuple[tuple[str, Type], ...]
    values: list[tuple[Value, ...]]  # one per row, in the order of columns
    next_cursor: str | None
    more_rows: int | None  # remaining rows; None: there are more, not counted
    commits: Mapping[str, int]  # per stream, the number of its commits in the answer
    newest_event: datetime | None
    at: datetime
    freshness_ms: int | None
    freshness_reason: str | None
    events: Mapping[str, int]  # events in these rows, by layer
    corrections: int
    approximate: Mapping[str, str]  # the stated error of each approximate column
    windows: Mapping[str, Any] | None  # the time bounds and durations that were used
    stalled: str | None  # why the view cannot be updated

    def rows(self) -> list[dict[str, Value]]:
        """A dictionary per row: keys, window_start, window_end, columns, settled."""
        names = [name for name, _ in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.values]

    def arrow(self) -> pa.Table:
        """The rows as an Arrow table."""
        items = list(zip(*self.values, strict=True)) or [()] * len(self.columns)
        arrays = [pa.array(item, arrow_type(of)) for item, (_, of) in zip(items, self.columns, strict=True)]
        return pa.table(arrays, names=[name for name, _ in self.columns])

    def pandas(self) -> Any:
        """The rows as a pandas data frame."""
        return self.arrow().to_pandas()

    def as_dict(self) -> dict[str, Any]:
        """The answer as HTTP and `--json` show it; `from_dict` is the inverse."""
        return {
            "rows": self._encoded_rows(),
            "next_cursor": self.next_cursor,
            "more_rows": self.more_rows,
            "view": self.view,
            "version": self.version,
            "as_of": {
                "commits": dict(self.commits),
                "newest_event": iso(self.newest_event) if self.newest_event else None,
                "at": iso(self.at),
            },
            "freshness_ms": self.freshness_ms,
            "freshness_reason": self.freshness_reason,
            "events": dict(self.events),
            "corrections": self.corrections,
            "approximate": dict(self.approximate),
            "windows": dict(self.windows) if self.windows else None,
            "stalled": self.stalled,
            "columns": [{"name": name, "type": str(of)} for name, of in self.columns],
        }

    def _encoded_rows(self) -> list[dict[str, Any]]:
        rows = self.rows()
        for name, of in self.columns:
            encode = encoder(of)
            if encode is not None:
                for row in rows:
                    if row[name] is not None:
                        row[name] = encode(row[name])
        return rows

    @classmethod
    def from_dict(cls, shown: Mapping[str, Any]) -> Answer:
        """The answer from the output of `as_dict`."""
        columns = tuple((column["name"], parse_type(column["type"])) for column in shown["columns"])
        decoders = [(name, decoder(of)) for name, of in columns]
        values = [
            tuple(row[name] if row[name] is None or decode is None else decode(row[name]) for name, decode in decoders)
            for row in shown["rows"]
        ]
        as_of = shown["as_of"]
        newest = as_of["newest_event"]
        return cls(
            view=shown["view"],
            version=shown["version"],
            columns=columns,
            values=values,
            next_cursor=shown["next_cursor"],
            more_rows=shown["more_rows"],
            commits=as_of["commits"],
            newest_event=datetime.fromisoformat(newest) if newest else None,
            at=datetime.fromisoformat(as_of["at"]),
            freshness_ms=shown["freshness_ms"],
            freshness_reason=shown["freshness_reason"],
            events=shown["events"],
            corrections=shown["corrections"],
            approximate=shown["approximate"],
            windows=shown["windows"],
            stalled=shown["stalled"],
        )


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
        commits={version.view.stream: version.applied_to},
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


def _unknown(view: str, snapshot: Snapshot) -> HeadraceError:
    building = next((version for version in snapshot.versions() if version.view.name == view and version.live), None)
    if building is not None:
        return NotReadyError(
            f"view '{view}' is being built",
            found=building.stalled or f"{building.built_to:,} of {building.horizon:,} commits read",
            fix="`headrace versions` shows its progress; ask again when it serves",
        )
    hint = did_you_mean(view, [version.view.name for version in snapshot.versions()])
    return NotFoundError(
        f"view '{view}' does not exist", fix="; ".join(filter(None, [hint, "`headrace views` lists all"]))
    )
