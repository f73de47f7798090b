"""The requests that were produced to a topic: their idempotency keys and the pieces of files, for at least a day.

Each is noted here after Kafka has committed it. A crash in between leaves a request that is in the topic only; it is
found there again, since its last message carries all of this in a header. Where to search for that is noted before
the first request is produced.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from headrace.disk import replace_file, sync
from headrace.errors import CorruptionError
from headrace.transport.journal.journal import Journal
from headrace.transport.journal.journal_records import HEADER, JournalRecord, Segment, damaged
from headrace.transport.journal.journal_recovery import visit_records
from headrace.transport.position import START, Position
from headrace.transport.sent_files import FilePiece, SentFiles
from headrace.transport.transport_contract import Receipt

PRODUCER_FILE = "producer.json"


@dataclass(frozen=True)
class Noted:
    """A request that Kafka has committed."""

    key: str | None
    digest: str
    accepted: int
    refused: list[dict[str, object]]
    file: FilePiece | None
    arrived_us: int

    def to_json(self) -> bytes:
        """The form in the header of its last message."""
        return orjson.dumps({**vars(self), "file": self.file.as_dict() if self.file else None})

    @classmethod
    def from_json(cls, raw: bytes) -> Noted:
        fields: dict[str, Any] = orjson.loads(raw)
        return cls(**{**fields, "file": FilePiece.of(fields["file"]) if fields["file"] else None})


class ProducedRequests:
    """The noted requests of one stream. Several threads read, one writes."""

    def __init__(
        self,
        folder: Path,
        *,
        fence: int,
        still_mine: Callable[[], None],
        clock_us: Callable[[], int],
        monotonic_s: Callable[[], float],
    ) -> None:
        self._folder = folder
        self._fence = fence
        self._file = folder / PRODUCER_FILE
        self._producer = _read(self._file)
        journal = folder / "requests"
        journal.mkdir(parents=True, exist_ok=True)
        self.sent = SentFiles.read(folder)
        visit_records(journal, self._note_old)
        # A record for each request, without its events: a journal keeps keys for a day, through any crash.
        self._journal = Journal(journal, fence=fence, still_mine=still_mine, clock_us=clock_us, monotonic_s=monotonic_s)

    # The producer

    @property
    def transactional_id(self) -> str | None:
        """The id of the producer's transactions; None if nothing was ever produced."""
        return self._producer.get("id") if self._producer else None

    @property
    def unsure_from(self) -> Position | None:
        """The offset from which the topic may have requests that are not noted; None: it has none."""
        position = self._producer.get("unsure_from") if self._producer else None
        return None if position is None else Position.from_json(position)

    def begin(self, transactional_id: str, unsure_from: Position) -> None:
        """Requests may be produced after this position; on disk when this returns."""
        self._write({"id": transactional_id, "unsure_from": unsure_from.to_json()})

    def settle(self) -> None:
        """All requests that were produced are noted."""
        if self._producer is not None and self.unsure_from is not None:
            self._write({"id": self._producer["id"], "unsure_from": None})

    def _write(self, content: dict[str, Any]) -> None:
        replace_file(self._file, orjson.dumps(content), f"file '{self._file}' cannot be written")
        sync(self._folder)
        self._producer = content

    # The requests

    def note(self, requests: list[tuple[Noted, Position]]) -> None:
        """Note requests and where each ends in the topic; on disk when this returns."""
        kept = [(each, end) for each, end in requests if each.key is not None or each.file is not None]
        futures = [
            self._journal.submit(
                b"", each.accepted, each.refused, key=each.key, digest=_with_end(each.digest, end), file=each.file
            )
            for each, end in kept
        ]
        for (each, end), future in zip(kept, futures, strict=True):
            version = future.result().end.offset()
            if each.file is not None:
                self.sent.note(each.file, each.accepted, end, each.arrived_us, version)

    def recall(self, key: str) -> Receipt | None:
        """The receipt of a request with this key, if it arrived within a day."""
        receipt = self._journal.recall(key)
        if receipt is None:
            return None
        digest, end = _without_end(receipt.digest)
        return Receipt(end, receipt.accepted, receipt.refused, digest)

    def reclaim(self) -> int:
        """Delete what is older than a day; returns how many bytes."""
        self.sent.write(self._folder, self._fence)
        return self._journal.reclaim(self._journal.end)

    def close(self) -> None:
        self._journal.close()

    def _note_old(self, segment: Segment, record: JournalRecord) -> None:
        with segment.path.open("rb") as file:
            file.seek(record.position + HEADER.size - segment.start)
            meta = file.read(record.meta_bytes)
        try:
            fields = orjson.loads(meta)
            if "file" in fields:
                _, end = _without_end(fields["digest"])
                piece = FilePiece.of(fields["file"])
                self.sent.note(piece, fields["accepted"], end, record.arrived_us, record.end)
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
            raise damaged(segment, record.position) from error


def _with_end(digest: str, end: Position) -> str:
    return f"{digest} {end.to_text()}"


def _without_end(digest: str) -> tuple[str, Position]:
    text, _, end = digest.rpartition(" ")
    return text, Position.from_text(end) if end else START


def _read(file: Path) -> dict[str, Any] | None:
    try:
        content: dict[str, Any] = orjson.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    except orjson.JSONDecodeError as error:
        raise CorruptionError(
            f"file '{file}' is damaged",
            expected="the id of the producer, as JSON",
            fix="delete it; a request that was sent in the last seconds and is sent again may then count twice",
        ) from error
    return content
