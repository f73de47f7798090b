"""Checks of a workspace's data: the lake of each stream, its journal, and whether the store agrees with them."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from deltalake.exceptions import DeltaError, TableNotFoundError

from headrace.api.connect import connect
from headrace.define.catalog import Catalog
from headrace.define.model import Stream
from headrace.errors import CorruptionError, HeadraceError
from headrace.format import plural
from headrace.lake.delta_table import LakeTable
from headrace.lake.health import check_contents, check_files, check_footers, check_log
from headrace.maintain.build_slices import damaged_slices
from headrace.name_encoding import shell
from headrace.store.open_store import check_batch_tables, store_format, table_faults
from headrace.store.open_to_read import open_to_read
from headrace.tools.doctor.finding import Finding, bad, good, warn
from headrace.tools.doctor.journal_checks import check_journal
from headrace.transport.stored_transport import check_transport
from headrace.workspace.applied_catalog import read_running
from headrace.workspace.lease_holder import live_holder
from headrace.workspace.settings import Workspace

AHEAD_S = 60  # allowed difference from the clock that wrote the data
AGAIN = "restart `headrace up`: its view is built again from the lake; nothing is lost"


def check_lakes_and_store(workspace: Workspace, *, deep: bool = False) -> list[Finding]:
    """The data of all applied streams; `deep` reads every file of the lakes completely."""
    try:
        catalog = read_running(workspace.catalog_file)
    except HeadraceError as error:
        return [Finding.of("catalog", error)]
    if not catalog.streams:
        return [good("lake", "no stream runs yet")]
    findings: list[Finding] = []
    commits: dict[str, int] = {}
    tables: list[LakeTable] = []
    for name in sorted(catalog.base_streams):
        table = _open(workspace, catalog.streams[name])
        if isinstance(table, Finding):
            findings.append(table)
            continue
        tables += [table] if table else []
        state = table.state if table else None
        commits[name] = state.next_commit if state else 0
        lake = _check_lake(name, table, deep) if table else good(f"lake {name}", "no events yet")
        if lake.level == "error":
            # A server may have replaced the files meanwhile: only what is still wrong is reported.
            again = _open(workspace, catalog.streams[name])
            lake = _check_lake(name, again, deep) if isinstance(again, LakeTable) else lake
        findings.append(lake)
        if catalog.streams[name].source is None:
            findings.append(check_journal(name, workspace.journal(name), state.position.offset() if state else 0))
    batch_layer = check_batch_layer(workspace, deep=deep)
    store = _check_store(workspace, catalog, commits)
    return [*findings, _formats(workspace, catalog, tables), check_clock(workspace), *store, *batch_layer]


def _open(workspace: Workspace, stream: Stream) -> LakeTable | Finding | None:
    try:
        return LakeTable(workspace.lake(stream.name), stream, fence=None)
    except TableNotFoundError:
        return None
    except HeadraceError as error:
        return Finding.of(f"lake {stream.name}", error)
    except (DeltaError, OSError) as error:
        fix = "restore the folder from a backup; nothing was changed"
        return bad(f"lake {stream.name}", f"it cannot be read: {str(error).splitlines()[0]}", fix)


def _check_lake(name: str, table: LakeTable, deep: bool) -> Finding:
    """Return whether the log is complete, and each of its files exists unchanged."""
    check, files = f"lake {name}", table.all_files()
    faults = [*check_log(table.storage), *check_files(table.storage, files)]
    faults = faults or (check_contents if deep else check_footers)(table.storage, files)
    if faults:
        more = f" (and {len(faults) - 1:,} more files)" if len(faults) > 1 else ""
        return bad(check, f"file '{faults[0].file}' {faults[0].what}{more}", faults[0].fix)
    rows, dead_rows = table.rows(), table.rows(dead=True)
    how = "each read completely" if deep else "all there"
    summary = (
        f"{plural(rows, 'event')} in {plural(table.state.next_commit, 'commit')}, {plural(len(files), 'file')}, {how}"
    )
    if dead_rows:
        return warn(
            check, f"{summary}; {plural(dead_rows, 'dead letter')}", f"`headrace dead-letters {shell(name)}` says why"
        )
    return good(check, summary)


def _formats(workspace: Workspace, catalog: Catalog, tables: list[LakeTable]) -> Finding:
    """The format versions of the parts that can be read; other checks report those that cannot."""
    versions = {"workspace": {workspace.format}, "lake": {table.format for table in tables}, "journal": set[int]()}
    for stream in catalog.base_streams.values():
        with suppress(CorruptionError):
            kind = stream.source.connector if stream.source else "journal"
            versions.setdefault(kind, set()).add(check_transport(workspace, stream))
    with suppress(HeadraceError):  # a server has it open
        versions["store"] = store_format(workspace)
    texts = (f"{what} {', '.join(map(str, sorted(numbers)))}" for what, numbers in versions.items() if numbers)
    return good("formats", "; ".join(texts))


def check_clock(workspace: Workspace) -> Finding:
    """Return whether data has times in the future."""
    newest = 0.0
    for folder in (workspace.data / "journal", workspace.data / "lake"):
        newest = max([newest, *(path.stat().st_mtime for path in _newest_of(folder))])
    ahead_s = newest - time.time()
    if ahead_s > AHEAD_S:
        fix = "set the clock: arrival is taken from it, and events would count as late or as of the future"
        return bad("clock", f"the newest data was written {ahead_s:,.0f} s in the future", fix)
    return good("clock", "no data is from the future")


def _newest_of(folder: Path) -> list[Path]:
    return [path for pattern in ("*/*.seg", "*/_delta_log/*.json") for path in folder.glob(pattern)]


def _check_store(workspace: Workspace, catalog: Catalog, commits: dict[str, int]) -> list[Finding]:
    """Return whether each view is at the end of the lake, and not ahead of it."""
    holder = live_holder(workspace.lease_file)
    try:
        if holder:
            return _check_served(workspace) if holder.url else [good("store", f"process {holder.pid} has it")]
        store = open_to_read(workspace)
        if store is None:
            return [good("store", "no views are stored yet: the next `headrace up` computes them from the lake")]
        try:
            with store.snapshot() as snapshot:
                versions = [version for version in snapshot.versions() if version.serving]
        finally:
            store.close()
    except HeadraceError as error:
        return [Finding.of("store", error)]
    return [
        _check_view(v.view.name, base.applied_to, commits[base.stream], base.stalled)
        for v in versions
        for base in v.bases
        if base.stream in commits and v.view.name in catalog.views
    ] or [good("store", "it opens, and has no view yet")]


def _check_served(workspace: Workspace) -> list[Finding]:
    with connect(workspace.folder) as connection:
        status = connection.verbs.status()
    findings = []
    if status.state != "ok":
        trouble = "; ".join(s.error for s in status.streams if s.error)
        fix = (
            "wait until Spark has started"
            if status.state in ("starting", "restarting")
            else "see data/logs/headrace.log"
        )
        findings.append(warn("server", f"it is {status.state}{f': {trouble}' if trouble else ''}", fix))
    else:
        memory = f" and takes {status.memory_mb:,} MB" if status.memory_mb else ""
        findings.append(good("server", f"process {status.pid} answers at {status.url}{memory}"))
    return findings + [
        _check_view(view.name, view.applied_to or 0, view.commits or 0, view.stalled) for view in status.views
    ]


def _check_view(name: str, applied_to: int, commits: int, stalled: str | None) -> Finding:
    check = f"view {name}"
    if applied_to > commits:
        return bad(
            check,
            f"the store has {plural(applied_to, 'commit')}, the lake only {commits:,}",
            "the lake lost commits: stop the server and move data/store away; `headrace up` computes the views again",
        )
    if stalled:
        return bad(check, f"stalled: {stalled}", "fix its definition, then `headrace apply`")
    if applied_to < commits:
        message = f"it lacks {commits - applied_to:,} of {plural(commits, 'commit')}"
        return warn(check, message, "a running server catches up automatically: `headrace views` shows how far it is")
    return good(check, f"has all of its stream: {plural(commits, 'commit')}")


def check_batch_layer(workspace: Workspace, *, deep: bool) -> list[Finding]:
    """Return whether batch tables and slices of builds can be read; `deep` reads every batch table completely."""
    faults = _table_faults(workspace) if live_holder(workspace.lease_file) is None else []
    tables, file_faults = check_batch_tables(workspace, deep=deep)
    findings = [bad("batch tables", fault, AGAIN) for fault in dict.fromkeys([*faults, *file_faults])]
    if not findings and tables:
        findings = [
            good("batch tables", f"{plural(tables, 'file')}, {'each read completely' if deep else 'all there'}")
        ]
    slices = damaged_slices(workspace.builds)
    return findings + [
        warn(
            "builds", f"slice '{path}' has changed since it was written", "nothing: it is computed again from the lake"
        )
        for path in slices
    ]


def _table_faults(workspace: Workspace) -> list[str]:
    """Faults of the batch tables that the store refers to."""
    try:
        store = open_to_read(workspace)
    except HeadraceError:
        return []  # reported by the check of the store
    if store is None:
        return []
    try:
        with store.snapshot() as snapshot:
            return table_faults(workspace, snapshot.versions())
    finally:
        store.close()
