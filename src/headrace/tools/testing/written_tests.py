"""Reads test files: their structure. Names of streams, views and columns are checked when a test runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

from headrace.errors import BadTestError, Location, did_you_mean
from headrace.tools.testing.yaml_file import Items, Text, YamlFields, YamlNode, parse_document, read_document


@dataclass(frozen=True)
class Tolerance:
    """The allowed distance of a number from the expected one: an amount, or a share of it."""

    amount: Decimal
    relative: bool = False


@dataclass(frozen=True)
class ExpectedLetter:
    """A dead letter: parts of its reason and, if given, of the event; and its stream."""

    reason: str
    event: str = ""
    stream: str | None = None

    def __str__(self) -> str:
        stream = f" of stream '{self.stream}'" if self.stream else ""
        event = f", event {self.event!r}" if self.event else ""
        return f"{self.reason!r}{event}{stream}"


@dataclass(frozen=True)
class Expected:
    """The expectations of a test. None: not checked, and then there must be no dead letter and no error."""

    rows: tuple[YamlFields, ...] | None = None
    ordered: bool = False  # rows have this order
    exact: bool = False  # rows have no other columns than the expected ones
    tolerance: Mapping[str, Tolerance] | None = None  # by column; "" is every column
    dead_letters: tuple[ExpectedLetter, ...] | None = None
    corrections: int | None = None
    errors: tuple[str, ...] | None = None  # parts of the errors of the definitions or the question
    changes: Mapping[str, Text] | None = None  # what `plan` says of streams and views

    def tolerance_of(self, column: str) -> Tolerance | None:
        """The tolerance of a column, if one is given."""
        by_column = self.tolerance or {}
        return by_column.get(column, by_column.get(""))


@dataclass(frozen=True)
class DefinitionTest:
    """A test of a file."""

    name: str
    where: Location
    events: Mapping[str, tuple[Text, YamlNode]]  # given, by stream: its name where it is written, and its events
    ask: YamlFields | Text | None
    definitions: Text | None  # SQL that is added to the definitions folder
    expected: Expected

    @property
    def id(self) -> str:
        """The name that it is selected by: its file and its name."""
        return f"{self.where.file}::{self.name}"


SUFFIXES = (".yaml", ".yml")
TEST = ("name", "given", "ask", "definitions", "expect")
EXPECT = ("rows", "ordered", "exact", "tolerance", "dead_letters", "corrections", "errors", "changes")
CHANGES = ("create", "free", "build", "drop", "refused", "none")  # what may happen to a stream or view
EXAMPLE = "- name, given, ask and expect; docs/testing.md has examples"


def find_test_files(folder: Path) -> list[Path]:
    """The test files of a folder, at any depth, sorted."""
    return sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())


def read_file(path: Path, name: str) -> tuple[list[DefinitionTest], list[BadTestError]]:
    """The tests of a file, and its mistakes; `name` is what messages call the file."""
    try:
        return _read_root(read_document(path, name))
    except BadTestError as error:
        return [], [error]


def read_text(text: str, name: str = "<yaml>") -> tuple[list[DefinitionTest], list[BadTestError]]:
    """Read a document from a text."""
    try:
        return _read_root(parse_document(text, name))
    except BadTestError as error:
        return [], [error]


def _read_root(root: YamlNode | None) -> tuple[list[DefinitionTest], list[BadTestError]]:
    if root is None or (isinstance(root, Text) and root.is_null):
        return [], []
    if isinstance(root, YamlFields) and set(root.values) == {"tests"}:
        root = root.values["tests"]
    if not isinstance(root, Items):
        raise root.error("a test file is a list of tests", found=f"a {root.kind}", expected=EXAMPLE)
    tests: dict[str, DefinitionTest] = {}
    errors: list[BadTestError] = []
    for node in root.items:
        try:
            test = _read_test(node)
            if test.name in tests:
                first = tests[test.name].where
                raise node.error(f"two tests have the name '{test.name}'", found=f"the other at {first}")
            tests[test.name] = test
        except BadTestError as error:
            errors.append(error)
    return list(tests.values()), errors


def _read_test(node: YamlNode) -> DefinitionTest:
    test = _fields(node, "a test")
    test.check_names("a test", TEST)
    if "name" not in test.values:
        raise test.error("a test has no name", fix="add name: …, which says what holds")
    name = _text(test.values["name"], "the name of a test")
    if "expect" not in test.values:
        raise test.error(f"test '{name}' expects nothing", fix=f"add expect: with one of {', '.join(EXPECT)}")
    events: dict[str, tuple[Text, YamlNode]] = {}
    if "given" in test.values:
        streams = _fields(test.values["given"], "given", "events by stream, such as {visits: [{…}]}")
        events = {stream: (streams.names[stream], value) for stream, value in streams.values.items()}
    ask = test.values.get("ask")
    if ask is not None and not isinstance(ask, YamlFields | Text):
        raise ask.error("a test has one query", found=f"a {ask.kind}", expected="such as {view: traffic}")
    definitions = test.values.get("definitions")
    if definitions is not None and not isinstance(definitions, Text):
        raise definitions.error("definitions are SQL", found=f"a {definitions.kind}", expected="a text, after |")
    expected = _read_expected(test.values["expect"])
    _check_whole(test, ask, expected)
    return DefinitionTest(name, test.where, events, ask, definitions, expected)


def _check_whole(test: YamlFields, ask: YamlNode | None, expected: Expected) -> None:
    of_question = expected.rows is not None or expected.corrections is not None
    if of_question and ask is None:
        raise test.names["expect"].error("rows and corrections need a query", fix="add ask: {view: …}")
    if ask is not None and not of_question and expected.errors is None:
        raise test.names["ask"].error("nothing is expected of the query", fix="add rows: to expect")
    if expected.changes is not None and "definitions" not in test.values:
        raise test.names["expect"].error("changes are those of a plan", fix="add definitions: with the changed SQL")


def _read_expected(node: YamlNode) -> Expected:
    if isinstance(node, Items):
        return Expected(rows=_rows(node))
    fields = _fields(node, "expect")
    fields.check_names("expect", EXPECT)
    if not fields.values:
        raise node.error("nothing is expected", expected=f"one of {', '.join(EXPECT)}")
    values = fields.values
    return Expected(
        rows=_rows(values["rows"]) if "rows" in values else None,
        ordered=_flag(values["ordered"]) if "ordered" in values else False,
        exact=_flag(values["exact"]) if "exact" in values else False,
        tolerance=_tolerances(values["tolerance"]) if "tolerance" in values else None,
        dead_letters=tuple(map(_letter, _items(values["dead_letters"]))) if "dead_letters" in values else None,
        corrections=_count(values["corrections"]) if "corrections" in values else None,
        errors=tuple(_text(item, "an error") for item in _items(values["errors"])) if "errors" in values else None,
        changes=_changes(values["changes"]) if "changes" in values else None,
    )


def _rows(node: YamlNode) -> tuple[YamlFields, ...]:
    if not isinstance(node, Items):
        raise node.error("rows are a list", found=f"a {node.kind}", expected="such as [{page: /home, hits: 2}]")
    return tuple(_fields(item, "a row", "a value for each column") for item in node.items)


def _letter(node: YamlNode) -> ExpectedLetter:
    if isinstance(node, Text):
        return ExpectedLetter(node.value)
    fields = _fields(node, "a dead letter", "a part of its reason")
    fields.check_names("a dead letter", ("reason", "event", "stream"))
    parts = {name: _text(value, f"the {name} of a dead letter") for name, value in fields.values.items()}
    return ExpectedLetter(parts.get("reason", ""), parts.get("event", ""), parts.get("stream"))


def _changes(node: YamlNode) -> dict[str, Text]:
    changes: dict[str, Text] = {}
    for name, value in _fields(node, "changes", "such as {traffic: free}").values.items():
        if not isinstance(value, Text) or value.value not in CHANGES:
            word = value.value if isinstance(value, Text) else f"a {value.kind}"
            raise value.error(
                "the value is not a change", found=word, expected=", ".join(CHANGES), fix=did_you_mean(word, CHANGES)
            )
        changes[name] = value
    return changes


def _tolerances(node: YamlNode) -> dict[str, Tolerance]:
    if isinstance(node, Text):
        return {"": _tolerance(node)}
    return {name: _tolerance(value) for name, value in _fields(node, "tolerance").values.items()}


def _tolerance(node: YamlNode) -> Tolerance:
    text = _text(node, "a tolerance").strip()
    try:
        amount = Decimal(text.removesuffix("%").strip())
        if not amount >= 0:
            raise InvalidOperation
    except InvalidOperation:
        raise node.error("the value is not a tolerance", found=repr(text), expected="such as 0.01 or 2%") from None
    return Tolerance(amount / 100, relative=True) if text.endswith("%") else Tolerance(amount)


def _flag(node: YamlNode) -> bool:
    value = node.literal()
    if not isinstance(value, bool):
        raise node.error("the value is not a boolean", found=repr(value), expected="true or false")
    return value


def _count(node: YamlNode) -> int:
    value = node.literal()
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise node.error("the value is not a number of events", found=repr(value), expected="a whole number")
    return value


def _items(node: YamlNode) -> tuple[YamlNode, ...]:
    """The items of a list; a single text is a list of itself, and null an empty one."""
    if isinstance(node, Items):
        return node.items
    return () if isinstance(node, Text) and node.is_null else (node,)


def _fields(node: YamlNode, what: str, expected: str | None = None) -> YamlFields:
    if not isinstance(node, YamlFields):
        raise node.error(f"{what} is a mapping", found=f"a {node.kind}", expected=expected)
    return node


def _text(node: YamlNode, what: str) -> str:
    if not isinstance(node, Text) or not node.value:
        raise node.error(f"{what} is a text", found="nothing" if isinstance(node, Text) else f"a {node.kind}")
    return node.value
