"""Whether other users of the machine can read the data, or the token in the settings."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path

from headrace.doctor.finding import Finding, warn
from headrace.workspace.settings import SETTINGS_FILE, Workspace

CHECK = "permissions"
OTHERS = stat.S_IRWXG | stat.S_IRWXO


def check_private(workspace: Workspace) -> list[Finding]:
    """A warning for each thing that other users can read; none if all is private."""
    findings, settings = [], workspace.folder / SETTINGS_FILE
    if "token" in tomllib.loads(settings.read_text()) and _mode(settings) & OTHERS:
        message = f"settings '{settings}' hold the token, and other users can read them (mode {_mode(settings):o})"
        findings.append(warn(CHECK, message, f"chmod 600 '{settings}', then set a new token"))
    data = workspace.data
    if data.is_dir() and _mode(data) & OTHERS:
        message = f"data folder '{data}' is open to other users (mode {_mode(data):o})"
        findings.append(warn(CHECK, message, f"chmod 700 '{data}'"))
    return findings


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
