"""Opens the store of a workspace to read it; `opening.py` opens it to write."""

from __future__ import annotations

from headrace.store.base import StoreReader
from headrace.store.duckdb import reading
from headrace.workspace.settings import Workspace


def open_to_read(workspace: Workspace) -> StoreReader | None:
    """The store as a server left it; None if there has never been one."""
    return reading.open_to_read(workspace.data)
