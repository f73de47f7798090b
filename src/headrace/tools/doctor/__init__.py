"""Checks of the machine, the workspace and its data, each with a fix. Changes nothing."""

from __future__ import annotations

from pathlib import Path

from headrace.errors import HeadraceError, NewerFormatError
from headrace.tools.doctor.data_checks import check_lakes_and_store
from headrace.tools.doctor.finding import Finding, good
from headrace.tools.doctor.machine_checks import check_machine
from headrace.tools.doctor.workspace_checks import check_disk, check_private, check_workspace
from headrace.workspace.settings import SETTINGS_FILE, Workspace

__all__ = ["Finding", "examine"]


def examine(folder: Path, *, deep: bool = False) -> list[Finding]:
    """All findings of a folder: of the machine, and of the workspace if it is one. `deep` reads all data."""
    findings = check_machine()
    if not (folder / SETTINGS_FILE).is_file():
        message = f"'{folder.resolve()}' is not a workspace: only the machine was checked (`headrace init` makes one)"
        return [*findings, check_disk(folder), good("workspace", message)]
    try:
        workspace = Workspace.open(folder)
    except HeadraceError as error:
        check = "workspace" if isinstance(error, NewerFormatError) else "settings"
        return [*findings, check_disk(folder), Finding.of(check, error)]
    findings.append(good("settings", f"{workspace.folder / SETTINGS_FILE} can be read"))
    findings += check_private(workspace) or [good("permissions", "data and token are for this user alone")]
    return [*findings, *check_workspace(workspace), *check_lakes_and_store(workspace, deep=deep)]
