"""A folder that is watched: new files are sent, and what is appended to files of lines.

The stream knows how far each file was sent, so a new run continues where the last one stopped.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from headrace.errors import HeadraceError, IngestError, OverloadError, StaleMarkError, UnavailableError, UsageError
from headrace.ingest.formats.byte_source import LOOK_BYTES, compression_of
from headrace.ingest.formats.format_detection import FileLayout, Format, check_format, format_of
from headrace.ingest.growing_file import GrowingFile
from headrace.ingest.input_files import Piece, SourceFile, is_sendable
from headrace.ingest.receiver import merge_tokens
from headrace.ingest.sending import Sending, SendReply

POLL_S = 0.2
QUIET_S = 1.0  # a file that is not one of lines is sent when it has not been written to for so long
LAST_LINE_S = 10.0  # a last line of text without a line end is complete then
CLOSE_S = 60.0  # a file of lines is closed then; it is opened again when it grows
MOST_OPEN = 200
PAUSE_S = 1.0


@dataclass(frozen=True)
class Signature:
    """The facts of a file that change when it does."""

    device: int
    inode: int
    size: int
    written_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Signature:
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)

    @property
    def quiet_s(self) -> float:
        """The time since it was written; a time in the future counts as long ago."""
        age_s = time.time() - self.written_ns / 1e9
        return age_s if age_s >= 0 else CLOSE_S


@dataclass
class _Open:
    """A file of lines that may grow, and the sending of it."""

    growing: GrowingFile
    sending: Sending
    format: Format


class FolderWatch:
    """A folder. `step` sends what is new in it."""

    def __init__(
        self,
        sending: Sending,
        folder: Path,
        pattern: str | None,
        layout: FileLayout,
        stopping: threading.Event,
        say: Callable[[str], None],
    ) -> None:
        if not folder.is_dir():
            what = "is not a folder" if folder.exists() else "does not exist"
            raise IngestError(f"folder '{folder}' {what}", expected="a folder to watch", fix="nothing was sent")
        if pattern is not None and (not pattern or pattern.startswith("/") or ".." in pattern.split("/")):
            raise UsageError(f"pattern '{pattern}' is not one of names in a folder", expected="such as '*.json'")
        self._first = sending
        self._folder, self._pattern, self._layout = folder, pattern, layout
        self._stopping = stopping
        self._say = say
        self._done: dict[Path, Signature] = {}  # nothing remains to be sent of the file as it was then
        self._open: dict[Path, _Open] = {}
        self._reply = SendReply(0, [], "")
        self._missing = False  # the folder

    @property
    def reply(self) -> SendReply:
        """The events that are stored so far."""
        reply = self._reply
        for opened in self._open.values():
            reply = _plus(reply, opened.sending.reply)
        return reply

    def run(self) -> None:
        """Send what is in the folder and what arrives, until `stopping` is set."""
        try:
            while not self._stopping.is_set():
                began = time.monotonic()
                self.step()
                self._stopping.wait(max(POLL_S, 4 * (time.monotonic() - began)))
        finally:
            self.close()

    def close(self) -> None:
        """Close all files."""
        for path in list(self._open):
            self._close(path)

    def step(self) -> None:
        """Send what is new in each file."""
        files = self._scan()
        for path in list(self._open):
            self._guarded(path, files.get(path), self._read_on)
        new = [
            path for path, signature in files.items() if path not in self._open and self._done.get(path) != signature
        ]
        for path in sorted(new, key=lambda path: (files[path].written_ns, path)):
            if self._stopping.is_set():
                return
            self._guarded(path, files[path], self._begin)
        for path in [path for path in self._done if path not in files]:
            del self._done[path]

    def _scan(self) -> dict[Path, Signature]:
        files = {}
        for path in self._folder.rglob(self._pattern or "*"):
            with suppress(OSError):  # it has gone meanwhile
                if self._is_wanted(path):
                    files[path] = Signature.of(path.stat())
        if self._folder.is_dir() == self._missing:
            self._missing = not self._missing
            self._say(f"folder '{self._folder}' " + ("has gone; waiting for it" if self._missing else "is back"))
        return files

    def _is_wanted(self, path: Path) -> bool:
        if self._pattern is None:
            return is_sendable(path, self._folder)
        hidden = any(part.startswith(".") for part in path.relative_to(self._folder).parts)
        return path.is_file() and (not hidden or "/." in f"/{self._pattern}")

    def _guarded(self, path: Path, signature: Signature | None, work: Callable[[Path, Signature | None], None]) -> None:
        """An error of a file is reported; others are sent nevertheless. The file is tried again when it changes."""
        try:
            work(path, signature)
        except StaleMarkError as error:  # another process sends it, or it was renamed meanwhile
            self._close(path)
            self._first.wait_for_other(error)
        except FileNotFoundError:
            self._close(path)
        except (UnavailableError, OverloadError) as error:
            self._close(path)
            if not self._stopping.is_set():
                self._first.wait(error, PAUSE_S)
        except (IngestError, OSError) as error:
            self._close(path)
            if signature:
                self._done[path] = signature
            text = str(error) if isinstance(error, HeadraceError) else f"file '{path}' cannot be read: {error.strerror}"
            self._say(f"{text}; other files are sent")

    def _begin(self, path: Path, signature: Signature | None) -> None:
        assert signature is not None
        if signature.size == 0:
            self._done[path] = signature
            return
        format = self._lines_format(path)
        if format is None and signature.quiet_s < QUIET_S:
            return  # it may still be written
        file = SourceFile(path, self._first.declared, replace(self._layout, format=format or self._layout.format))
        sending = self._first.sibling()
        if format is None:
            try:
                self._send(sending, file.pieces(sending.begin(file)))
            finally:
                if self._stopping.is_set():
                    sending.stop()
                self._reply = _plus(self._reply, sending.reply)
            if not self._stopping.is_set():
                self._done[path] = signature
            return
        skip = sending.begin(file)
        self._open[path] = _Open(GrowingFile(path, skip), sending, format)
        self._read_on(path, signature)

    def _read_on(self, path: Path, signature: Signature | None) -> None:
        """Send the lines that were appended; close a file that has gone, or has not grown for long."""
        opened = self._open[path]
        if self._send(opened.sending, opened.growing.pieces()) or self._stopping.is_set():
            return
        if signature is None:
            self._send_last(opened)
            self._close(path)
        elif opened.growing.rest and self._is_complete(opened, signature):
            self._send_last(opened)
            self._close(path)
            self._done[path] = signature
        elif signature.quiet_s >= CLOSE_S or len(self._open) > MOST_OPEN:
            self._close(path)
            self._done[path] = signature

    def _send(self, sending: Sending, pieces: Iterator[Piece | None]) -> bool:
        """Send pieces; whether there was one."""
        some = False
        for piece in pieces:
            if self._stopping.is_set():
                break
            some = True
            if piece is None:
                sending.restart()
            else:
                sending.add(piece)
                sending.finish()
        return some

    def _send_last(self, opened: _Open) -> None:
        last = opened.growing.last()
        if last:
            opened.sending.add(last)
            opened.sending.finish()

    def _is_complete(self, opened: _Open, signature: Signature) -> bool:
        """Return whether a last line without a line end is complete: valid JSON is, text is after a while."""
        if opened.format is Format.TEXT:
            return signature.quiet_s >= LAST_LINE_S
        if signature.quiet_s < QUIET_S:
            return False
        try:
            orjson.loads(opened.growing.rest)
        except orjson.JSONDecodeError:
            return False
        return True

    def _close(self, path: Path) -> None:
        opened = self._open.pop(path, None)
        if opened:
            opened.growing.close()
            if self._stopping.is_set():
                opened.sending.stop()
            self._reply = _plus(self._reply, opened.sending.reply)

    def _lines_format(self, path: Path) -> Format | None:
        """The format of a file of lines, which may grow; None for others, which are sent when they are complete."""
        declared = self._first.declared
        with path.open("rb") as file:
            head = file.read(LOOK_BYTES)
        if compression_of(head[:4]):
            return None
        format = self._layout.format or format_of(path.name, head, declared.format, declared.types)
        if format is Format.JSON and self._layout.format is None and _is_object(head.partition(b"\n")[0]):
            format = Format.NDJSON  # it has one line so far
        check_format(declared.stream, declared.format, format)
        return format if format in (Format.NDJSON, Format.TEXT) else None


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


def _plus(reply: SendReply, other: SendReply) -> SendReply:
    return SendReply(
        reply.accepted + other.accepted,
        [],
        merge_tokens(reply.token, other.token),
        reply.already_sent + other.already_sent,
        (*reply.notes, *(note for note in other.notes if note not in reply.notes)),
    )
