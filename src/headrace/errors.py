"""All errors that a user sees: message, found, expected, fix.

CLI, HTTP and logging print the same sentence, made by `str(error)`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from headrace.name_encoding import shell

SEND_AGAIN = "nothing of this request was stored; send it again"  # a fix


@dataclass(frozen=True)
class Location:
    """A place in a definition file; line and column count from 1."""

    file: str
    line: int
    column: int
    excerpt: str | None = field(default=None, compare=False, repr=False)  # the line, and a caret under the column

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class HeadraceError(Exception):
    """An error with a stable code and a message that says what to do."""

    code: ClassVar[str] = "error"
    http_status: ClassVar[int] = 400
    exit_code: ClassVar[int] = 1
    retry_after_s: float | None = None  # when a retry may succeed, if that is known

    def __init__(
        self,
        message: str,
        *,
        found: str | None = None,
        expected: str | None = None,
        fix: str | None = None,
        where: Location | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.found = found
        self.expected = expected
        self.fix = fix
        self.where = where

    def __str__(self) -> str:
        parts = [self.message]
        if self.found:
            parts.append(f"found {self.found}")
        if self.expected:
            parts.append(f"expected {self.expected}")
        if self.fix:
            parts.append(self.fix)
        sentence = "; ".join(parts)
        return f"{self.where}: {sentence}" if self.where else sentence

    def as_dict(self) -> dict[str, Any]:
        """The error as HTTP and `--json` show it."""
        return {
            "code": self.code,
            "message": self.message,
            "found": self.found,
            "expected": self.expected,
            "fix": self.fix,
            "where": str(self.where) if self.where else None,
        }


class UsageError(HeadraceError):
    """A command line is invalid, whatever the workspace contains."""

    code = "usage"
    exit_code = 2


class DefinitionError(HeadraceError):
    """The declaration of a stream or view has an error."""

    code = "definition"
    exit_code = 2
    write: str | None = None  # what to write instead of a part of the text, whose offsets are `replaces`
    replaces: tuple[int, int] | None = None
    of: str | None = None  # the name of the stream or view that could not be read

    @property
    def excerpt(self) -> str | None:
        """The line of the mistake with a caret under its place, if the line is known."""
        return self.where.excerpt if self.where else None

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "write": self.write, "excerpt": self.excerpt}


class DefinitionErrors(DefinitionError):
    """Several errors in definitions, each with its place."""

    def __init__(self, errors: list[DefinitionError]) -> None:
        super().__init__("\n".join(str(e) for e in errors))
        self.errors = errors

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "errors": [e.as_dict() for e in self.errors]}


class BadTestError(HeadraceError):
    """A test file of `headrace test` has a mistake."""

    code = "test"
    exit_code = 2

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "excerpt": self.where.excerpt if self.where else None}


class QuestionError(HeadraceError):
    """A question to a view is invalid."""

    code = "question"
    exit_code = 2


class QuestionLimitError(QuestionError):
    """A question to a view was stopped: it takes longer than the setting `question_timeout_s`."""

    code = "question_limit"
    exit_code = 1  # it may succeed at another time, or with other settings


class SqlError(HeadraceError):
    """A query in SQL is refused or fails."""

    code = "sql"
    exit_code = 2


class SqlLimitError(SqlError):
    """A query in SQL was stopped: it needs more time or memory than its limit."""

    code = "sql_limit"
    exit_code = 1  # it may succeed at another time, or with other settings


class NotFoundError(HeadraceError):
    """A stream, view or token does not exist."""

    code = "not_found"
    http_status = 404


class NotReadyError(HeadraceError):
    """The thing exists but is not ready yet."""

    code = "not_ready"
    http_status = 503


class StartingError(NotReadyError):
    """The request needs Spark, which is starting; retry in some seconds."""

    code = "spark_starting"


class IngestError(HeadraceError):
    """A request with events cannot be read at all."""

    code = "ingest"


class ChangedFileError(IngestError):
    """A file that was sent before has changed, though it begins with the same event."""

    code = "changed_file"


class InterruptedSendError(HeadraceError):
    """Ctrl-C while files were sent; says how many events are stored and how to continue."""

    code = "interrupted"
    exit_code = 130


class ConflictError(HeadraceError):
    """The request contradicts an earlier one."""

    code = "conflict"
    http_status = 409


class StaleMarkError(ConflictError):
    """A piece of a file does not begin where the last one ended; another process may be sending the file too."""

    code = "stale_mark"


class TooLargeError(HeadraceError):
    """The body of a request is larger than the setting allows."""

    code = "too_large"
    http_status = 413


class OverloadError(HeadraceError):
    """The server is overloaded; nothing of this request was stored."""

    code = "overload"
    http_status = 429


class DiskFullError(HeadraceError):
    """The disk is full; acknowledged events are safe, and nothing of this request was stored."""

    code = "disk_full"
    http_status = 507


class WorkspaceError(HeadraceError):
    """A problem with the workspace folder, its settings or its lease."""

    code = "workspace"


class SecretError(HeadraceError):
    """A secret that a definition refers to cannot be read; only its name is given, never its value."""

    code = "secret"
    http_status = 503


class HeldError(WorkspaceError):
    """Another process has a file of the workspace open."""


class InUseError(WorkspaceError):
    """Another process has the workspace."""


class FencedError(HeadraceError):
    """Another process has taken over; this one must stop without writing."""

    code = "fenced"
    exit_code = 3


class CorruptionError(HeadraceError):
    """A data file is damaged; its content is not guessed."""

    code = "corruption"
    http_status = 500


class NewerFormatError(CorruptionError):
    """Data has a format that only a newer Headrace reads; nothing was changed."""

    code = "newer_format"


class MachineError(HeadraceError):
    """Java, Python or the network of this machine does not meet the requirements."""

    code = "environment"


class UnavailableError(HeadraceError):
    """The server cannot be reached or cannot write at the moment."""

    code = "unavailable"
    http_status = 503


class JavaEndedError(UnavailableError):
    """Java ended during a job; it is restarted automatically."""


class LostFileError(UnavailableError):
    """A file that a Spark task wrote is not there, or differs from its report; nothing of the job was applied."""


class HttpError(HeadraceError):
    """An error of HTTP requests only."""


class BadRequestError(HttpError):
    """A header of the request is not well-formed."""

    code = "bad_request"
    http_status = 400


class UnsupportedError(HttpError):
    """The content type or encoding of the body is not supported."""

    code = "unsupported"
    http_status = 415


class SlowError(HttpError):
    """A request does not arrive, or too slowly; nothing of it was stored."""

    code = "too_slow"
    http_status = 408


class HeaderError(HttpError):
    """The headers of a request are too long."""

    code = "headers_too_long"
    http_status = 431


class UnauthorizedError(HttpError):
    """The bearer token is missing or wrong."""

    code = "unauthorized"
    http_status = 401


class ForbiddenError(HttpError):
    """A web page of another site sends a request to a server without a token, or uses an unknown host name."""

    code = "forbidden"
    http_status = 403


class RouteError(HttpError):
    """No endpoint has this path."""

    code = "no_such_path"
    http_status = 404


class MethodError(HttpError):
    """The endpoint does not support this method."""

    code = "method_not_allowed"
    http_status = 405


class RequestError(HttpError):
    """A parameter or the body of a request is invalid."""

    code = "request"
    http_status = 422


class InternalError(HttpError):
    """An internal error; the log has the stack trace."""

    code = "internal"
    http_status = 500


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """An error and all its causes, each once."""
    ids: set[int] = set()
    while error is not None and id(error) not in ids:
        ids.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def nearest(name: str, names: Iterable[str], least: float = 0.6) -> str | None:
    """The most similar of these names, in any case of letters, if one is similar."""
    spellings = {each.lower(): each for each in names}
    near = difflib.get_close_matches(name.lower(), list(spellings), n=1, cutoff=least)
    return spellings[near[0]] if near else None


def did_you_mean(name: str, names: Iterable[str]) -> str | None:
    """A hint with the most similar of these names, if one is similar."""
    near = nearest(name, names)
    return f"did you mean '{near}'?" if near else None


def unknown(kind: str, name: str, known: Iterable[str]) -> NotFoundError:
    """The error for a stream, view or table that is none of those known."""
    hints = (did_you_mean(name, known), f"`headrace {kind}s` lists all")
    return NotFoundError(f"{kind} '{name}' does not exist", fix=" ".join(filter(None, hints)))


def not_a_view(stream: str) -> NotFoundError:
    """The error for a question to a stream."""
    return NotFoundError(
        f"'{stream}' is a stream, and only views and tables can be queried",
        fix=f"`headrace tail {shell(stream)}` shows its events; CREATE MATERIALIZED VIEW … AS SELECT … aggregates them",
    )


def not_a_table(name: str, tables: Iterable[str], streams: Iterable[str]) -> NotFoundError:
    """The error for rows of what is no table."""
    if name in set(streams):
        return NotFoundError(
            f"'{name}' is a stream, and only tables have rows that are replaced and deleted",
            fix=f"`headrace send {shell(name)}` adds events to it; CREATE TABLE … PRIMARY KEY declares a table",
        )
    return unknown("table", name, tables)


def no_own_log(stream: str, bases: Sequence[str]) -> NotFoundError:
    """The error for a request that needs the log of a stream that is derived from these."""
    return NotFoundError(
        f"stream '{stream}' has no log of its own: it is derived from {', '.join(bases)}",
        fix=f"name {' or '.join(bases)}",
    )


def not_a_stream(view: str) -> NotFoundError:
    """The error for a view where a stream is meant: it takes no events, and has none to list."""
    return NotFoundError(
        f"'{view}' is a view, and only streams have events",
        fix=f"`headrace graph` shows the streams that it reads, `headrace ask {shell(view)}` its rows",
    )
