"""Splits definition text into tokens with their offsets; drops comments."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from headrace.errors import DefinitionError, Location

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
class Source:
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


def tokenize(source: Source, unreadable: list[DefinitionError] | None = None) -> list[Token]:
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


def _token(source: Source, kind: str, text: str, start: int) -> Token:
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


def _unescape(source: Source, start: int, body: str) -> str:
    def replace(match: re.Match[str]) -> str:
        short, long, octal, letter = match.groups()
        if short or long:
            return chr(int(short or long, 16)) if int(short or long, 16) < 0x110000 else "\ufffd"
        if octal:
            return chr(int(octal, 8))
        return "'" if letter is None else _ESCAPES.get(letter, letter)

    value = _ESCAPE.sub(replace, body)
    if "\0" in value or any(0xD800 <= ord(c) < 0xE000 for c in value):
        raise source.error(start, "a text holds a NUL or half of a surrogate pair", fix="remove that character")
    return value


def _end_of_comment(source: Source, start: int) -> int:
    depth, offset = 0, start
    for match in re.compile(r"/\*|\*/").finditer(source.text, start):
        depth += 1 if match.group() == "/*" else -1
        offset = match.end()
        if depth == 0:
            return offset
    raise source.error(start, "a comment is not closed", expected="*/")


def _not_closed(source: Source, offset: int, mark: str) -> DefinitionError:
    return source.error(offset, "a quote is not closed", expected=f"a closing {mark}")


def _unreadable(source: Source, offset: int) -> DefinitionError:
    char = source.text[offset]
    if source.text.startswith("&&", offset):
        return source.error(offset, "&& is not supported", write="AND", end=offset + 2)
    if char in "'`\"":
        return _not_closed(source, offset, char)
    return source.error(offset, f"the character {char!r} is not allowed here", fix="remove it")
