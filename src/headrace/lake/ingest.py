"""The door of a stream: a request's events are read, refused or accepted, and made durable."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc

from headrace.define.model import TEXT, Stream
from headrace.errors import ConflictError, IngestError, OverloadError
from headrace.lake.frames import Frames, as_lines, frame, frame_array
from headrace.lake.parse import Parser
from headrace.transport.journal import Journal, Receipt

BACKLOG_BYTES = 4 << 30  # accepted but not yet in the lake: beyond it, wait
MOST_REFUSED = 1000  # reasons told in one reply; the count is always whole


@dataclass(frozen=True)
class IngestReply:
    """What became of a request. The token tells when every view has it."""

    accepted: int
    refused: list[dict[str, Any]]
    token: str

    def as_dict(self) -> dict[str, Any]:
        return {"accepted": self.accepted, "refused": self.refused, "token": self.token}


class Ingest:
    """Takes requests for one stream. What it accepts never becomes a dead letter, but for `keep_bad`."""

    def __init__(self, stream: Stream, journal: Journal) -> None:
        self.stream = stream
        self.journal = journal
        self.lake_position = 0  # moved by the append; bounds the backlog
        self._parser = Parser(stream)
        self._parsing = threading.Lock()  # the parser's DuckDB connection serves one thread
        self._claims: dict[str, tuple[str, Future[IngestReply]]] = {}  # keys in flight, with their digest
        self._claiming = threading.Lock()

    def redefine(self, stream: Stream) -> None:
        """Judge by a loosened definition from the next request on."""
        parser = Parser(stream)
        with self._parsing:
            self.stream, self._parser = stream, parser

    def take(self, body: bytes, *, ndjson: bool, key: str | None, keep_bad: bool) -> Future[IngestReply]:
        """Accept a request once: the same key again gives the same reply and adds nothing."""
        if self.journal.end - self.lake_position > BACKLOG_BYTES:
            raise OverloadError(
                f"stream '{self.stream.name}' is {BACKLOG_BYTES >> 30} GiB behind",
                fix="nothing of this request was kept; try again later",
            )
        if key is None:
            return self._accept(body, ndjson, None, "", keep_bad)
        return self._once(body, ndjson, key, keep_bad)

    def _once(self, body: bytes, ndjson: bool, key: str, keep_bad: bool) -> Future[IngestReply]:
        digest = hashlib.blake2b(body, digest_size=16).hexdigest()
        with self._claiming:
            claimed = self._claims.get(key)
            earlier = self.journal.recall(key) if claimed is None else None
            if claimed is None and earlier is None:
                done: Future[IngestReply] = Future()
                self._claims[key] = (digest, done)
        if claimed is not None:
            self._same(key, digest, claimed[0])
            return claimed[1]
        if earlier is not None:
            self._same(key, digest, earlier.digest)
            done = Future()
            done.set_result(self._reply(earlier))
            return done
        try:
            accepted = self._accept(body, ndjson, key, digest, keep_bad)
        except BaseException as error:
            self._release(key, done, error)
            raise
        accepted.add_done_callback(lambda ended: self._release(key, done, ended.exception(), ended))
        return done

    def _release(
        self,
        key: str,
        done: Future[IngestReply],
        error: BaseException | None,
        ended: Future[IngestReply] | None = None,
    ) -> None:
        with self._claiming:
            self._claims.pop(key, None)
        if error is not None:
            done.set_exception(error)
        elif ended is not None:
            done.set_result(ended.result())

    def _same(self, key: str, digest: str, earlier: str) -> None:
        if digest != earlier:
            raise ConflictError(
                f"stream '{self.stream.name}': Idempotency-Key '{key}' came before with another body",
                fix="use a new key for new events; nothing of this request was kept",
            )

    def _accept(self, body: bytes, ndjson: bool, key: str | None, digest: str, keep_bad: bool) -> Future[IngestReply]:
        refused: list[dict[str, Any]] = []
        if keep_bad and (ndjson or self.stream.format == TEXT):
            payload, accepted = _whole_lines(body), _count_lines(self.stream.format, body)
        else:
            payload, accepted, refused = self._judged(self._frames(body, ndjson))
        done: Future[IngestReply] = Future()
        if not accepted:
            done.set_result(IngestReply(0, refused, self._token(self.journal.end)))
            return done
        submitted = self.journal.submit(payload, accepted, refused, key=key, digest=digest)
        submitted.add_done_callback(lambda ended: _pass_on(ended, done, self._reply))
        return done

    def _frames(self, body: bytes, ndjson: bool) -> Frames:
        if not body.strip():
            raise IngestError(
                f"stream '{self.stream.name}': the body is empty", expected="a JSON object, an array of them, or NDJSON"
            )
        if ndjson or self.stream.format == TEXT:
            return frame(self.stream.format, body)
        first = body.lstrip()[:1]
        if first == b"[":
            frames = frame_array(body)
            if frames is None:
                raise IngestError(
                    f"stream '{self.stream.name}': the body is not a JSON array",
                    found="brackets or quotes that do not close",
                    expected="[{...}, {...}]",
                    fix="nothing of this request was kept",
                )
            return frames
        data = np.frombuffer(body, dtype=np.uint8)
        start = len(body) - len(body.lstrip())
        end = len(body.rstrip())
        return Frames(data, np.array([start], dtype=np.int64), np.array([end], dtype=np.int64))

    def _judged(self, frames: Frames) -> tuple[bytes, int, list[dict[str, Any]]]:
        """The lines to keep, how many, and why the others are refused."""
        lines = as_lines(frames, self.stream.format)
        clean = frame(self.stream.format, lines)
        if len(clean) != len(frames):  # an empty element of an array, as in [{...},,{...}]
            raise IngestError(
                f"stream '{self.stream.name}': the array has an empty element",
                fix="nothing of this request was kept; remove the comma too many",
            )
        with self._parsing:
            reasons = self._parser.parse(clean, self.journal.now_us()).reasons
        if reasons is None or reasons.null_count == len(reasons):
            return lines, len(clean), []
        bad = pc.indices_nonzero(reasons.is_valid()).to_pylist()
        refused = [{"index": i, "reason": reasons[i].as_py()} for i in bad[:MOST_REFUSED]]
        if len(bad) > MOST_REFUSED:
            refused += [{"index": i, "reason": "refused; see the first reasons"} for i in bad[MOST_REFUSED:]]
        keep = np.asarray(reasons.is_null().to_numpy(zero_copy_only=False), dtype=bool)
        return as_lines(clean.take(keep), self.stream.format), int(keep.sum()), refused

    def _reply(self, receipt: Receipt) -> IngestReply:
        return IngestReply(receipt.accepted, receipt.refused, self._token(receipt.end))

    def _token(self, end: int) -> str:
        return make_token(self.stream.name, end)


def make_token(stream: str, position: int) -> str:
    """A token says: all of this stream up to this position."""
    return f"{stream}.{position:x}"


def read_token(token: str) -> tuple[str, int] | None:
    """The stream and position of a token; None if it is none of ours."""
    stream, _, position = token.rpartition(".")
    try:
        return (stream, int(position, 16)) if stream else None
    except ValueError:
        return None


def _pass_on(ended: Future[Receipt], done: Future[IngestReply], reply: Any) -> None:
    error = ended.exception()
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(reply(ended.result()))


def _whole_lines(body: bytes) -> bytes:
    return body if body.endswith(b"\n") else body + b"\n"


def _count_lines(stream_format: str, body: bytes) -> int:
    """Events of a body of lines; exact where there are no blank lines, which is nearly always."""
    if b"\n\n" in body or b"\n\r\n" in body or body[:1].isspace():
        return len(frame(stream_format, body))
    return body.count(b"\n") + (not body.endswith(b"\n"))
