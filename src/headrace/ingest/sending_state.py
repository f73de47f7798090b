"""The state of the stream for a file: what a sender learns before its first piece, and keeps up to date."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from headrace.errors import ChangedFileError
from headrace.format import plural
from headrace.ingest.file_marks import Mark, MarkMatch
from headrace.ingest.input_files import Resumable
from headrace.ingest.receiver import SameContent, SentContent, SentStatus
from headrace.transport.sent_files import FilePiece


@dataclass
class SentPart:
    """The part of the current file that the stream has."""

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
        """The record that is stored with the events up to a mark."""
        return FilePiece(self.name, str(mark), self.after, self.version, self.first, self.start)


def find_sent_part(
    file: Resumable, first: str, standing: SentStatus, note: Callable[[str], None], *, again: bool, renames: bool
) -> SentPart:
    """Find where to continue a named file, whose first event has this hash; ChangedFileError if that is impossible.

    `again`: from its start. `renames`: under the name that it had before, if it was renamed.
    """
    assert file.name is not None
    version, contents = standing.version, standing.contents
    by_mark = {mark: content for content in contents if (mark := Mark.read(content.mark))}
    match = file.match(by_mark)
    if again:
        content = by_mark[match.mark] if match else contents[-1] if contents else None
        return SentPart(file.name, content.mark if content else "", version, first, start=True)
    if match:
        if match.line_grew:
            note(f"'{file.label}': its last line was incomplete when it was sent; the complete line is sent now")
        return _continued(file.name, by_mark[match.mark], match, version)
    renamed = _renamed(file, standing.same, note) if renames else None
    if renamed:
        return renamed
    earlier = next((content for content in reversed(contents) if first and content.first == first), None)
    if earlier:
        raise _changed(file, earlier)
    if contents:
        events = plural(sum(content.events for content in contents), "event")
        difference = f"'{file.label}' is not the file that was sent under this name before ({events})"
        note(f"{difference}: it is sent as a new file")
    _hint_same(file, standing.same, note)
    return SentPart(file.name, "", version, first, start=True)


def _renamed(file: Resumable, same: Iterable[SameContent], note: Callable[[str], None]) -> SentPart | None:
    """The state of the file that this one was before it got another name; None if it is another file.

    A file that ends where the other one did and was written after that is another one with the same content.
    """
    marks = [(mark, content) for content in same if (mark := Mark.read(content.mark))]
    match = file.match(mark for mark, _ in marks)
    if match is None:
        return None
    alike = (content for mark, content in reversed(marks) if mark == match.mark)  # files may have the same content
    other = next((content for content in alike if not file.is_still(content.name, match.mark)), None)
    if other is None:
        return None
    written_s = file.written_s()
    if match.at_end and (written_s is None or written_s > datetime.fromisoformat(other.arrived).timestamp()):
        return None
    note(f"'{file.label}' was sent as '{other.name}' before it was renamed: its new events are sent")
    return _continued(other.name, other, match, 0)


def _hint_same(file: Resumable, same: Iterable[SameContent], note: Callable[[str], None]) -> None:
    by_mark = {mark: content for content in same if (mark := Mark.read(content.mark))}
    match = file.match(by_mark)
    if match:
        other = by_mark[match.mark]
        overlap = f"'{file.label}' begins with what was sent as '{other.name}' ({plural(other.events, 'event')})"
        note(f"{overlap}: under another name its events count again")


def _continued(name: str, content: SentContent | SameContent, match: MarkMatch, version: int) -> SentPart:
    """The state of a file whose content was sent up to a mark."""
    return SentPart(
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


def _changed(file: Resumable, earlier: SentContent) -> ChangedFileError:
    """The error for a file whose sent part has changed."""
    return ChangedFileError(
        f"file '{file.label}' has changed since {plural(earlier.events, 'event')} of it were sent",
        found="different content in the part that was already sent",
        expected="the same content, with new events at the end",
        fix="send new events in a file of their own; to send all of this one as well: `--again` with this file",
    )
