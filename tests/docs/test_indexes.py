"""Every page and every decision is in its index, and lines of Markdown are wrapped."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.wrapping import long_lines, wrap

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DECISIONS = DOCS / "decisions"
GENERATED = DOCS / "benchmarks.md"  # by bench/page.py, with a line of figures
ROW = re.compile(r"^\| \[[^]]+\]\(([^)]+)\) \| (.+) \|$", re.MULTILINE)
DECISION_ROW = re.compile(r"^\| (\d+) \| \[(.+)\]\(([^)]+)\) \| (.+) \| (.+) \|$", re.MULTILINE)
BEGINNING = re.compile(r"# (\d+)\. (.+)\n\nStatus: (.+)\n\n")
STATUS = re.compile(r"accepted|replaced (?:in part )?by (\d+(?:, \d+)*(?: and \d+)?)")
DECISION_FILES = sorted(DECISIONS.glob("[0-9]*.md"))


def _is_one_sentence(text: str) -> bool:
    return text.endswith((".", "?")) and len(text.split()) > 3


def test_every_page_is_once_in_the_index_with_a_sentence() -> None:
    rows = dict(ROW.findall((DOCS / "README.md").read_text()))
    pages = [path for path in DOCS.rglob("*.md") if path.parent != DECISIONS and path != DOCS / "README.md"]
    assert sorted(rows) == sorted([*(str(path.relative_to(DOCS)) for path in pages), "decisions/README.md"])
    assert [page for page, sentence in rows.items() if not _is_one_sentence(sentence)] == []


def test_the_readme_links_the_index() -> None:
    assert "(docs/README.md)" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize("page", ["README.md", "docs/development.md"])
def test_the_fast_tests_are_named_beside_all_tests(page: str) -> None:
    text = (ROOT / page).read_text()
    assert re.search(r"make test-fast\b", text)
    assert re.search(r"make test(?!-)\b", text)


def test_the_index_has_each_decision_with_the_title_and_status_of_its_file() -> None:
    listed = {
        name: (int(number), title, status)
        for number, title, name, choice, status in DECISION_ROW.findall((DECISIONS / "README.md").read_text())
        if _is_one_sentence(choice)
    }
    written = {}
    for path in DECISION_FILES:
        beginning = BEGINNING.match(path.read_text())
        assert beginning, f"{path.name} has to begin with '# NUMBER. TITLE' and 'Status: …'"
        written[path.name] = (int(beginning[1]), beginning[2], beginning[3])
        assert path.name.startswith(f"{written[path.name][0]:04}-")
    assert listed == written
    assert list(listed) == sorted(listed)


def test_a_status_names_later_decisions_which_the_record_mentions() -> None:
    numbers = {int(path.name[:4]): path for path in DECISION_FILES}
    for number, path in numbers.items():
        text = path.read_text()
        beginning = BEGINNING.match(text)
        assert beginning
        status = STATUS.fullmatch(beginning[3])
        assert status, f"{path.name}: {beginning[3]}"
        for later in map(int, re.findall(r"\d+", status[1] or "")):
            assert later > number
            assert f"({numbers[later].name})" in text, f"{path.name} should say what {later} replaced"


def test_lines_are_wrapped() -> None:
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]
    long = {path: long_lines(path.read_text()) for path in pages if path != GENERATED}
    wrong = [f"{path.relative_to(ROOT)}:{line}" for path, lines in long.items() for line in lines]
    assert not wrong, "run `python -m tests.wrapping FILE…`"


def test_wrapping_leaves_tables_code_and_words_as_they_are() -> None:
    table = f"| {'a ' * 80}|\n|---|\n"
    code = f"```\n{'word ' * 40}\n```\n\n    {'word ' * 40}\n"
    prose = f"- {'word ' * 30}`a b c` [one link](x.md) - 1. * {'word ' * 30}\n  end\n"
    wrapped = wrap(f"{table}\n{code}\n{prose}")
    assert wrapped.startswith(f"{table}\n{code}\n")
    assert wrapped.split() == f"{table}{code}{prose}".split()
    lines = wrapped.removeprefix(f"{table}\n{code}\n").splitlines()
    assert [line[:3].strip() for line in lines] == ["- w", *["w"] * (len(lines) - 1)]
    assert not long_lines(wrapped)
    assert wrap(wrapped) == wrapped
