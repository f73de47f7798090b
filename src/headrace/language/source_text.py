"""A text of definitions with its places, its tokens, and the mistakes that are found in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace

from headrace.errors import DefinitionError, DefinitionErrors, Location
from headrace.secrets import without_passwords, without_secret_options

WORD, QUOTED, STRING, NUMBER, SYMBOL, END = "word", "name", "string", "number", "symbol", "end"
UNREADABLE = "unreadable"

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<comment>--[^\n]*)
  | (?P<block>/\*)
  | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?:[A-Za-z]+\b)?)
  | (?P<raw>[rR]'[^']*')
  | (?P<string>[eEnN]?'(?:[^'\\]|\\.|'')*')
  | (?P<name>`(?:[^`]|``)*`|"(?:[^"]|"")*")
  | (?P<word>[A-Za-z_]\w*)
  | (?P<symbol><=>|<>|<=|>=|!=|==|\|\||::|=>|->>|->|\#>>|\#>|!~\*|!~|~\*|[-+*/%=<>(),.;:!~\[\]])
    """,
    re.VERBOSE | re.DOTALL,
)
_SWALLOWED = re.compile(r";\s*\n\s*CREATE\s", re.IGNORECASE)  # a text with a next statement in it lacks its quote
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "0": "\0", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_ESCAPE = re.compile(r"''|\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})|\\([0-3][0-7]{2})|\\(.)", re.DOTALL)


@dataclass(frozen=True)
class SourceText:
    """Text with its place: a file, or a piece of SQL inside a Python file (then `at` is the place of all of it)."""

    text: str
    file: str = "<sql>"
    at: Location | None = None

    def locate(self, offset: int) -> Location:
        """The file, line and column of an offset of the text."""
        if self.at:
            return self.at
        before = self.text[:offset]
        return Location(self.file, before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)

    def error(
        self,
        offset: int,
        message: str,
        *,
        found: str | None = None,
        expected: str | None = None,
        fix: str | None = None,
        write: str | None = None,
        end: int | None = None,
        span: tuple[int, int] | None = None,
    ) -> DefinitionError:
        """A mistake at an offset of the text; `write` is what to write from there to `end`, or in `span`."""
        if self.at and self.text.strip():
            message = f"{message}, in {self.text.strip()!r}"
        fix = fix or (f"write {write}" if write else None)
        error = DefinitionError(message, found=found, expected=expected, fix=fix, where=self.locate(offset))
        if write:
            error.write, error.replaces = write, span or (end and (offset, end)) or None
        return error


@dataclass(frozen=True)
class Token:
    """One token: `text` is its value (unescaped) for names and strings, as written for the rest."""

    kind: str
    text: str
    start: int
    end: int
    error: DefinitionError | None = field(default=None, compare=False)  # of a piece that is not a token

    @property
    def upper(self) -> str:
        """The text of an unquoted word in capitals; empty for anything else, so that it equals no keyword."""
        return self.text.upper() if self.kind == WORD else ""

    def describe(self) -> str:
        """The token as an error message names it."""
        if self.kind == END:
            return "the end"
        return {STRING: f"the text '{self.text}'", NUMBER: f"the number {self.text}"}.get(self.kind, f"'{self.text}'")


def tokenize(source: SourceText, unreadable: list[DefinitionError] | None = None) -> list[Token]:
    """All tokens of the text, closed by an END token.

    Raises the first error; or collects all in `unreadable`, with a token in place of each unreadable piece.
    """
    text, tokens, offset = source.text, [], 0
    while offset < len(text):
        match = _TOKEN.match(text, offset)
        start = offset
        try:
            if match is None:
                raise _unreadable(source, offset)
            kind, token_text, offset = match.lastgroup or "", match.group(), match.end()
            if kind == "block":
                offset = _end_of_comment(source, start)
            elif kind not in ("space", "comment"):
                tokens.append(_token(source, kind, token_text, start))
        except DefinitionError as error:
            if unreadable is None:
                raise
            unreadable.append(error)
            offset = _end_of_unreadable(text, start)
            tokens.append(Token(UNREADABLE, text[start:offset], start, offset, error))
    return [*tokens, Token(END, "", len(text), len(text))]


def statement_at(source: SourceText, at: int) -> tuple[int, int]:
    """Find where the statement around an offset begins and ends, without its semicolon."""
    start = end = 0
    fresh = True
    for token in tokenize(source, []):
        if token.kind == END or (token.text == ";" and token.kind == "symbol"):
            if token.start >= at:
                break
            fresh = True
            continue
        start, fresh = (token.start, False) if fresh else (start, fresh)
        end = token.end
    return start, end


def _token(source: SourceText, kind: str, text: str, start: int) -> Token:
    end = start + len(text)
    if kind in ("string", "raw", "name") and _SWALLOWED.search(text):
        raise _not_closed(source, start, text.lstrip("rReEnN")[0])
    if kind == "string":
        return Token(STRING, _unescape(source, start, text[text.index("'") + 1 : -1]), start, end)
    if kind == "raw":
        return Token(STRING, text[2:-1], start, end)
    if kind == "name":
        mark = text[0]
        return Token(QUOTED, text[1:-1].replace(mark * 2, mark), start, end)
    return Token(kind, text, start, end)


def _end_of_unreadable(text: str, start: int) -> int:
    """Where to continue: after a character, or after a quote that is not closed at the end of its line or statement."""
    if text.startswith("/*", start):
        return len(text)
    if text.startswith("&&", start):
        return start + 2
    if text.startswith("$$", start):  # of PostgreSQL, around the body of a function
        closing = text.find("$$", start + 2)
        return len(text) if closing < 0 else closing + 2
    if text[start] not in "'`\"rReEnN":
        return start + 1
    ends = [end for end in (text.find(";", start), text.find("\n", start)) if end >= 0]
    return min(ends, default=len(text))


def escape(value: str) -> str:
    """A text as a Spark SQL literal that reads back as the same text."""
    for plain, escaped in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
        value = value.replace(plain, escaped)
    value = value.replace("${", "\\u0024{")  # Spark would put a variable there, even inside a literal
    return f"'{value}'"


def _unescape(source: SourceText, start: int, body: str) -> str:
    def replace(match: re.Match[str]) -> str:
        short, long, octal, letter = match.groups()
        if short or long:
            return chr(int(short or long, 16)) if int(short or long, 16) < 0x110000 else "\ufffd"
        if octal:
            return chr(int(octal, 8))
        return "'" if letter is None else _ESCAPES.get(letter, letter)

    value = _ESCAPE.sub(replace, body)
    if "\0" in value or any(0xD800 <= ord(c) < 0xE000 for c in value):
        raise source.error(start, "a text contains a NUL or half of a surrogate pair", fix="remove that character")
    return value


def _end_of_comment(source: SourceText, start: int) -> int:
    depth, offset = 0, start
    for match in re.compile(r"/\*|\*/").finditer(source.text, start):
        depth += 1 if match.group() == "/*" else -1
        offset = match.end()
        if depth == 0:
            return offset
    raise source.error(start, "a comment is not closed", expected="*/")


def _not_closed(source: SourceText, offset: int, mark: str) -> DefinitionError:
    return source.error(offset, "a quote is not closed", expected=f"a closing {mark}")


def _unreadable(source: SourceText, offset: int) -> DefinitionError:
    char = source.text[offset]
    if source.text.startswith("&&", offset):
        return source.error(offset, "&& is not supported", write="AND", end=offset + 2)
    if char in "'`\"":
        return _not_closed(source, offset, char)
    return source.error(offset, f"the character {char!r} is not allowed here", fix="remove it")


EXCERPT_WIDTH = 100  # characters of a line that are shown around a mistake


class FollowUpError(DefinitionError):
    """Something cannot be checked because of another mistake; only that one is reported."""


class Mistakes:
    """The mistakes collected so far."""

    def __init__(self, errors: Iterable[DefinitionError] = ()) -> None:
        self.errors = list(errors)

    def __bool__(self) -> bool:
        return bool(self.errors)

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Collect the mistakes of a block and continue after it."""
        try:
            yield
        except DefinitionError as error:
            self.errors += each(error)

    def check(self) -> None:
        """Raise what was collected, if anything was."""
        if self.errors:
            raise join(self.errors)


def each(error: DefinitionError) -> list[DefinitionError]:
    """The single mistakes of an error."""
    return error.errors if isinstance(error, DefinitionErrors) else [error]


def join(errors: list[DefinitionError]) -> DefinitionError:
    """One error for all of them, by place; the same mistake at the same place is reported once."""
    causes = [error for error in errors if not isinstance(error, FollowUpError)] or errors
    by_place = {(str(error.where), error.message): error for error in reversed(causes)}  # the first of each
    errors = sorted(by_place.values(), key=_place)
    return errors[0] if len(errors) == 1 else DefinitionErrors(errors)


@contextmanager
def placed(where: Location) -> Iterator[None]:
    """Set the place of mistakes that have none."""
    try:
        yield
    except DefinitionError as error:
        for one in each(error):
            one.where = one.where or where
        raise


def located(source: SourceText, at: int) -> AbstractContextManager[None]:
    """Set the place of mistakes that have none, to an offset of a text."""
    return placed(source.locate(at))


def quote_lines(error: DefinitionError, texts: Mapping[str, str]) -> DefinitionError:
    """The error, whose mistakes have the lines of these files; Python shows them below the message."""
    notes = []
    for one in each(error):
        one.message, one.found = without_passwords(one.message), one.found and without_passwords(one.found)
        if one.where and one.where.excerpt is None and one.where.file in texts:
            one.where = replace(one.where, excerpt=_excerpt(texts[one.where.file], one.where))
        if one.excerpt:
            notes.append(f"{one.where}\n{one.excerpt}")
    if notes and not getattr(error, "__notes__", None):
        error.add_note("\n".join(notes))
    return error


def _excerpt(text: str, where: Location) -> str:
    """A line of the text, cut to a readable length, and a caret under the column."""
    lines = text.split("\n")
    line = without_secret_options(lines[where.line - 1].rstrip("\r")) if where.line <= len(lines) else ""
    start = max(0, min(where.column - 1 - EXCERPT_WIDTH // 2, len(line) - EXCERPT_WIDTH))
    end = start + EXCERPT_WIDTH
    before, after = "…" * (start > 0), "…" * (end < len(line))
    excerpt = "".join(c if c.isprintable() else " " for c in line[start:end])
    gutter = f"{where.line} | "
    indent = " " * (len(before) + where.column - 1 - start)
    return f"{gutter}{before}{excerpt}{after}\n{'| ':>{len(gutter)}}{indent}^"


def _place(error: DefinitionError) -> tuple[str, int, int]:
    return (error.where.file, error.where.line, error.where.column) if error.where else ("", 0, 0)
