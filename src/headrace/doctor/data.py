"""Checks of a workspace's data: the lake of each stream, its journal, and whether the store agrees with them."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from deltalake.exceptions import DeltaError, TableNotFoundError

from headrace.client.connect import connect
from headrace.define.catalog import Catalog
from headrace.define.model import Stream
from headrace.doctor.finding import Finding, bad, good, warn
from headrace.doctor.journal import check_journal
from headrace.errors import CorruptionError, HeadraceError
from headrace.format import many
from headrace.lake.health import check_contents, check_files, check_footers, check_log
from headrace.lake.table import LakeTable
from headrace.maintain.slices import damaged_slices
from headrace.store.opening import check_batch_tables, open_to_read, store_format
from headrace.transport.journal.journal import check_format
from headrace.workspace.applied import read_running
from headrace.workspace.holder import live_holder
from headrace.workspace.settings import Workspace

AHEAD_S = 60  # a clock may differ by so much from the one that wrote
AGAIN = "restart `headrace up`: its view is built again from the lake; nothing is lost"


def check_lakes_and_store(workspace: Workspace, *, deep: bool = False) -> list[Finding]:
    """All that is kept of the streams that run; `deep` reads every file of the lakes whole."""
    try:
        catalog = read_running(workspace.catalog_file)
    except HeadraceError as error:
        return [Finding.of("catalog", error)]
    if not catalog.streams:
        return [good("lake", "no stream runs yet")]
    found: list[Finding] = []
    commits: dict[str, int] = {}
    tables: list[LakeTable] = []
    for name in sorted(catalog.streams):
        table = _open(workspace, catalog.streams[name])
        if isinstance(table, Finding):
            found.append(table)
            continue
        tables += [table] if table else []
        state = table.state if table else None
        commits[name] = state.next_commit if state else 0
        lake = _check_lake(name, table, deep) if table else good(f"lake {name}", "no events yet")
        if lake.level == "error":
            # A server may have put other files in their place meanwhile: what is missing now too is missing.
            again = _open(workspace, catalog.streams[name])
            lake = _check_lake(name, again, deep) if isinstance(again, LakeTable) else lake
        found.append(lake)
        found.append(check_journal(name, workspace.journal(name), state.position.offset() if state else 0))
    made = check_batch_layer(workspace, deep=deep)
    store = _check_store(workspace, catalog, commits)
    return [*found, _formats(workspace, catalog, tables), check_clock(workspace), *store, *made]


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
    """Whether the log is whole, and each file that it names is there as it was written."""
    check, files = f"lake {name}", table.all_files()
    wrong = [*check_log(table.storage), *check_files(table.storage, files)]
    wrong = wrong or (check_contents if deep else check_footers)(table.storage, files)
    if wrong:
        more = f" (and {len(wrong) - 1:,} more files)" if len(wrong) > 1 else ""
        return bad(check, f"file '{wrong[0].file}' {wrong[0].what}{more}", wrong[0].fix)
    rows, dead_rows = table.rows(), table.rows(dead=True)
    how = "each read completely" if deep else "all there"
    said = f"{many(rows, 'event')} in {many(table.state.next_commit, 'commit')}, {many(len(files), 'file')}, {how}"
    if dead_rows:
        return warn(check, f"{said}; {many(dead_rows, 'dead letter')}", f"`headrace dead-letters {name}` says why")
    return good(check, said)


def _formats(workspace: Workspace, catalog: Catalog, tables: list[LakeTable]) -> Finding:
    """The format versions of what can be read; the checks of each name what cannot."""
    versions = {"workspace": {workspace.format}, "lake": {table.format for table in tables}, "journal": set[int]()}
    for name in catalog.streams:
        with suppress(CorruptionError):
            versions["journal"].add(check_format(workspace.journal(name)))
    with suppress(HeadraceError):  # a server has it open
        versions["store"] = store_format(workspace)
    shown = (f"{what} {', '.join(map(str, sorted(numbers)))}" for what, numbers in versions.items() if numbers)
    return good("formats", "; ".join(shown))


def check_clock(workspace: Workspace) -> Finding:
    """Whether something was written in what is the future now."""
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
    """Whether each view is where the lake is: never ahead of it."""
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
    ] or [good("store", "it opens, and holds no view yet")]


def _check_served(workspace: Workspace) -> list[Finding]:
    with connect(workspace.folder) as connection:
        status = connection.verbs.status()
    found = []
    if status.state != "ok":
        trouble = "; ".join(s.error for s in status.streams if s.error)
        fix = (
            "wait until Spark has started"
            if status.state in ("starting", "restarting")
            else "see data/logs/headrace.log"
        )
        found.append(warn("server", f"it is {status.state}{f': {trouble}' if trouble else ''}", fix))
    else:
        memory = f" and takes {status.memory_mb:,} MB" if status.memory_mb else ""
        found.append(good("server", f"process {status.pid} answers at {status.url}{memory}"))
    return found + [
        _check_view(view.name, view.applied_to or 0, view.commits or 0, view.stalled) for view in status.views
    ]


def _check_view(name: str, applied_to: int, commits: int, stalled: str | None) -> Finding:
    check = f"view {name}"
    if applied_to > commits:
        return bad(
            check,
            f"the store has {many(applied_to, 'commit')}, the lake only {commits:,}",
            "the lake lost commits: stop the server and move data/store away; `headrace up` computes the views again",
        )
    if stalled:
        return bad(check, f"stalled: {stalled}", "fix its definition, then `headrace apply`")
    if applied_to < commits:
        said = f"it lacks {commits - applied_to:,} of {many(commits, 'commit')}"
        return warn(check, said, "a running server catches up automatically: `headrace views` shows how far it is")
    return good(check, f"has all of its stream: {many(commits, 'commit')}")


def check_batch_layer(workspace: Workspace, *, deep: bool) -> list[Finding]:
    """Whether all that was computed from the lake can be read; `deep` reads every batch table whole."""
    missed = _missed(workspace) if live_holder(workspace.lease_file) is None else []
    tables, wrong = check_batch_tables(workspace, deep=deep)
    found = [bad("batch tables", fault, AGAIN) for fault in dict.fromkeys([*missed, *wrong])]
    if not found and tables:
        found = [good("batch tables", f"{many(tables, 'file')}, {'each read completely' if deep else 'all there'}")]
    slices = damaged_slices(workspace.builds)
    return found + [
        warn("builds", f"slice '{path}' is not as it was written", "nothing: it is computed again from the lake")
        for path in slices
    ]


def _missed(workspace: Workspace) -> list[str]:
    """What is wrong with the batch tables that the store speaks of."""
    try:
        store = open_to_read(workspace)
    except HeadraceError:
        return []  # the check of the store tells
    if store is None:
        return []
    try:
        with store.snapshot() as snapshot:
            versions = snapshot.versions()
        return [fault for version in versions for fault in store.faults_of(version)]
    finally:
        store.close()
