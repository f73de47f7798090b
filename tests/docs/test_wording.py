"""The files of tests/wording: read as they are written, and a sentence or a value that differs fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import wording
from tests.wording import Entry

ENTRIES = {
    "test_a": Entry("", ["one line", "two\n\nlines"]),
    "test_b[2]": Entry("SELECT 1", ["found '='"]),
    "test_b[10]": Entry("", [""]),
}


@contextmanager
def a_test_with_sentences(request: pytest.FixtureRequest, *, update: bool = False) -> Iterator[wording.Running]:
    """As if another test ran, that has two sentences."""
    running = wording.Running(request.node, wording.Plugin(request.config))
    running.known, running.update = ["sum takes a number", "found the end; expected 5"], update
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wording, "_running", running)
        yield running


def test_files_are_read_as_they_were_written(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "package.txt"
    wording.write(file, ENTRIES)
    assert wording.read(file) == ENTRIES
    assert list(wording.read(file)) == list(ENTRIES), "numbers are in their order"
    wording.write(file, {})
    assert not file.exists()


def test_a_message_has_to_be_the_sentence_of_the_file(request: pytest.FixtureRequest) -> None:
    with a_test_with_sentences(request):
        wording.check("sum takes a number", "sum")
        with pytest.raises(AssertionError, match="found the end; expected 5"):
            wording.check("found the end; expected 6")


@pytest.mark.parametrize("value", ["su", 5, "a number of"])
def test_a_message_has_to_name_each_value_as_a_word(request: pytest.FixtureRequest, value: object) -> None:
    with a_test_with_sentences(request), pytest.raises(AssertionError, match="not in: sum takes a number"):
        wording.check("sum takes a number", "sum", value)


def test_an_output_has_to_have_the_line(request: pytest.FixtureRequest) -> None:
    with a_test_with_sentences(request) as running:
        wording.check_line("first\n  sum takes a number\nlast\n", "number")
        with pytest.raises(AssertionError, match="found the end"):
            wording.check_line(["first", "found the end"])
    assert running.checked == ["sum takes a number"]


def test_an_error_has_to_be_of_the_class(request: pytest.FixtureRequest) -> None:
    with a_test_with_sentences(request):
        with wording.raises(ValueError, "sum"):
            raise ValueError("sum takes a number")
        with pytest.raises(KeyError), wording.raises(ValueError):
            raise KeyError("found the end; expected 5")


def test_an_update_takes_the_line_that_is_most_like_the_old_one(request: pytest.FixtureRequest) -> None:
    with a_test_with_sentences(request, update=True) as running:
        wording.check_line("sum of words\nsum takes numbers\n", "sum")
    assert running.checked == ["sum takes numbers"]


def test_places_in_a_test_folders_and_ports_are_left_out(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    text = f"{__file__}:12:3: 'x' in '{tmp_path}/a'; http://127.0.0.1:54321/"
    with a_test_with_sentences(request) as running:
        assert running.normal(text) == "HERE: 'x' in 'TMP/a'; http://127.0.0.1:PORT/"
