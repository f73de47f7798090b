"""The door of a stream: a request's events are read, refused or accepted, and made durable."""

from __future__ import annotations

import hashlib
import threading
import uuid
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from headrace.define.model import Stream
from headrace.errors import ConflictError, IngestError, OverloadError
from headrace.format import iso_us
from headrace.ingest.formats.layout import Layout
from headrace.ingest.judge import Judge
from headrace.ingest.receiver import IngestReply, make_token
from headrace.transport.base import LONGEST_KEY, Receipt, Transport
from headrace.transport.position import START, Position
from headrace.transport.sent import FilePiece, Sent, stale

BACKLOG_BYTES = 4 << 30  # accepted but not yet in the lake: beyond it, wait
BODY_BYTES = 64 << 20  # the largest body, and the most that it may become as lines


class Ingest:
    """Takes requests for one stream. What it accepts never becomes a dead letter, but for `keep_bad`."""

    def __init__(self, stream: Stream, transport: Transport, most_bytes: int = BODY_BYTES) -> None:
        self.stream = stream
        self.transport = transport
        self.lake_position = START  # moved by the append; bounds the backlog
        self.most_backlog_bytes = BACKLOG_BYTES
        self._most_bytes = most_bytes
        self._door = _Door(Judge(stream, transport.now_us, most_bytes))
        self._claims: dict[str, tuple[str, Future[IngestReply]]] = {}  # keys in flight, with their digest
        self._files: set[str] = set()  # names of files of which a piece is in flight
        self._claiming = threading.Condition()  # also told when a request is through the door

    def redefine(self, stream: Stream) -> Position:
        """Judge by another definition from the next request on.

        Returns when what the one before has judged is in the transport, with a position behind all of that.
        """
        with self._claiming:
            before, self._door = self._door, _Door(Judge(stream, self.transport.now_us, self._most_bytes))
            self.stream = stream
            self._claiming.wait_for(lambda: not before.requests)
        return self.transport.end

    def take(
        self, body: bytes, *, layout: Layout, key: str | None, keep_bad: bool, file: FilePiece | None = None
    ) -> Future[IngestReply]:
        """Accept a request once: the same key again gives the same reply and adds nothing.

        A piece of a file is accepted only if the file stands where the piece begins.
        """
        if self.transport.reader.bytes_between(self.lake_position, self.transport.end) > self.most_backlog_bytes:
            raise OverloadError(
                f"stream '{self.stream.name}' is {self.most_backlog_bytes >> 30} GiB behind",
                fix="nothing of this request was stored; try again later",
            )
        if key is None and file is None:
            return self._accept(body, layout, None, "", keep_bad)
        if key is not None and not 0 < len(key) <= LONGEST_KEY:
            raise IngestError(
                f"stream '{self.stream.name}': the Idempotency-Key is {'too long' if key else 'empty'}",
                found=f"{len(key):,} characters",
                expected=f"1 to {LONGEST_KEY}",
                fix="nothing of this request was stored; send it with a shorter key, such as a hash of this one"
                if key
                else "nothing of this request was stored; send it with a key, or without the header",
            )
        return self._once(body, layout, key or uuid.uuid4().hex, keep_bad, file)

    def sent(self, name: str, first: str) -> dict[str, Any]:
        """What was sent under a file's name, and under other names what begins with the same event."""
        files = self.transport.sent
        version = files.version(name)  # before what it stands for: a piece that comes between makes it stale
        same = [{"name": other, **self._describe(sent)} for other, sent in files.beginning_with(first, name)]
        return {"version": version, "contents": [self._describe(sent) for sent in files.contents(name)], "same": same}

    def _describe(self, sent: Sent) -> dict[str, Any]:
        return {
            "mark": sent.mark,
            "first": sent.first,
            "events": sent.events,
            "token": self._token(sent.end),
            "arrived": iso_us(sent.arrived_us),
        }

    def _once(
        self, body: bytes, layout: Layout, key: str, keep_bad: bool, file: FilePiece | None
    ) -> Future[IngestReply]:
        digest = hashlib.blake2b(body, digest_size=16).hexdigest()
        with self._claiming:
            claimed = self._claims.get(key)
            earlier = self.transport.recall(key) if claimed is None else None
            if claimed is None and earlier is None:
                self._claim_file(file)
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
            accepted = self._accept(body, layout, key, digest, keep_bad, file)
        except BaseException as error:
            self._release(key, file, done, error)
            raise
        accepted.add_done_callback(lambda ended: self._release(key, file, done, ended.exception(), ended))
        return done

    def _claim_file(self, file: FilePiece | None) -> None:
        """Compare here, set by the transport: no other piece of the file comes between."""
        if file is not None:
            if file.name in self._files:
                raise stale(file.name)
            self.transport.sent.check(file)
            self._files.add(file.name)

    def _release(
        self,
        key: str,
        file: FilePiece | None,
        done: Future[IngestReply],
        error: BaseException | None,
        ended: Future[IngestReply] | None = None,
    ) -> None:
        with self._claiming:
            self._claims.pop(key, None)
            if file is not None:
                self._files.discard(file.name)
        if error is not None:
            done.set_exception(error)
        elif ended is not None:
            done.set_result(ended.result())

    def _same(self, key: str, digest: str, earlier: str) -> None:
        if digest != earlier:
            raise ConflictError(
                f"stream '{self.stream.name}': Idempotency-Key '{key}' was used before with another body",
                fix="use a new key for new events; nothing of this request was stored",
            )

    def _accept(
        self,
        body: bytes,
        layout: Layout,
        key: str | None,
        digest: str,
        keep_bad: bool,
        file: FilePiece | None = None,
    ) -> Future[IngestReply]:
        with self._claiming:
            door = self._door
            door.requests += 1
        try:
            judged = door.judge.judge(body, layout, keep_bad=keep_bad)
            if not judged.accepted and key is None:
                submitted: Future[Receipt] = Future()
                submitted.set_result(Receipt(self.transport.end, 0, judged.refused))
            else:  # with a key also if nothing is accepted: the key stands for this body from now on
                submitted = self.transport.submit(
                    judged.payload, judged.accepted, judged.refused, key=key, digest=digest, file=file
                )
        except BaseException:
            self._leave(door)
            raise
        submitted.add_done_callback(lambda _: self._leave(door))
        done: Future[IngestReply] = Future()
        submitted.add_done_callback(lambda ended: _pass_on(ended, done, self._reply))
        return done

    def _leave(self, door: _Door) -> None:
        with self._claiming:
            door.requests -= 1
            self._claiming.notify_all()

    def _reply(self, receipt: Receipt) -> IngestReply:
        return IngestReply(receipt.accepted, receipt.refused, self._token(receipt.end))

    def _token(self, end: Position) -> str:
        return make_token(self.stream.name, end)


@dataclass
class _Door:
    """What judges requests, and how many of them are not refused or in the transport yet."""

    judge: Judge
    requests: int = 0


def _pass_on(ended: Future[Receipt], done: Future[IngestReply], reply: Any) -> None:
    error = ended.exception()
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(reply(ended.result()))
