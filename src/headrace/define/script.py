"""Runs a Python definition file in a namespace of its own and collects the streams and views it declares."""

from __future__ import annotations

from pathlib import Path

from headrace.define.model import Stream, View
from headrace.errors import Location


def run_script(path: Path, text: str) -> list[tuple[Stream | View, Location]]:
    """Every stream and view that the file binds to a name at module level."""
    raise NotImplementedError
