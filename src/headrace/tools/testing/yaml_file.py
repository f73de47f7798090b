"""A YAML file as nodes with their places, values as they were written: 1.50 stays 1.50, and a time stays a text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import yaml

from headrace.errors import BadTestError, Location, did_you_mean

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a PyYAML without libyaml has only the slow one
_JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?", re.ASCII)
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_INTEGER = re.compile(r"[-+]?[0-9]+", re.ASCII)
_WORDS: dict[str, bool | None] = {"": None, "~": None, "true": True, "false": False}
_WORDS |= dict.fromkeys(("null", "Null", "NULL"))
_WORDS |= {"True": True, "TRUE": True, "False": False, "FALSE": False}
MERGE = "<<"
_CLOSING: dict[type[yaml.Token], type[yaml.Token]] = {
    yaml.FlowSequenceStartToken: yaml.FlowSequenceEndToken,
    yaml.FlowMappingStartToken: yaml.FlowMappingEndToken,
}


@dataclass(frozen=True)
class YamlFile:
    """The text of a file, and the name that messages give it."""

    name: str
    text: str

    def error(self, line: int, column: int, message: str, **parts: str | None) -> BadTestError:
        """A mistake at a place, with its line and a caret below."""
        lines = self.text.splitlines()
        written = lines[line - 1] if 0 < line <= len(lines) else ""
        column = min(column, len(written) + 1)
        excerpt = f"{written}\n{' ' * (column - 1)}^" if written.strip() else None
        return BadTestError(message, where=Location(self.name, line, column, excerpt), **parts)


@dataclass(frozen=True)
class YamlNode:
    """A value of the file."""

    source: YamlFile
    line: int
    column: int

    kind: ClassVar[str]

    @property
    def where(self) -> Location:
        """The place in the file."""
        return Location(self.source.name, self.line, self.column)

    def error(
        self, message: str, *, found: str | None = None, expected: str | None = None, fix: str | None = None
    ) -> BadTestError:
        """A mistake at its place."""
        return self.source.error(self.line, self.column, message, found=found, expected=expected, fix=fix)

    def literal(self) -> Any:
        """The value: None, bool, int, Decimal, str, list or dict. A time is a text."""
        raise NotImplementedError

    def json(self) -> str:
        """The value as JSON; numbers keep their digits."""
        raise NotImplementedError


@dataclass(frozen=True)
class Text(YamlNode):
    """A scalar. `plain`: it has no quotes, so it may be a number, a truth value or null."""

    kind = "text"

    value: str
    plain: bool
    block: tuple[int, int] | None = None  # lines of the file that a literal block (|) is in, closed-open, from 0

    @property
    def is_null(self) -> bool:
        """Return whether it says null."""
        return self.plain and self.value in _WORDS and _WORDS[self.value] is None

    def literal(self) -> Any:
        if not self.plain:
            return self.value
        if self.value in _WORDS:
            return _WORDS[self.value]
        if _INTEGER.fullmatch(self.value):
            return int(self.value)
        return Decimal(self.value) if _NUMBER.fullmatch(self.value) else self.value

    def json(self) -> str:
        if self.plain and _JSON_NUMBER.fullmatch(self.value):
            return self.value
        value = self.literal()
        if isinstance(value, Decimal):  # such as .5 and +1.5
            return format(value, "f")
        return json.dumps(value, ensure_ascii=False)


@dataclass(frozen=True)
class Items(YamlNode):
    """A list."""

    kind = "list"

    items: tuple[YamlNode, ...]

    def literal(self) -> list[Any]:
        return [item.literal() for item in self.items]

    def json(self) -> str:
        return f"[{','.join(item.json() for item in self.items)}]"


@dataclass(frozen=True)
class YamlFields(YamlNode):
    """A mapping from names to values."""

    kind = "mapping"

    names: Mapping[str, Text]  # each name where it is written
    values: Mapping[str, YamlNode]

    def literal(self) -> dict[str, Any]:
        return {name: value.literal() for name, value in self.values.items()}

    def json(self) -> str:
        return json_object(self.values)

    def check_names(self, of: str, known: Sequence[str]) -> None:
        """Raise for a name that is not one of these."""
        for name, node in self.names.items():
            if name not in known:
                hint = did_you_mean(name, known)
                raise node.error(f"{of} has no '{name}'", expected=", ".join(known), fix=hint)


def json_object(values: Mapping[str, YamlNode]) -> str:
    """A JSON object of these."""
    return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{v.json()}" for name, v in values.items()) + "}"


def read_document(path: Path, name: str) -> YamlNode | None:
    """The content of a file; None if it is empty. Raises BadTestError if it is not YAML."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadTestError(f"test file '{name}' cannot be read", found=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise BadTestError(f"test file '{name}' is not UTF-8", found=f"byte {error.start}") from error
    return parse_document(text, name)


def parse_document(text: str, name: str) -> YamlNode | None:
    """Read a document from a text."""
    source = YamlFile(name, text)
    try:
        root = yaml.compose(text, Loader=LOADER)
    except yaml.MarkedYAMLError as error:
        bracket = _unclosed_bracket(text)
        if bracket:
            line, column = bracket.line + 1, bracket.column + 1
            raise source.error(line, column, "not YAML: this bracket is not closed", fix="close it") from error
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        problem = " ".join(part for part in (error.problem, error.context) if part)
        raise source.error(line, column, f"not YAML: {problem}", fix=_yaml_hint(text, line)) from error
    except yaml.YAMLError as error:
        raise source.error(1, 1, f"not YAML: {str(error).splitlines()[0]}") from error
    return None if root is None else _Converter(source).convert(root)


def _unclosed_bracket(text: str) -> yaml.Mark | None:
    """The innermost [ or { that is open where another kind of bracket closes, or at the end of the text."""
    opened: list[yaml.Token] = []
    try:
        for token in yaml.scan(text, Loader=LOADER):
            if isinstance(token, tuple(_CLOSING)):
                opened.append(token)
            elif isinstance(token, tuple(_CLOSING.values())) and opened:
                if not isinstance(token, _CLOSING[type(opened[-1])]):
                    break
                opened.pop()
    except yaml.YAMLError:
        return None  # another mistake is reported first
    return opened[-1].start_mark if opened else None


def _yaml_hint(text: str, line: int) -> str | None:
    lines = text.splitlines()
    written = lines[line - 1] if line <= len(lines) else ""
    if "\t" in written[: len(written) - len(written.lstrip())]:
        return "indent with spaces, not tabs"
    if "\\ud" in written.lower():
        return "write a character that JSON escapes as two (\\ud83d\\ude00) as itself"
    return "a text with ': ' or ' #', or that begins with one of []{}&*!|>%@`, needs quotes"


class _Converter:
    """Converts PyYAML's nodes to ours."""

    def __init__(self, source: YamlFile) -> None:
        self._source = source
        self._open: set[int] = set()  # nodes around the current one: an alias may name one of them

    def convert(self, node: yaml.Node) -> YamlNode:
        place = (self._source, node.start_mark.line + 1, node.start_mark.column + 1)
        if isinstance(node, yaml.ScalarNode):
            block = (node.start_mark.line + 1, node.end_mark.line) if node.style == "|" else None
            return Text(*place, node.value, plain=not node.style, block=block)
        if id(node) in self._open:
            raise self._source.error(place[1], place[2], "a value contains itself", fix="remove that alias")
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.SequenceNode):
                return Items(*place, tuple(self.convert(item) for item in node.value))
            assert isinstance(node, yaml.MappingNode), "there are three kinds"
            return self._fields(place, node)
        finally:
            self._open.discard(id(node))

    def _fields(self, place: tuple[YamlFile, int, int], node: yaml.MappingNode) -> YamlFields:
        names: dict[str, Text] = {}
        values: dict[str, YamlNode] = {}
        merged: dict[str, tuple[Text, YamlNode]] = {}  # the fields of <<, which own ones hide
        for key_node, value_node in node.value:
            key = self.convert(key_node)
            if not isinstance(key, Text):
                raise key.error("a name is a text", found=f"a {key.kind}")
            if key.value == MERGE and key.plain:
                for fields in self._merged(value_node):
                    for name in fields.values:
                        merged.setdefault(name, (fields.names[name], fields.values[name]))
                continue
            if key.value in values:
                raise key.error(f"'{key.value}' is given twice", fix="remove one")
            names[key.value], values[key.value] = key, self.convert(value_node)
        own = {name: (names[name], values[name]) for name in values}
        pairs = {**merged, **own}
        return YamlFields(
            *place, {name: key for name, (key, _) in pairs.items()}, {name: value for name, (_, value) in pairs.items()}
        )

    def _merged(self, node: yaml.Node) -> Iterator[YamlFields]:
        value = self.convert(node)
        for each in value.items if isinstance(value, Items) else [value]:
            if not isinstance(each, YamlFields):
                raise each.error("<< takes a mapping", found=f"a {each.kind}")
            yield each
