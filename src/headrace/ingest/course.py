"""How far the stream has a file: what a sender learns before its first piece, and keeps up to date."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.errors import ChangedFileError
from headrace.format import plural
from headrace.ingest.content import Mark, Match
from headrace.ingest.files import Resumable
from headrace.ingest.receiver import SameContent, SentContent
from headrace.transport.sent import FilePiece


@dataclass
class Course:
    """How much of the current file the stream has."""

    name: str
    after: str  # its stored mark; empty before the first piece of a new content
    version: int
    first: str
    start: bool  # the count of its events restarts
    lines: int = 0  # that need not be sent
    before: int = 0  # events that were stored before this run
    token: str = ""
    nothing_new: bool = False

    def piece(self, mark: Mark) -> FilePiece:
        """What is recorded with the events up to a mark."""
        return FilePiece(self.name, str(mark), self.after, self.version, self.first, self.start)


def continued(name: str, content: SentContent | SameContent, match: Match, version: int) -> Course:
    """The course of a file whose content was sent up to a mark."""
    return Course(
        name,
        content.mark,
        version,
        content.first,
        start=False,
        lines=match.lines,
        before=content.events,
        token=content.token,
        nothing_new=match.nothing_new,
    )


def changed(file: Resumable, earlier: SentContent) -> ChangedFileError:
    """The error for a file whose sent part has changed."""
    return ChangedFileError(
        f"file '{file.label}' has changed since {plural(earlier.events, 'event')} of it were sent",
        found="different content in the part that was already sent",
        expected="the same content, with new events at the end",
        fix="send new events in a file of their own; to send all of this one as well: `--again` with this file",
    )
