"""Checks of what the batch layer keeps: batch tables, and the slices of builds. All of it comes from the lake."""

from __future__ import annotations

from pathlib import Path

from headrace.doctor.finding import Finding, bad, good, warn
from headrace.errors import HeadraceError
from headrace.format import many
from headrace.maintain.slices import damaged_slices
from headrace.server.stored import batch_folder, fault_of, open_to_read, store_files
from headrace.store.duckdb.batch_table import check_batch_table
from headrace.store.duckdb.database import read_whole
from headrace.workspace.lease import live_holder
from headrace.workspace.settings import Workspace

AGAIN = "start `headrace up` anew: its view is built again from the lake; nothing is lost"


def check_batch_layer(workspace: Workspace, *, deep: bool) -> list[Finding]:
    """Whether all that was computed from the lake can be read; `deep` reads every batch table whole."""
    folder = batch_folder(workspace.data)
    wrong = _missed(workspace, folder) if live_holder(workspace.lease_file) is None else []
    files = sorted(folder.glob("*.duckdb"))
    for file in files:
        fault = check_batch_table(file) or _unreadable(file, deep)
        if fault and file.exists():  # a server may have let it go meanwhile
            wrong.append(fault)
    found = [bad("batch tables", fault, AGAIN) for fault in dict.fromkeys(wrong)]
    if not found and files:
        found = [good("batch tables", f"{many(len(files), 'file')}, {'each read whole' if deep else 'all there'}")]
    slices = damaged_slices(workspace.builds)
    return found + [
        warn("builds", f"slice '{path}' is not as it was written", "nothing: it is computed again from the lake")
        for path in slices
    ]


def _missed(workspace: Workspace, folder: Path) -> list[str]:
    """What is wrong with the batch tables that the store speaks of."""
    try:
        store = open_to_read(workspace, store_files(workspace)[-1])
    except (HeadraceError, IndexError):
        return []  # the check of the store tells
    try:
        with store.snapshot() as snapshot:
            versions = snapshot.versions()
    finally:
        store.close()
    faults = (fault_of(folder, version, table) for version in versions for table in version.batch)
    return [fault for fault in faults if fault]


def _unreadable(file: Path, deep: bool) -> str | None:
    said = read_whole(file) if deep else None
    return f"batch table '{file}' cannot be read: {said}" if said else None
