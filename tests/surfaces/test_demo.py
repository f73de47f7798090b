"""`headrace demo` as a user runs it: the real server, every row checked, nothing left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from headrace.workspace.lease_holder import read_holder

DEMO = [sys.executable, "-c", "import sys; from headrace.cli import main; sys.exit(main())", "demo"]


def start(tmp_path, *options):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    return subprocess.Popen(
        [*DEMO, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    )


def runs(pid):
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def test_all_answers_of_a_short_run_are_correct(tmp_path):
    folder = tmp_path / "shop"
    picture = tmp_path / "demo.svg"
    options = ("--seconds", "4", "--rate", "1500", "--seed", "11", "--json")
    process = start(tmp_path, *options, "--keep", str(folder), "--record", str(picture))
    output, _ = process.communicate(timeout=550)
    assert process.returncode == 0, output
    report = json.loads(output)
    assert report["ok"] is True
    assert report["events"] == 6_001
    assert {view["view"] for view in report["views"]} == {
        "traffic",
        "revenue",
        "pulse",
        "audience",
        "sources",
        "countries",
    }
    assert all(view["mismatches"] == 0 and view["rows"] for view in report["views"])
    assert all(account["ok"] for account in report["accounts"])
    assert report["posts_repeated"] > 0
    assert report["late"] > 0
    edit, late = report["edit"], report["late_event"]
    assert [step["name"] for step in edit["steps"]] == ["plan", "build", "swap", "compare"]
    assert edit["versions"] == [1, 2]
    assert (edit["answers_failed"], edit["audit"]["agreed"], edit["audit"]["drift"]) == (0, True, [])
    assert set(edit["answers_by_version"]) == {"1", "2"}
    assert edit["events_read"] > 0
    assert min(edit["estimated_s"], edit["served_after_s"]) > 0
    assert late["after"]["hits"] == (late["before"] or {"hits": 0})["hits"] + 1
    assert late["explained"]["correction"] is True
    assert late["explained"]["behind_ms"] == 3 * 3_600_000
    assert "AS slowest" in (folder / "definitions" / "shop.sql").read_text()
    svg = picture.read_text()
    assert "all&#160;rows&#160;are&#160;correct" in svg
    assert "url(" not in svg.replace("url(#", "")
    holder = read_holder(folder / "data" / "lease.json")
    assert holder.released
    assert not runs(holder.pid)


def test_a_stopped_run_leaves_no_server_and_no_folder(tmp_path):
    process = start(tmp_path, "--seconds", "60")
    deadline = time.monotonic() + 400
    holder = None
    while holder is None:
        assert time.monotonic() < deadline, "the server never took its workspace"
        time.sleep(0.1)
        holder = next(map(read_holder, tmp_path.glob("headrace-demo-*/data/lease.json")), None)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=180)
    assert process.returncode == 130
    assert output.endswith("interrupted; nothing was checked\n")
    assert "Traceback" not in output
    assert not runs(holder.pid)
    assert not list(tmp_path.glob("headrace-demo-*"))


def test_a_folder_that_is_not_empty_is_not_changed(tmp_path):
    (tmp_path / "mine").write_text("keep me")
    process = start(tmp_path, "--keep", str(tmp_path))
    output, _ = process.communicate(timeout=180)
    assert process.returncode == 1
    assert f"folder '{tmp_path}' is not empty; choose a new folder; nothing was changed" in output.replace("\n", "")
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]


def test_a_server_that_cannot_start_is_one_sentence_and_a_log(tmp_path):
    environment = {**os.environ, "HEADRACE_APPEND_MB": "none", "TMPDIR": str(tmp_path)}
    demo = subprocess.run(DEMO, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert demo.returncode == 1
    assert "Traceback" not in demo.stdout + demo.stderr
    assert "the server ended with exit code 1: " in demo.stdout
    assert "'append_mb' has an invalid value" in demo.stdout
    assert f"the server log in {next(tmp_path.glob('headrace-demo-*'))}/up.log" in demo.stdout


def test_without_java_nothing_is_started(tmp_path):
    environment = {**os.environ, "JAVA_HOME": str(tmp_path / "no-java"), "TMPDIR": str(tmp_path)}
    demo = subprocess.run(DEMO, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert demo.returncode == 1
    assert "Java was not found" in demo.stdout + demo.stderr
    assert not list(tmp_path.iterdir())
