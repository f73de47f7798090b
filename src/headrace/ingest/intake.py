"""Accepts the requests of a stream: their events are parsed, refused or accepted, and made durable."""

from __future__ import annotations

import hashlib
import threading
import uuid
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import xxhash

from headrace.define.model import Stream
from headrace.errors import ConflictError, IngestError, OverloadError
from headrace.format import iso_us
from headrace.ingest.body_events import BodyParser
from headrace.ingest.formats.format_detection import FileLayout
from headrace.ingest.receiver import IngestReply, SameContent, SentContent, SentStatus, make_token
from headrace.transport.position import START, Position
from headrace.transport.sent_files import FilePiece, Sent, stale
from headrace.transport.transport_contract import LONGEST_KEY, Receipt, Transport

BACKLOG_BYTES = 4 << 30  # accepted but not yet in the lake: beyond it, wait
BODY_BYTES = 64 << 20  # the largest body, and the most that it may become as lines


def refuse_derived(stream: Stream) -> None:
    """Raise if nothing can be sent to a stream, because its events are made of others."""
    if stream.relation is not None:
        bases = stream.relation.streams
        raise IngestError(
            f"stream '{stream.name}' is derived from {', '.join(bases)}: nothing can be sent to it",
            fix=f"send to {' or '.join(bases)}",
        )


class Ingest:
    """Accepts requests for one stream. What it accepts never becomes a dead letter, except with `keep_bad`."""

    def __init__(self, stream: Stream, transport: Transport, most_bytes: int = BODY_BYTES) -> None:
        self.stream = stream
        self.transport = transport
        self.lake_position = START  # moved by the append; bounds the backlog
        self.most_backlog_bytes = BACKLOG_BYTES
        self._most_bytes = most_bytes
        self._open = _OpenRequests(BodyParser(stream, transport.now_us, most_bytes))
        self._claims: dict[str, tuple[str, Future[IngestReply]]] = {}  # keys in flight, with their digest
        self._files: set[str] = set()  # names of files of which a piece is in flight
        self._claiming = threading.Condition()  # notified when a request was refused or submitted

    def redefine(self, stream: Stream) -> Position:
        """Use another definition from the next request on.

        Returns when all requests judged by the old definition are in the transport, with a position after them.
        """
        with self._claiming:
            before, self._open = (
                self._open,
                _OpenRequests(BodyParser(stream, self.transport.now_us, self._most_bytes)),
            )
            self.stream = stream
            self._claiming.wait_for(lambda: not before.count)
        return self.transport.end

    def take(
        self,
        body: bytes | memoryview,
        *,
        layout: FileLayout,
        key: str | None,
        keep_bad: bool,
        file: FilePiece | None = None,
    ) -> Future[IngestReply]:
        """Accept a request once: the same key again gives the same reply and adds nothing.

        A piece of a file is accepted only if it begins at the stored mark of the file.
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

    def sent(self, name: str, first: str) -> SentStatus:
        """The mark of a file by its name, and those under other names that begin with the same event."""
        files = self.transport.sent
        version = files.version(name)  # read first: a piece that arrives meanwhile makes it stale
        same = [SameContent.of(other, self._describe(sent)) for other, sent in files.beginning_with(first, name)]
        return SentStatus(version, tuple(self._describe(sent) for sent in files.contents(name)), tuple(same))

    def _describe(self, sent: Sent) -> SentContent:
        return SentContent(sent.mark, sent.first, sent.events, self._token(sent.end), iso_us(sent.arrived_us))

    def _once(
        self, body: bytes | memoryview, layout: FileLayout, key: str, keep_bad: bool, file: FilePiece | None
    ) -> Future[IngestReply]:
        digest = _digest(body)
        with self._claiming:
            claim = self._claims.get(key)
            receipt = self.transport.recall(key) if claim is None else None
            if claim is None and receipt is None:
                self._claim_file(file)
                reply: Future[IngestReply] = Future()
                self._claims[key] = (digest, reply)
        if claim is not None:
            self._check_same(key, digest == claim[0])
            return claim[1]
        if receipt is not None:
            self._check_same(key, receipt.digest == digest or receipt.digest == _older_digest(body))
            reply = Future()
            reply.set_result(self._reply(receipt))
            return reply
        try:
            result = self._accept(body, layout, key, digest, keep_bad, file)
        except BaseException as error:
            self._release(key, file, reply, error)
            raise
        result.add_done_callback(lambda future: self._release(key, file, reply, future.exception(), future))
        return reply

    def _claim_file(self, file: FilePiece | None) -> None:
        """Compare here; the transport sets. Until then, no other piece of the file is accepted."""
        if file is not None:
            if file.name in self._files:
                raise stale(file.name)
            self.transport.sent.check(file)
            self._files.add(file.name)

    def _release(
        self,
        key: str,
        file: FilePiece | None,
        reply: Future[IngestReply],
        error: BaseException | None,
        result: Future[IngestReply] | None = None,
    ) -> None:
        with self._claiming:
            self._claims.pop(key, None)
            if file is not None:
                self._files.discard(file.name)
        if error is not None:
            reply.set_exception(error)
        elif result is not None:
            reply.set_result(result.result())

    def _check_same(self, key: str, same: bool) -> None:
        if not same:
            raise ConflictError(
                f"stream '{self.stream.name}': Idempotency-Key '{key}' was used before with another body",
                fix="use a new key for new events; nothing of this request was stored",
            )

    def _accept(
        self,
        body: bytes | memoryview,
        layout: FileLayout,
        key: str | None,
        digest: str,
        keep_bad: bool,
        file: FilePiece | None = None,
    ) -> Future[IngestReply]:
        with self._claiming:
            opened = self._open
            opened.count += 1
        try:
            events = opened.parser.parse(body, layout, keep_bad=keep_bad)
            if not events.accepted and key is None:
                receipt: Future[Receipt] = Future()
                receipt.set_result(Receipt(self.transport.end, 0, events.refused))
            else:  # with a key even if nothing is accepted: the key belongs to this body from now on
                receipt = self.transport.submit(
                    events.payload, events.accepted, events.refused, key=key, digest=digest, file=file
                )
        except BaseException:
            self._leave(opened)
            raise
        receipt.add_done_callback(lambda _: self._leave(opened))
        reply: Future[IngestReply] = Future()
        receipt.add_done_callback(lambda future: _pass_on(future, reply, self._reply))
        return reply

    def _leave(self, opened: _OpenRequests) -> None:
        with self._claiming:
            opened.count -= 1
            self._claiming.notify_all()

    def _reply(self, receipt: Receipt) -> IngestReply:
        return IngestReply(receipt.accepted, receipt.refused, self._token(receipt.end))

    def _token(self, end: Position) -> str:
        return make_token(self.stream.name, end)


@dataclass
class _OpenRequests:
    """The parser of requests, and the number of requests that are neither refused nor in the transport yet."""

    parser: BodyParser
    count: int = 0


def _digest(body: bytes | memoryview) -> str:
    """Detects another body under the same key. Not against forgery: a client with a key can send any events."""
    return "xxh3:" + xxhash.xxh3_128_hexdigest(body)


def _older_digest(body: bytes | memoryview) -> str:
    """The digest of requests that were stored before format 2 of the journal."""
    return hashlib.blake2b(body, digest_size=16).hexdigest()


def _pass_on(receipt: Future[Receipt], reply: Future[IngestReply], make_reply: Any) -> None:
    error = receipt.exception()
    if error is not None:
        reply.set_exception(error)
    else:
        reply.set_result(make_reply(receipt.result()))
