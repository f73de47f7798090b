"""Opens the store of a workspace to read it; `open_store.py` opens it to write."""

from __future__ import annotations

from headrace.store.duckdb import duckdb_reader
from headrace.store.store_contract import StoreReader
from headrace.workspace.settings import Workspace


def open_to_read(workspace: Workspace) -> StoreReader | None:
    """The store as a server left it; None if there has never been one."""
    return duckdb_reader.open_to_read(workspace.data)
