"""Input that comes slowly: lines are read while the pipe stays open, whatever the pieces that they come in."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.errors import IngestError
from headrace.ingest.input_files import Piece, SourceFile, StreamShape
from tests.waiting import wait_until

JSON = StreamShape("visits", "json", {"a": "INT"})
TEXT = StreamShape("lines", "text", {"value": "STRING"})


class Fifo:
    """A FIFO with a writer, and a thread that reads it as a file to be sent."""

    def __init__(self, path: Path, shape: StreamShape) -> None:
        os.mkfifo(path)
        self.pieces: list[bytes] = []
        self.error: Exception | None = None
        self._reader = threading.Thread(target=self._read, args=(SourceFile(path, shape, size=64),), daemon=True)
        self._reader.start()
        self._writer = os.open(path, os.O_WRONLY)

    def _read(self, file: SourceFile) -> None:
        try:
            pieces: Iterator[Piece] = file.pieces()
            self.pieces.extend(bytes(piece.lines) for piece in pieces)
        except IngestError as error:
            self.error = error

    @property
    def text(self) -> bytes:
        return b"".join(self.pieces)

    def write(self, text: bytes) -> None:
        os.write(self._writer, text)

    def end(self) -> None:
        os.close(self._writer)
        self._reader.join()


def fifo(folder: Path, shape: StreamShape) -> Fifo:
    return Fifo(folder / "pipe", shape)


def test_whole_lines_are_read_while_the_pipe_is_open(tmp_path: Path) -> None:
    pipe = fifo(tmp_path, TEXT)
    pipe.write(b"a\nhalf")
    wait_until(lambda: pipe.text == b"a\n")
    pipe.write(b" a line\n")
    wait_until(lambda: pipe.text == b"a\nhalf a line\n")
    pipe.write(b"x" * 100)  # longer than a piece
    pipe.write(b"\nlast")
    wait_until(lambda: pipe.text.endswith(b"x\n"))
    pipe.end()
    assert pipe.text == b"a\nhalf a line\n" + b"x" * 100 + b"\nlast\n"


def test_the_first_object_of_a_slow_pipe_is_a_line(tmp_path: Path) -> None:
    pipe = fifo(tmp_path, JSON)
    pipe.write(b'{"a": 1}\n')
    wait_until(lambda: pipe.text == b'{"a": 1}\n')
    pipe.end()


@pytest.mark.parametrize("text", [b'{\n"a": 1\n}\n', b'[{"a": 1},\n{"a": 2}]\n'])
def test_json_of_several_lines_is_read_to_its_end(tmp_path: Path, text: bytes) -> None:
    pipe = fifo(tmp_path, JSON)
    first, rest = text.split(b"\n", 1)
    pipe.write(first + b"\n")
    pipe.write(rest)
    pipe.end()
    assert pipe.error is None
    assert pipe.text.count(b'"a"') == text.count(b'"a"')
    assert pipe.text.count(b"\n") == text.count(b'"a"')
