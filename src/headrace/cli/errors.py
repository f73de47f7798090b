"""One line for an error. Apart from other output: `headrace --help` imports it, and needs no library for tables."""

from __future__ import annotations

import json
import os
import sys
import traceback

from headrace.disk import from_system
from headrace.errors import DefinitionErrors, HeadraceError


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
    sentences = (
        [str(e) for e in reported.errors] if isinstance(reported, DefinitionErrors) else str(reported).splitlines()
    )
    for sentence in sentences:
        sys.stderr.write(f"error: {sentence}\n")
    return code
