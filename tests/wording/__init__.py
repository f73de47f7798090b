"""The sentences of messages: tests assert class, place and values, the sentence itself is in a file of this folder.

There is one file for each folder of tests, and for each package below `tests/unit`. An entry belongs to a test by name,
so it stays when the test moves to another file of its folder. After a sentence was edited, `pytest --update-wording`
with the tests that meet it writes the files again: the difference of the files is what a reader of the messages sees.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

FOLDER = Path(__file__).parent
TESTS = FOLDER.parent
# Test with the numbers of its parameters, which sentence of it, and what it tries.
HEAD = re.compile(r"^= (test_\w+(?:\[[\d-]+\])?)(?: \d+)?(?: \| (.*))?\n", re.MULTILINE)
LONGEST = 100  # characters of what a test tries
PORT = re.compile(r"(?<=127\.0\.0\.1:)\d{4,}|(?<=localhost:)\d{4,}")
FEWER = "the sentences of this test in {} are more than it has checked; `pytest --update-wording` removes the others"

E = TypeVar("E", bound=BaseException)


def file_of(path: Path) -> Path:
    """The file with the sentences of the tests in this file of tests."""
    folder, *below = path.relative_to(TESTS).parts
    return FOLDER / folder / f"{below[0]}.txt" if folder == "unit" and len(below) > 1 else FOLDER / f"{folder}.txt"


@dataclass
class Entry:
    """The sentences of a test, and what it tries."""

    about: str = ""
    texts: list[str] = field(default_factory=list)


Entries = dict[str, Entry]  # by test


def read(file: Path) -> Entries:
    entries: Entries = {}
    _, *parts = HEAD.split(file.read_text()) if file.exists() else [""]
    for test, about, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        entries.setdefault(test, Entry(about or "")).texts.append(text.strip("\n"))
    return entries


def write(file: Path, entries: Entries) -> None:
    file.parent.mkdir(exist_ok=True)
    lines = []
    for test, entry in sorted(entries.items(), key=lambda pair: _in_order(pair[0])):
        for number, text in enumerate(entry.texts, 1):
            count = f" {number}" if len(entry.texts) > 1 else ""
            lines.append(f"= {test}{count}{entry.about and f' | {entry.about}'}\n{text}\n")
    if lines:
        file.write_text("\n".join(lines))
    else:
        file.unlink(missing_ok=True)


def _in_order(test: str) -> list[tuple[str, int]]:
    return [(name, int(number or 0)) for name, number in re.findall(r"([^\d]+)(\d*)", test)]


class Running:
    """The test that runs: its sentences in the file, and those that it has checked."""

    def __init__(self, item: pytest.Item, plugin: Plugin) -> None:
        self.file = file_of(item.path)
        self.name = name_of(item)
        self.about = about(item)
        self.known = plugin.entries(self.file).get(self.name, Entry()).texts
        self.checked: list[str] = []
        self.update = plugin.update
        folders: pytest.TempPathFactory = item.config._tmp_path_factory  # type: ignore[attr-defined]
        self._place = re.compile(rf"{re.escape(str(item.path))}(:\d+)*")
        self._folders = re.compile(rf"{re.escape(str(folders.getbasetemp()))}/[^/\s'\"`:;,)]+")

    def normal(self, text: object) -> str:
        """A text without what differs from run to run: temporary folders, ports, and places in the test itself."""
        lines = PORT.sub("PORT", self._folders.sub("TMP", self._place.sub("HERE", str(text)))).splitlines()
        return "\n".join(line.rstrip() for line in lines).strip("\n")

    def next(self) -> str:
        """The sentence that the file has for the next check."""
        return self.known[len(self.checked)] if len(self.checked) < len(self.known) else ""


class Plugin:
    """Follows which test runs, and writes the files again if asked."""

    def __init__(self, config: pytest.Config) -> None:
        self.update = bool(config.getoption("--update-wording"))
        self._files: dict[Path, Entries] = {}
        self._changed: dict[Path, Entries] = {}
        self._tests: dict[tuple[Path, str], str] = {}

    def entries(self, file: Path) -> Entries:
        if file not in self._files:
            self._files[file] = read(file)
        return self._files[file]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        global _running
        _running = running = Running(item, self)
        try:
            result = yield
        finally:
            _running = None
        if running.checked:
            other = self._tests.setdefault((running.file, running.name), item.nodeid)
            assert other == item.nodeid, f"{running.name} has sentences in two files of tests; rename one: {other}"
        if running.update:
            self._changed.setdefault(running.file, {})[running.name] = Entry(running.about, running.checked)
        else:
            assert len(running.checked) == len(running.known), FEWER.format(running.file)
        return result

    def pytest_sessionfinish(self) -> None:
        for file, changed in self._changed.items():
            names = names_in(file)
            entries = read(file) | changed
            write(file, {test: entry for test, entry in entries.items() if entry.texts and bare(test) in names})


_running: Running | None = None


def name_of(item: pytest.Item) -> str:
    """The name of a test with the numbers of its parameters, whose values may be long."""
    name = str(getattr(item, "originalname", item.name))
    call: Any = getattr(item, "callspec", None)
    return f"{name}[{'-'.join(dict.fromkeys(map(str, call.indices.values())))}]" if call else name


def about(item: pytest.Item) -> str:
    """What a test with parameters tries: its first text."""
    call: Any = getattr(item, "callspec", None)
    texts = [value for value in call.params.values() if isinstance(value, str)] if call else []
    return " ".join(texts[0].split())[:LONGEST] if texts else ""


def bare(test: str) -> str:
    return test.partition("[")[0]


def names_in(file: Path) -> Counter[str]:
    """The names of all tests whose sentences are in this file, and how many tests have each."""
    folder = TESTS / file.relative_to(FOLDER).with_suffix("")
    files = [*folder.glob("*.py")] if folder == TESTS / "unit" else [*folder.rglob("*.py")]
    return Counter(name for each in files for name in re.findall(r"^ *def (test_\w+)", each.read_text(), re.MULTILINE))


def check(message: object, *values: object) -> None:
    """Fail unless a message names these values and is what the file has for this test."""
    __tracebackhide__ = True
    running = _current()
    _check_values(str(message), values)
    text = running.normal(message)
    if not running.update:
        expected = running.next()
        assert text == expected, f"{running.file} has for {running.name}:\n{expected or 'no sentence'}"
    running.checked.append(text)


def check_line(output: str | Iterable[object], *values: object) -> None:
    """Fail unless an output has the line that the file has for this test, and the line names these values."""
    __tracebackhide__ = True
    running = _current()
    texts = output.splitlines() if isinstance(output, str) else [str(each) for each in output]
    lines = {running.normal(text).strip(): text for text in texts if text.strip()}
    expected = running.next()
    if running.update and expected not in lines:
        fitting = [line for line, text in lines.items() if not _lacking(text, values)]
        assert fitting, f"no line of the output names {values}:\n{output}"
        expected = max(fitting, key=lambda line: difflib.SequenceMatcher(None, line, expected).ratio())
    assert expected in lines, f"{running.file} has for {running.name}:\n{expected or 'no sentence'}\n{output}"
    _check_values(lines[expected], values)
    running.checked.append(expected)


@contextmanager
def raises(kind: type[E], *values: object) -> Iterator[pytest.ExceptionInfo[E]]:
    """`pytest.raises`, whose message has to name these values and to be what the file has for this test."""
    __tracebackhide__ = True
    with pytest.raises(kind) as error:
        yield error
    check(error.value, *values)


def _current() -> Running:
    assert _running is not None, "sentences are checked while a test runs"
    return _running


def _check_values(text: str, values: Iterable[object]) -> None:
    __tracebackhide__ = True
    lacking = _lacking(text, values)
    assert not lacking, f"{lacking} not in: {text}"


def _lacking(text: str, values: Iterable[object]) -> list[object]:
    """The values that a text does not name as whole words."""
    return [value for value in values if not re.search(rf"(?<!\w){re.escape(str(value))}(?!\w)", text)]
