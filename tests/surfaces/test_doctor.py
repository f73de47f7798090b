"""`headrace doctor`: a valid workspace has no problems; each problem is reported with its fix."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from headrace.define.catalog import load
from headrace.lake.delta_table import LakeTable
from headrace.lake.parquet_file import NewFile
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.duckdb.file_format import FORMAT
from headrace.store.store_contract import Step
from headrace.tools.doctor.machine_checks import _check_packages, check_memory
from headrace.transport.position import Position
from headrace.workspace.lease_holder import read_holder
from headrace.workspace.settings import Workspace
from tests import wording
from tests.newer import make_lake_newer, make_newer
from tests.surfaces.conftest import Ran, Served, visit, write_events

Command = Callable[..., Ran]


def write_java(home: Path, script: str) -> Path:
    """A fake Java that only prints its version and modules."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return home


@pytest.fixture
def examine(
    headrace: Command, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., dict[str, Any]]:
    """Runs doctor on a folder and returns the findings by check; the exit code must agree with them."""
    monkeypatch.setenv("HEADRACE_PORT", "0")
    # The real one is slower and would run thirty times; `test_a_new_workspace_has_no_problems` runs it.
    quick = "echo 'version \"17\"' >&2; echo java.base@17; echo jdk.incubator.vector@17"
    monkeypatch.setenv("JAVA_HOME", str(write_java(tmp_path_factory.mktemp("java"), quick)))

    def run(folder: Path, **variables: str) -> dict[str, Any]:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        result = headrace("doctor", "-w", folder, "--json")
        report = result.json
        assert result.code == (1 if report["errors"] else 0)
        assert all(finding["fix"] for finding in report["findings"] if finding["level"] != "ok")
        return {finding["check"]: finding for finding in report["findings"]}

    return run


@pytest.fixture
def with_data(applied: Path, headrace: Command) -> Path:
    """A workspace with events in its journal and, as a server would write them, in lake and store."""
    events = write_events(applied / "v.ndjson", visit(), visit(1))
    assert headrace("send", "visits", events, "-w", applied).code == 0
    workspace = Workspace.open(applied)
    catalog = load(workspace.definitions)
    table = LakeTable(workspace.lake("visits"), catalog.streams["visits"], fence=100)
    path = table.folder / "_dead=false" / "a.parquet"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"x" * 100)
    bounds = '"minValues":{"_commit":0},"maxValues":{"_commit":0},"nullCount":{}'
    file = NewFile("_dead=false/a.parquet", 100, 2, False, f'{{"numRecords":2,{bounds}}}')
    table.commit(table.state, Position.at(10), None, [file])
    (workspace.data / "store").mkdir()
    store = DuckStore.open(workspace.data / "store" / "views-00000001.duckdb", 1)
    store.register(catalog.views["traffic"], "f", {"visits": 60_000})
    store.apply(Step("visits", 0, 1, Position.at(10), None, 1), {("traffic", 1): []})
    store.close()
    # The journal's first record ends where the lake does.
    return applied


def test_a_new_workspace_has_no_problems(folder: Path, headrace: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_PORT", "0")
    result = headrace("doctor", "-w", folder)
    assert result.code == 0, result.out
    wording.check_line(result.out, "headrace up", "visits", "traffic")
    assert "\n✓ java " in result.out


def test_in_a_folder_that_is_not_a_workspace_only_the_machine_is_checked(tmp_path: Path, examine: Command) -> None:
    findings = examine(tmp_path)
    wording.check(findings["workspace"]["said"], tmp_path)
    assert set(findings) == {"python", "packages", "java", "memory", "disk", "workspace"}


def test_it_does_not_load_spark(applied: Path) -> None:
    code = (
        "import sys; from headrace.cli.app import run;"
        f"code = run(['doctor', '-w', {str(applied)!r}]); sys.exit(2 if 'pyspark' in sys.modules else 0)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("script", "values"),
    [
        (None, ["Java"]),
        ("echo 'openjdk version \"11.0.2\"' >&2", [11]),
        ("echo 'openjdk version \"17.0.2\"' >&2; echo java.base@17.0.2", ["jdk.incubator.vector"]),
    ],
)
def test_a_java_that_cannot_be_used(tmp_path: Path, examine: Command, script: str | None, values: list[object]) -> None:
    if script:
        write_java(tmp_path, script)
    finding = examine(tmp_path, JAVA_HOME=str(tmp_path))["java"]
    assert finding["level"] == "error"
    wording.check(finding["said"], *values)


def test_packages_and_memory(tmp_path: Path) -> None:
    assert _check_packages(["pyarrow>=1,<1000", "uvloop>=0.1; sys_platform != 'win32'"]).level == "ok"
    finding = _check_packages(["pyarrow<2", "no-such-package>=1", "pytest; extra == 'dev'"])
    assert finding.level == "error"
    assert "is not <2" in finding.said  # with the version
    wording.check(finding.said.partition("; ")[2], "no-such-package")
    (tmp_path / "meminfo").write_text("MemTotal: 4000000 kB\nMemAvailable: 500000 kB\n")
    assert check_memory(tmp_path / "meminfo").level == "warning"


def test_invalid_settings_and_definitions(folder: Path, examine: Command) -> None:
    (folder / "definitions" / "bad.sql").write_text("CREATE STREAM s (a INTT);\nCREATE VIEW v AS SELECT 1;\n")
    finding = examine(folder)["definitions"]
    assert finding["level"] == "error"
    assert "bad.sql:2:" in finding["said"]  # the last error
    (folder / "headrace.toml").write_text("prot = 1\n")
    wording.check(examine(folder)["settings"]["said"], "prot")


def test_changes_that_are_not_applied_or_are_refused(applied: Path, examine: Command) -> None:
    wording.check(examine(applied)["changes"]["said"])
    sql = applied / "definitions" / "shop.sql"
    text = sql.read_text()
    sql.write_text(text.replace("status <> 304", "status <> 305"))
    assert examine(applied)["changes"]["level"] == "warning"
    sql.write_text(text.replace("bytes   BIGINT", "bytes   INT"))
    assert examine(applied)["changes"]["level"] == "error"
    sql.unlink()
    wording.check(examine(applied)["definitions"]["said"])


def test_a_port_that_is_in_use(folder: Path, examine: Command) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        finding = examine(folder, HEADRACE_PORT=str(other.getsockname()[1]))["port"]
    assert finding["level"] == "error"
    assert "--port 0" in finding["fix"]


def test_a_disk_with_little_space(applied: Path, examine: Command, small_disk: Callable[[int], Path]) -> None:
    (applied / "data").rename(applied / "before")
    (applied / "data").symlink_to(small_disk(4 << 20))
    finding = examine(applied)["disk"]
    assert finding["level"] == "error"
    wording.check(finding["said"], "0.0 GB of 0.0 GB", f"{applied}/data")
    wording.check(finding["fix"])


@pytest.mark.skipif(os.geteuid() != 0, reason="root can write everywhere, so another user tries")
def test_a_folder_that_cannot_be_written(tmp_path: Path, applied: Path) -> None:
    for path in (*applied.parents, applied):
        if path.stat().st_uid == 0 and str(path).startswith("/tmp/"):
            path.chmod(0o755)
    (applied / "headrace.toml").chmod(0o644)
    code = (
        "import os; from pathlib import Path; from headrace.workspace.settings import Workspace\n"
        "from headrace.tools.doctor.workspace_checks import check_folders\n"
        f"os.setuid(65534); print(check_folders(Workspace.open(Path({str(applied)!r}))).said)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    wording.check(result.stdout, "Permission denied")


def test_files_that_other_users_can_read_are_reported(applied: Path, examine: Command) -> None:
    data, settings = applied / "data", applied / "headrace.toml"
    assert examine(applied)["permissions"]["level"] == "ok"
    data.chmod(0o755)
    finding = examine(applied)["permissions"]
    assert (finding["level"], finding["fix"]) == ("warning", f"chmod 700 '{data}'")
    wording.check(finding["said"], data, 755)
    data.chmod(0o700)
    settings.chmod(0o644)
    assert examine(applied)["permissions"]["level"] == "ok", "there is no token in it"
    settings.write_text('token = "open sesame"')
    finding = examine(applied)["permissions"]
    assert (finding["level"], finding["fix"]) == ("warning", f"chmod 600 '{settings}', then set a new token")
    wording.check(finding["said"], settings, 644)


@pytest.mark.skipif(os.geteuid() != 0, reason="root can read every file, so another user tries")
def test_the_error_of_unreadable_settings_names_the_reason(applied: Path) -> None:
    for path in (*applied.parents, applied):
        if path.stat().st_uid == 0 and str(path).startswith("/tmp/"):
            path.chmod(0o755)
    code = (
        "import os; from headrace.workspace.settings import Workspace;"
        f"os.setuid(65534); Workspace.open({str(applied)!r})"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    wording.check(result.stderr.splitlines()[-1], applied / "headrace.toml", "permission denied")


def test_data_without_problems(with_data: Path, examine: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = SimpleNamespace(free=10**11, total=10**12)  # the disk of this machine may have little
    monkeypatch.setattr("headrace.tools.doctor.workspace_checks.shutil.disk_usage", lambda _: usage)
    findings = examine(with_data)
    assert {name: f["said"] for name, f in findings.items() if f["level"] != "ok"} == {}
    wording.check(findings["lake visits"]["said"], "2 events", "1 commit", "1 file")
    wording.check(findings["view traffic"]["said"], "1 commit")


def test_a_lake_that_lost_a_file_or_cannot_be_read(with_data: Path, examine: Command) -> None:
    file = with_data / "data/lake/visits/_dead=false/a.parquet"
    file.write_bytes(b"short")
    wording.check(examine(with_data)["lake visits"]["said"], "a.parquet", 5, 100)
    file.unlink()
    wording.check(examine(with_data)["lake visits"]["said"], "a.parquet")
    log = sorted((with_data / "data/lake/visits/_delta_log").glob("*.json"))[0]
    log.write_text("{broken")
    wording.check(examine(with_data)["lake visits"]["said"], log)


def test_a_lake_with_a_damaged_file(with_data: Path, examine: Command, headrace: Command) -> None:
    """Its size is right. The footer is always checked, the rest only with --deep."""
    assert examine(with_data)["lake visits"]["level"] == "ok"
    assert "a.parquet' cannot be read" in headrace("doctor", "-w", with_data, "--deep").out
    workspace = Workspace.open(with_data)
    table = LakeTable(workspace.lake("visits"), load(workspace.definitions).streams["visits"], fence=101)
    path = table.folder / "_dead=false" / "1-00000000.parquet"
    path.write_bytes(b"x" * 100)
    bounds = '"minValues":{"_commit":1},"maxValues":{"_commit":1},"nullCount":{}'
    file = NewFile("_dead=false/1-00000000.parquet", 100, 2, False, f'{{"numRecords":2,{bounds}}}')
    table.commit(table.state, Position.at(11), None, [file])
    wording.check(examine(with_data)["lake visits"]["said"], path)


def test_a_journal_that_is_damaged_or_lost(with_data: Path, examine: Command) -> None:
    folder = with_data / "data/journal/visits"
    (segment,) = [path for path in folder.glob("*.seg") if path.stat().st_size]
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-3] + b"xxx")
    wording.check(examine(with_data)["journal visits"]["said"], segment.name)
    segment.write_bytes(whole[:-3])
    assert "before the durable end" in examine(with_data)["journal visits"]["said"]  # with positions
    segment.write_bytes(b"x" * len(whole))
    wording.check(examine(with_data)["journal visits"]["said"], segment.name)
    segment.unlink()
    assert examine(with_data)["journal visits"]["level"] != "ok"


def test_a_store_that_disagrees(with_data: Path, examine: Command) -> None:
    path = with_data / "data/store/views-00000001.duckdb"
    store = DuckStore.open(path, 2)
    store.apply(Step("visits", 1, 5, Position.at(50), None, 1), {("traffic", 1): []})
    store.close()
    finding = examine(with_data)["view traffic"]
    wording.check(finding["said"], "5 commits", 1)
    store = DuckStore.open(path, 3)
    store.stall("traffic", 1, "visits", "out of cheese")
    store.drop("traffic")
    store.register(load(with_data / "definitions").views["traffic"], "f", {"visits": 60_000})
    store.close()
    wording.check(examine(with_data)["view traffic"]["said"], "1 of 1 commit")
    store = DuckStore.open(path, 4)
    store.stall("traffic", 2, "visits", "out of cheese")
    store.close()
    wording.check(examine(with_data)["view traffic"]["said"], "stalled: out of cheese")
    path.write_bytes(b"not a database" * 1000)
    assert examine(with_data)["store"]["level"] == "error"


def test_formats_are_reported_and_newer_ones_are_errors(with_data: Path, examine: Command) -> None:
    assert examine(with_data)["formats"]["said"] == f"workspace 1; lake 1; journal 2; store {FORMAT}"
    for check, folder, make in (
        ("journal visits", with_data / "data/journal/visits", make_newer),
        ("lake visits", with_data / "data/lake/visits", make_lake_newer),
    ):
        make(folder)
        finding = examine(with_data)[check]
        assert finding["level"] == "error"
        wording.check(f"{finding['said']}; {finding['fix']}", check.split()[0], folder, 3)
    assert examine(with_data)["formats"]["said"] == f"workspace 1; store {FORMAT}"


def test_a_newer_workspace_is_an_error_and_nothing_in_it_is_checked(with_data: Path, examine: Command) -> None:
    make_newer(with_data / "data")
    findings = examine(with_data)
    assert findings["workspace"]["level"] == "error"
    wording.check(findings["workspace"]["said"], f"{with_data}/data", 3)
    assert not {"lease", "lake visits", "formats"} & set(findings)


def test_a_clock_that_was_set_back(with_data: Path, examine: Command) -> None:
    log = next((with_data / "data/lake/visits/_delta_log").glob("*.json"))
    later = time.time() + 3600
    os.utime(log, (later, later))
    assert "in the future" in examine(with_data)["clock"]["said"]


def test_a_lease_that_was_not_released(with_data: Path, examine: Command) -> None:
    file = with_data / "data/lease.json"
    holder = read_holder(file)
    assert holder is not None
    holder_values = {**vars(holder), "released": False, "pid": 2**22 - 1, "beat_s": time.monotonic() - 100}
    file.write_bytes(orjson.dumps(holder_values))
    assert "ended without a clean stop" in examine(with_data)["lease"]["said"]
    sleeper = subprocess.Popen(["sleep", "100"])
    sleeper.send_signal(signal.SIGSTOP)
    try:
        file.write_bytes(orjson.dumps({**holder_values, "pid": sleeper.pid}))
        assert "sent no heartbeat for" in examine(with_data)["lease"]["said"]
    finally:
        sleeper.kill()
        sleeper.wait()
    file.write_bytes(b"{}")
    assert "cannot be read" in examine(with_data)["lease"]["said"]


def test_while_a_server_is_running(served: Served, applied: Path, examine: Command) -> None:
    findings = examine(applied)
    assert served.url in findings["port"]["said"]
    wording.check(findings["server"]["said"])
    assert findings["view traffic"]["level"] == "ok"


def test_a_catalog_that_cannot_be_read(applied: Path, examine: Command) -> None:
    (applied / "data/catalog.json").write_text("{")
    findings = examine(applied)
    assert findings["catalog"]["level"] == "error"
    assert findings["changes"]["level"] == "error"
