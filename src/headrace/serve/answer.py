"""An answer: rows with version, freshness and settled flags."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from headrace.format import iso
from headrace.language.token_cursor import parse_type
from headrace.lazy import later, pa
from headrace.serve.json_values import decoder, encoder
from headrace.types import Type, arrow_type

if TYPE_CHECKING:
    from headrace.aggregate import Value

_html = later("headrace.serve.answer_html")  # only notebooks need it


@dataclass(frozen=True)
class CellError:
    """Why a cell of an answer has no value: it is NULL."""

    row: int  # its place in the answer, from 0
    column: str
    reason: str


@dataclass(frozen=True)
class StreamState:
    """How far an answer has one of its base streams. Times are ISO 8601 in UTC."""

    commits: int  # in the answer
    horizon: int  # of these, how many are in the batch layer
    newest_event: str | None
    settled_until: str | None  # the event time up to which no more events of the stream are expected
    freshness_ms: int | None
    freshness_reason: str | None


@dataclass(frozen=True)
class Answer:
    """The rows of a question to a view, with metadata."""

    view: str
    version: int | None  # None: of a logical view
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
    errors: tuple[CellError, ...] = ()  # cells that are NULL because they cannot be computed
    missing: tuple[Mapping[str, Value], ...] | None = None  # of a lookup: the keys that have no row
    # Of approximate columns that are exact in some rows: the places of the rows in which they are estimates.
    estimates: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    # Of columns that are scaled from a sample: how far each value is from the true one in 95 of 100 cases, at most.
    bounds: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    # How far each base stream is in the answer: commits, horizon, newest event, freshness. None of a logical view.
    streams: Mapping[str, StreamState] = field(default_factory=dict)
    # Of a logical view: the views that it was computed from, each with version, commits, freshness and stated errors.
    parts: Mapping[str, Mapping[str, Any]] | None = None

    def stated_errors(self) -> dict[str, str]:
        """The stated error of each approximate column, and in how many rows it is an estimate if not in all."""
        return {
            name: state_error(error, len(self.estimates.get(name, self.values)), len(self.values))
            for name, error in self.approximate.items()
        }

    @property
    def stalest(self) -> str | None:
        """Of a logical view: the part with the freshness of the answer; one whose freshness is unknown comes first."""
        ages_ms = {name: part["freshness_ms"] for name, part in (self.parts or {}).items()}
        unknown = next((name for name, age_ms in ages_ms.items() if age_ms is None), None)
        return unknown or max(ages_ms, key=lambda name: ages_ms[name], default=None)

    def rows(self) -> list[dict[str, Value]]:
        """A dictionary per row: keys, window_start, window_end, columns, settled; on demand events, corrections."""
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

    def _repr_html_(self) -> str:
        """The answer as a notebook shows it."""
        return str(_html.answer_html(self))

    def as_dict(self) -> dict[str, Any]:
        """The answer as HTTP and `--json` show it; `from_dict` is the inverse."""
        content = {
            "rows": self._encoded_rows(),
            "next_cursor": self.next_cursor,
            "more_rows": self.more_rows,
            "view": self.view,
            "version": self.version,
            "as_of": {
                "commits": dict(self.commits),
                "newest_event": iso(self.newest_event) if self.newest_event else None,
                "at": iso(self.at),
                "streams": states_as_dict(self.streams),
            },
            "freshness_ms": self.freshness_ms,
            "freshness_reason": self.freshness_reason,
            "events": dict(self.events),
            "corrections": self.corrections,
            "approximate": dict(self.approximate),
            "estimates": {name: list(rows) for name, rows in self.estimates.items()},
            "windows": dict(self.windows) if self.windows else None,
            "stalled": self.stalled,
            "errors": [asdict(error) for error in self.errors],
            "columns": [{"name": name, "type": str(of)} for name, of in self.columns],
        }
        if self.bounds:
            content["bounds"] = {name: list(bounds) for name, bounds in self.bounds.items()}
        if self.missing is not None:
            encoders = {name: encoder(of) for name, of in self.columns}
            content["missing"] = [{name: _apply(encoders[name], key[name]) for name in key} for key in self.missing]
        if self.parts is not None:
            content["parts"] = {name: dict(part) for name, part in self.parts.items()}
            content["stalest"] = self.stalest
        return content

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
    def from_dict(cls, content: Mapping[str, Any]) -> Answer:
        """The answer from the output of `as_dict`."""
        columns = tuple((column["name"], parse_type(column["type"])) for column in content["columns"])
        decoders = [(name, decoder(of)) for name, of in columns]
        values = [
            tuple(row[name] if row[name] is None or decode is None else decode(row[name]) for name, decode in decoders)
            for row in content["rows"]
        ]
        missing = content.get("missing")
        if missing is not None:
            by_name = dict(decoders)
            missing = tuple({name: _apply(by_name[name], key[name]) for name in key} for key in missing)
        as_of = content["as_of"]
        newest = as_of["newest_event"]
        return cls(
            view=content["view"],
            version=content["version"],
            columns=columns,
            values=values,
            next_cursor=content["next_cursor"],
            more_rows=content["more_rows"],
            commits=as_of["commits"],
            newest_event=datetime.fromisoformat(newest) if newest else None,
            at=datetime.fromisoformat(as_of["at"]),
            freshness_ms=content["freshness_ms"],
            freshness_reason=content["freshness_reason"],
            events=content["events"],
            corrections=content["corrections"],
            approximate=content["approximate"],
            windows=content["windows"],
            stalled=content["stalled"],
            errors=tuple(CellError(**error) for error in content.get("errors", ())),
            missing=missing,
            estimates={name: tuple(rows) for name, rows in content.get("estimates", {}).items()},
            bounds={name: tuple(bounds) for name, bounds in content.get("bounds", {}).items()},
            streams={name: StreamState(**state) for name, state in as_of.get("streams", {}).items()},
            parts=content.get("parts"),
        )


def state_error(error: str, estimated: int, rows: int) -> str:
    """The stated error of a column that is an estimate in some rows and exact in the others."""
    return error if estimated == rows else f"{error} in {estimated:,} of {rows:,} rows, exact in the others"


def _apply(convert: Callable[[Any], Any] | None, value: Any) -> Any:
    return value if value is None or convert is None else convert(value)


def states_as_dict(states: Mapping[str, StreamState]) -> dict[str, dict[str, Any]]:
    """The states of base streams as HTTP and `--json` show them."""
    return {stream: asdict(state) for stream, state in states.items()}
