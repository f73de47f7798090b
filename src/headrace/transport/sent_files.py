"""The files that were sent to a stream, and how far: one small entry for each, which outlives the journal's records.

A piece of a file is accepted only if the stored mark of the file is the one where the piece begins: compare-and-set.
Only senders interpret marks; here they are compared. Each accepted piece is written in the journal's record of its
events, so that both are stored or neither is; before a journal file is deleted, all entries are written to a file of
their own.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import orjson

from headrace.disk import replace_file, sync
from headrace.errors import CorruptionError, StaleMarkError
from headrace.transport.position import Position

MOST_SAME = 10  # names that are returned for one content
_PATTERN = "sent-*.json"


@dataclass(frozen=True)
class FilePiece:
    """The part of a file that a request holds."""

    name: str
    mark: str  # of the file after this piece
    after: str = ""  # the mark that it must have before; empty: the first piece of a new content
    seen: int = 0  # without `after`: the version of the name that the sender has read
    first: str = ""  # identifies the file's first event
    start: bool = False  # the count of its events restarts with this piece

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Make an entry of a journal record or a request."""
        return cls(**{name: fields[name] for name in cls.__dataclass_fields__ if name in fields})

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Sent:
    """One content that was sent under a name: up to which mark, how many events, the end position of the last."""

    mark: str
    first: str
    events: int
    end: Position
    arrived_us: int

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Make an entry of a file that was written."""
        return cls(**{**fields, "end": Position.from_json(fields["end"])})

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "end": self.end.to_json()}


@dataclass
class _Name:
    """The contents that were sent under one name, by mark. The version changes with each piece."""

    version: int = 0
    contents: dict[str, Sent] = field(default_factory=dict)


class SentFiles:
    """The files of one stream. Safe for several threads."""

    def __init__(self) -> None:
        self._names: dict[str, _Name] = {}
        self._by_first: dict[str, set[str]] = {}
        self._changed = False  # since the entries were last written
        self._lock = threading.Lock()

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read what any process wrote to a folder."""
        files = cls()
        for path in sorted(folder.glob(_PATTERN)):
            try:
                for name, entry in orjson.loads(path.read_bytes())["files"].items():
                    if entry["version"] > files.version(name):
                        contents = [Sent.of(content) for content in entry["contents"]]
                        files._put(name, _Name(entry["version"], {content.mark: content for content in contents}))
            except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
                raise CorruptionError(
                    f"file '{path}' is damaged",
                    expected="the files that were sent to the stream, as JSON",
                    fix="restore it; if it is deleted, a file that was sent before counts again when it is sent again",
                ) from error
        return files

    def write(self, folder: Path, fence: int) -> None:
        """Write all entries to disk. The fence in the name separates it from the file of a process that took over."""
        with self._lock:
            if not self._changed:
                return
            names = {
                name: {"version": entry.version, "contents": [sent.as_dict() for sent in entry.contents.values()]}
                for name, entry in self._names.items()
            }
            self._changed = False
        path = folder / f"sent-{fence:08d}.json"
        try:
            replace_file(path, orjson.dumps({"files": names}), f"file '{path}' cannot be written")
            sync(folder)
        except BaseException:
            self._changed = True
            raise
        for other in folder.glob(_PATTERN):
            if other.name < path.name:
                other.unlink(missing_ok=True)

    def version(self, name: str) -> int:
        """Changes with each piece that is stored under the name; 0 if there is none."""
        with self._lock:
            entry = self._names.get(name)
            return entry.version if entry else 0

    def contents(self, name: str) -> list[Sent]:
        """The pieces that were sent under a name, the newest last."""
        with self._lock:
            entry = self._names.get(name)
            return sorted(entry.contents.values(), key=lambda sent: _version(sent.end)) if entry else []

    def beginning_with(self, first: str, but: str) -> list[tuple[str, Sent]]:
        """Some of what was sent under other names and begins with the same event."""
        with self._lock:
            names = sorted(self._by_first.get(first, set()) - {but})[:MOST_SAME]
            return [(name, sent) for name in names for sent in self._names[name].contents.values()]

    def check(self, piece: FilePiece) -> None:
        """Raise StaleMarkError for a piece that does not begin at the stored mark of its file."""
        with self._lock:
            entry = self._names.get(piece.name) or _Name()
            fits = piece.after in entry.contents if piece.after else piece.seen == entry.version
        if not fits:
            raise stale(piece.name)

    def note(self, piece: FilePiece, events: int, end: Position, arrived_us: int, version: int | None = None) -> None:
        """Store a piece whose record ends at this position. A piece that is stored already changes nothing.

        The version ascends with each piece of a name; it is the end, unless pieces without events end at the same one.
        """
        version = _version(end) if version is None else version
        with self._lock:
            entry = self._names.get(piece.name) or _Name()
            if version <= entry.version:
                return
            before = entry.contents.pop(piece.after, None)
            total = events if piece.start or before is None else before.events + events
            entry.contents[piece.mark] = Sent(piece.mark, piece.first, total, end, arrived_us)
            entry.version = version
            self._put(piece.name, entry)

    def _put(self, name: str, entry: _Name) -> None:
        self._changed = True
        self._names[name] = entry
        for sent in entry.contents.values():
            self._by_first.setdefault(sent.first, set()).add(name)


def _version(end: Position) -> int:
    """Ascends with each piece of a name: they are all in one partition, the only one in `end`."""
    return sum(end.offsets)


def stale(name: str) -> StaleMarkError:
    """The error for a piece that does not begin at the stored mark of its file."""
    return StaleMarkError(
        f"file '{name}': this part does not begin at the stored mark",
        fix="nothing of this request was stored; read the stored mark and continue from there",
    )
