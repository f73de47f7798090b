"""Checks of a workspace's surroundings: folders, who can read them, disk, port, lease, definitions."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import stat
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

from headrace.define.catalog import Catalog, load
from headrace.errors import DefinitionErrors, HeadraceError
from headrace.format import plural
from headrace.plan.differences import compare
from headrace.tools.doctor.finding import Finding, bad, good, warn
from headrace.workspace.applied_catalog import read_running
from headrace.workspace.lease_holder import live_holder, read_holder
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


LEAST_FREE_BYTES, LEAST_FREE_SHARE = 2_000_000_000, 0.05
FULL_BYTES = 100_000_000


def check_workspace(workspace: Workspace) -> list[Finding]:
    """Check what `headrace up` needs before it reads any data."""
    return [
        check_disk(workspace.data),
        check_folders(workspace),
        check_lease(workspace),
        check_port(workspace),
        *check_definitions(workspace),
    ]


def check_disk(folder: Path) -> Finding:
    """Return whether there is enough disk space for the data."""
    usage = shutil.disk_usage(_nearest(folder))
    message = f"{usage.free / 1e9:,.1f} GB of {usage.total / 1e9:,.1f} GB are free at '{folder}'"
    fix = "free space, or set `data` in headrace.toml to a larger disk and move the folder there"
    if usage.free < FULL_BYTES:
        return bad("disk", message, fix)
    if usage.free < LEAST_FREE_BYTES or usage.free < LEAST_FREE_SHARE * usage.total:
        return warn("disk", message, fix)
    return good("disk", message)


def check_folders(workspace: Workspace) -> Finding:
    """Return whether files can be written in each folder, by writing one."""
    folders: set[Path] = set()
    for folder in _folders(workspace.data):
        nearest = _nearest(folder)
        if nearest in folders:
            continue
        folders.add(nearest)
        try:
            with tempfile.NamedTemporaryFile(dir=nearest, prefix=".doctor-") as file:
                file.write(b"written")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            return bad(
                "folders",
                f"folder '{nearest}' cannot be written: {error.strerror or error}",
                "make room" if error.errno == errno.ENOSPC else f"change the owner: chown -R $USER '{nearest}'",
            )
    return good("folders", f"files can be written in {plural(len(folders), 'folder')}")


def _folders(data: Path) -> Iterator[Path]:
    """The data folder first: if it belongs to another user, the others may not be visible."""
    yield data
    yield from (data / name for name in ("journal", "kafka", "lake", "store", "logs", "scratch"))
    for kind in ("journal", "kafka", "lake"):
        yield from (path for path in sorted((data / kind).glob("*")) if path.is_dir())


def check_lease(workspace: Workspace) -> Finding:
    """Find the process that holds the workspace."""
    holder = read_holder(workspace.lease_file)
    if holder is None:
        if workspace.lease_file.exists():
            return warn(
                "lease",
                f"lease '{workspace.lease_file}' cannot be read",
                "delete it while no server of this folder runs",
            )
        return good("lease", "no server has run here yet")
    if holder.is_alive():
        return good("lease", f"process {holder.pid} holds the workspace{f' at {holder.url}' if holder.url else ''}")
    if holder.released:
        return good("lease", "free: the last server stopped cleanly")
    if holder.may_run():
        return warn(
            "lease",
            f"process {holder.pid} has the workspace, but sent no heartbeat for {holder.silent_s():,.0f} s",
            "if it is suspended or hangs, end it; the next `headrace up` takes over",
        )
    return good("lease", f"free: process {holder.pid} ended without a clean stop; the next `up` takes over at once")


def check_port(workspace: Workspace) -> Finding:
    """Return whether the port is free, or held by this workspace's own server."""
    settings = workspace.settings
    holder = live_holder(workspace.lease_file)
    if holder and holder.url:
        return good("port", f"{holder.url} is this workspace's own server")
    if settings.port == 0:
        return good("port", "a free port is chosen")
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return bad(
                    "port",
                    f"port {settings.port} on {settings.host} is in use by another program",
                    "`headrace up --port 0` takes a free one; or set `port` in headrace.toml",
                )
            fix = "set `host` and `port` in headrace.toml to what this machine has"
            return bad("port", f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}", fix)
    return good("port", f"port {settings.port} on {settings.host} is free")


def check_definitions(workspace: Workspace) -> list[Finding]:
    """Return whether the definitions load, and whether they are what runs."""
    try:
        catalog = load(workspace.definitions)
    except DefinitionErrors as errors:
        return [Finding.of("definitions", error) for error in errors.errors]
    except HeadraceError as error:
        return [Finding.of("definitions", error)]
    if not len(catalog):
        message, fix = f"'{workspace.definitions}' declares nothing", "`headrace init --from FILE` writes a definition"
        return [warn("definitions", message, fix)]
    counts = [plural(len(catalog.streams), "stream"), plural(len(catalog.views), "view")]
    counts += [
        plural(len(some), kind)
        for kind, some in (("logical view", catalog.logical), ("sink", catalog.sinks), ("alert", catalog.alerts))
        if some
    ]
    summary = good("definitions", f"{', '.join(counts[:-1])} and {counts[-1]} declared")
    return [summary, _check_changes(workspace, catalog)]


def _check_changes(workspace: Workspace, catalog: Catalog) -> Finding:
    try:
        plan = compare(read_running(workspace.catalog_file), catalog)
    except HeadraceError as error:
        return Finding.of("changes", error)
    if plan.empty:
        return good("changes", "all definitions are applied")
    names = ", ".join(f"{change.kind} {change.what} {change.name}" for change in plan.changes[:5])
    if plan.refused:
        first = plan.refused[0]
        return bad(
            "changes",
            f"{first.what} '{first.name}' cannot be changed as its definition says: {first.reason}",
            "undo that change, or use a new name",
        )
    if plan.only_creates and live_holder(workspace.lease_file) is None:
        return good("changes", f"the next `headrace up` applies: {names}")
    return warn(
        "changes",
        f"{plural(len(plan.changes), 'change')} not applied: {names}",
        "`headrace plan` shows them, `headrace apply` applies them",
    )


def _nearest(folder: Path) -> Path:
    """The folder, or the first above it that exists: where it would be created."""
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
