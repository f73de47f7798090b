"""Tables become lines, one for each row, in pieces of a bounded size."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import orjson
import pandas as pd
import pyarrow as pa
import pytest

from headrace.errors import IngestError, TooLargeError, UnavailableError
from headrace.ingest.formats.columnar_lines import as_table, send_table
from headrace.ingest.receiver import IngestReply
from tests import wording

AT = datetime(2026, 3, 1, 12, 0, 0, 5, tzinfo=UTC)


class Received:
    """What a stream was sent: takes bodies up to a size, and refuses rows with a null `n`."""

    def __init__(self, most: int = 1 << 30, fails_at: int | None = None) -> None:
        self.bodies: list[tuple[str | None, list[dict[str, Any]]]] = []
        self._most = most
        self._fails_at = fails_at

    def __call__(self, lines: bytes, key: str | None) -> Future[IngestReply]:
        reply: Future[IngestReply] = Future()
        if len(lines) > self._most:
            reply.set_exception(TooLargeError("too large"))
            return reply
        if len(self.bodies) == self._fails_at:
            reply.set_exception(UnavailableError("gone"))
            return reply
        events = [orjson.loads(line) for line in lines.splitlines()]
        refused = [{"index": i, "reason": "no n"} for i, event in enumerate(events) if "n" not in event]
        self.bodies.append((key, events))
        reply.set_result(IngestReply(len(events) - len(refused), refused, f"s.{len(self.bodies):x}"))
        return reply

    @property
    def events(self) -> list[dict[str, Any]]:
        return [event for _, events in self.bodies for event in events]


@pytest.mark.parametrize(
    "make", [lambda table: table, lambda table: table.to_batches()[0], lambda table: table.to_reader()]
)
def test_values_of_every_kind(make: Callable[[pa.Table], Any]) -> None:
    row = {
        "n": 1,
        "text": 'a "quoted"\nline',
        "at": AT,
        "day": date(2026, 3, 1),
        "price": Decimal("1.50"),
        "ok": True,
        "tags": ["a", None],
        "place": {"city": "Bern"},
        "none": None,
    }
    received = Received()
    table = as_table(make(pa.Table.from_pylist([row])))
    assert table is not None
    reply = send_table(table, received, None)
    assert (reply.accepted, reply.refused) == (1, [])
    assert received.events == [
        {
            "n": 1,
            "text": 'a "quoted"\nline',
            "at": "2026-03-01T12:00:00.000005Z",
            "day": "2026-03-01",
            "price": 1.5,
            "ok": True,
            "tags": ["a", None],
            "place": {"city": "Bern"},
        }
    ]


def test_a_data_frame_of_pandas() -> None:
    frame = pd.DataFrame({"n": [1, 2], "x": [0.5, None], "kind": pd.Categorical(["a", "b"])})
    frame["at"] = pd.to_datetime(["2026-03-01T12:00:00Z", None])
    received = Received()
    table = as_table(frame)
    assert table is not None
    send_table(table, received, None)
    assert received.events == [
        {"n": 1, "x": 0.5, "kind": "a", "at": "2026-03-01T12:00:00.000000Z"},
        {"n": 2, "kind": "b"},
    ]
    with_index = as_table(frame[["n"]].set_index(pd.Index(["p", "q"], name="page")))
    assert with_index is not None
    assert with_index.to_pylist() == [{"n": 1, "page": "p"}, {"n": 2, "page": "q"}], "an index with a name is a column"


def test_large_tables_go_in_pieces_and_rows_keep_their_numbers() -> None:
    sizes = {"rows": 10, "piece_bytes": 200}
    rows = [{"n": None if n in (7, 93) else n, "x": n} for n in range(100)]
    received = Received()
    reply = send_table(pa.Table.from_pylist(rows), received, "k", **sizes)
    assert [event["x"] for event in received.events] == list(range(100))
    assert (reply.accepted, [row["index"] for row in reply.refused]) == (98, [7, 93])
    assert reply.token == f"s.{len(received.bodies):x}"
    assert [key for key, _ in received.bodies] == ["k", *(f"k-{n}" for n in range(1, len(received.bodies)))]
    small = Received(most=50)
    halved = send_table(pa.Table.from_pylist(rows), small, "k", **sizes)
    assert ([event["x"] for event in small.events], halved.refused) == (list(range(100)), reply.refused)
    assert len({key for key, _ in small.bodies}) == len(small.bodies), "each half has a key of its own"
    with pytest.raises(TooLargeError):
        send_table(pa.Table.from_pylist(rows), Received(most=5), None, **sizes)


def test_an_error_says_what_was_sent() -> None:
    sizes = {"rows": 10, "piece_bytes": 1}
    with wording.raises(UnavailableError, 20):
        send_table(pa.table({"n": range(100)}), Received(fails_at=2), None, **sizes)


def test_values_that_are_not_tables() -> None:
    assert as_table([{"n": 1}]) is None
    assert as_table({"n": 1}) is None
    with wording.raises(IngestError):
        as_table(pd.DataFrame({"n": [1, "x", {}]}))
    with wording.raises(IngestError, "n"):
        send_table(pa.table([pa.array([1]), pa.array([2])], names=["n", "n"]), Received(), None)
