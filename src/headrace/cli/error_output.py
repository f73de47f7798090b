"""One line for an error. Apart from other output: `headrace --help` imports it, and needs no library for tables."""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import TYPE_CHECKING, TextIO

from headrace.disk import from_system
from headrace.errors import DefinitionError, DefinitionErrors, HeadraceError
from headrace.lazy import later

if TYPE_CHECKING:
    import shutil
    import textwrap
else:  # loaded by their first use
    shutil = later("shutil")
    textwrap = later("textwrap")


def print_error(error: BaseException, *, as_json: bool) -> int:
    """Print an error to standard error; returns the exit code."""
    if os.environ.get("HEADRACE_DEBUG") == "1":
        traceback.print_exception(error, file=sys.stderr)
    if isinstance(error, OSError):
        error = from_system(error) or error
    if isinstance(error, HeadraceError):
        reported, code = error, error.exit_code
    else:
        lines = str(error).strip().splitlines()
        name = type(error).__name__
        reported = HeadraceError(
            f"{name}: {lines[0]}" if lines else name, fix="HEADRACE_DEBUG=1 shows the stack trace; please report it"
        )
        code = 1
    if as_json:
        sys.stderr.write(json.dumps({"error": reported.as_dict()}, ensure_ascii=False, separators=(",", ":")) + "\n")
        return code
    if isinstance(reported, DefinitionError):
        _print_mistakes(reported)
        return code
    for sentence in str(reported).splitlines():
        sys.stderr.write(f"{wrapped(f'error: {sentence}', sys.stderr)}\n")
    return code


def wrapped(sentence: str, stream: TextIO) -> str:
    """A sentence for a stream; on a terminal it is wrapped at spaces."""
    if not stream.isatty():
        return sentence
    width = shutil.get_terminal_size().columns
    return textwrap.fill(sentence, width, break_long_words=False, break_on_hyphens=False)


def _print_mistakes(error: DefinitionError) -> None:
    """Each mistake with its line and a caret, in colour on a terminal."""
    in_colour = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    mark, caret, end = ("\x1b[1;31m", "\x1b[1;32m", "\x1b[0m") if in_colour else ("", "", "")
    for mistake in error.errors if isinstance(error, DefinitionErrors) else [error]:
        sys.stderr.write(wrapped(f"error: {mistake}", sys.stderr).replace("error:", f"{mark}error:{end}", 1) + "\n")
        if mistake.excerpt:
            line, _, pointer = mistake.excerpt.partition("\n")
            sys.stderr.write(f"  {line}\n  {pointer[:-1]}{caret}^{end}\n")
        if mistake.write and mistake.write.strip() not in str(mistake):
            sys.stderr.write(f"  write {mistake.write}\n")
