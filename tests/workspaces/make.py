"""Makes a workspace that is kept in the tests, and records its answers: `python -m tests.workspaces.make NAME`.

To be run by the code whose formats are to be kept, before they change; later code must open the workspace and give the
same answers. It holds two streams, dead letters, late events, a record of files that were sent, batch tables and speed
rows, an edited view with a retired version, and events that are in the journal only: its server was killed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.transport.journal.journal_records import list_segments, pack
from tests.server import COMMAND, UpServer
from tests.waiting import wait_until
from tests.workspaces import kept
from tests.workspaces.kept import NAME, archive

FOLDER = Path("/tmp/headrace-kept") / NAME  # fixed, since a file that was sent is known by its path
FILES = (FOLDER / "first.ndjson", FOLDER / "second.ndjson")
SETTINGS = "retire_after_s = 1e10\nrehearse = false\n"  # a retired version is kept, however old the workspace is
DEFINITIONS = """
CREATE STREAM visits (
  visitor STRING NOT NULL, page STRING, status INT, bytes BIGINT, took DOUBLE, at TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 1 MINUTE
);
CREATE STREAM orders (id BIGINT NOT NULL, country STRING, amount DECIMAL(10, 2));
CREATE MATERIALIZED VIEW traffic AS
SELECT page, count(*) AS hits, count(*) FILTER (WHERE status >= 500) AS errors, sum(bytes) AS bytes,
       avg(took) AS took, approx_count_distinct(visitor) AS visitors
FROM visits GROUP BY page, window(at, '1 minute');
CREATE MATERIALIZED VIEW totals AS
SELECT count(*) AS visits, min(at) AS first, max(bytes) AS most, approx_count_distinct(visitor) AS visitors FROM visits;
CREATE MATERIALIZED VIEW revenue AS
SELECT country, count(*) AS orders, sum(amount) AS amount FROM orders GROUP BY country;
"""
EDIT = ("FROM visits GROUP BY", "FROM visits WHERE status <> 304 GROUP BY")
BAD = ['{"page": "/nobody"}', "not JSON", '{"visitor": "v", "at": "yesterday"}']
# All that the lake holds leaves the journal, as it does after a day: how far files were sent is written down first.
RECLAIM = """
import sys, time
from pathlib import Path
from headrace.define.catalog import load
from headrace.lake.delta_table import LakeTable
from headrace.server.leasing import take_lease
from headrace.transport.journal.journal import Journal
from headrace.workspace.settings import Workspace
workspace = Workspace.open(sys.argv[1])
lease = take_lease(workspace, None)
end = LakeTable(workspace.lake("visits"), load(workspace.definitions).streams["visits"], None).state.position
late = [0]
clock_us, monotonic_s = (lambda: time.time_ns() // 1000 + late[0]), (lambda: time.monotonic() + late[0] / 1e6)
journal = Journal(workspace.journal("visits"), fence=lease.fence, lake_end=end, clock_us=clock_us,
                  monotonic_s=monotonic_s)
late[0] = 2 * 24 * 3600 * 1_000_000
assert journal.reclaim(end) > 0
journal.close()
lease.release()
"""


def visit(number: int, minute: int) -> dict[str, Any]:
    """A visit of a fixed sequence; minutes past noon."""
    return {
        "visitor": f"visitor {number * 7 % 40}",
        "page": ("/", "/cart", "/help", None)[number % 4],
        "status": (200, 200, 304, 500, 200)[number % 5],
        "bytes": number * 37 % 1000,
        "took": number / 8,
        "at": f"2026-03-01T{12 + minute // 60:02d}:{minute % 60:02d}:{number % 60:02d}Z",
    }


def order(number: int) -> dict[str, Any]:
    return {"id": number, "country": ("fr", "de", None)[number % 3], "amount": f"{number}.{number % 100:02d}"}


def run(folder: Path, *arguments: str) -> str:
    """Run a command on a workspace; what it printed."""
    command = [*COMMAND, *arguments, "-w", str(folder)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, (arguments, ended.stdout, ended.stderr)
    return ended.stdout


def asking(folder: Path) -> kept.Ask:
    return lambda *arguments: json.loads(run(folder, *arguments, "--json"))


@contextmanager
def serving(folder: Path, **variables: str) -> Iterator[UpServer]:
    server = UpServer(folder, **variables)
    try:
        yield server.wait_until_ready()
        server.stop()
    finally:
        server.kill()


def send(server: UpServer, stream: str, events: list[dict[str, Any]], key: str) -> None:
    server.wait_for_token(server.post(stream, events, key)["token"])


def send_file(folder: Path, file: Path, lines: list[str]) -> None:
    file.write_text("\n".join(lines) + "\n")
    run(folder, "send", "visits", str(file), "--wait")


def make(folder: Path) -> None:
    (folder / "definitions").mkdir(parents=True)
    (folder / "headrace.toml").write_text(SETTINGS)
    definitions = folder / "definitions" / "shop.sql"
    definitions.write_text(DEFINITIONS)
    with serving(folder) as server:
        send_file(folder, FILES[0], [json.dumps(visit(n, n // 20)) for n in range(200)] + BAD)
        send(server, "orders", [order(n) for n in range(50)], "orders-1")
        run(folder, "refresh", "traffic")
        run(folder, "refresh", "revenue")
    subprocess.run([sys.executable, "-c", RECLAIM, str(folder)], check=True)
    with serving(folder) as server:
        send(server, "visits", [visit(n, n // 20) for n in range(200, 300)], "visits-1")
        definitions.write_text(DEFINITIONS.replace(*EDIT))
        run(folder, "apply", "--yes")
        send(server, "visits", [visit(n, n % 3) for n in range(300, 340)], "late")
        send(server, "orders", [order(n) for n in range(50, 60)], "orders-2")
        send_file(folder, FILES[1], [json.dumps(visit(n, n // 20)) for n in range(340, 400)] + BAD[:1])
        server.kill()
    with serving(folder, HEADRACE_FAULT="append.before_commit") as server:
        server.post("visits", [visit(n, n // 20) for n in range(400, 420)], "visits-2")
        wait_until(lambda: server.process.poll() is not None, 60, server.log_tail)
    tear(folder / "data" / "journal" / "orders")


def tear(journal: Path) -> None:
    """Half a record at the end, as a loss of power leaves it."""
    segment = list_segments(journal)[-1]
    with segment.path.open("ab") as file:
        file.write(pack(b"", b"{}\n" * 10, 0, segment.end)[:20])


def keep(folder: Path, target: Path) -> None:
    """Pack what counts: no logs, no temporary files."""
    names = ["headrace.toml", "definitions", "data"]

    def wanted(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        parts = Path(entry.name).parts
        entry.uname = entry.gname = ""
        return None if parts[1:3] in (("data", "logs"), ("data", "scratch")) else entry

    with tarfile.open(target, "w:xz") as tar:
        for name in names:
            tar.add(folder / name, f"{NAME}/{name}", filter=wanted)


def record(name: str, scratch: Path) -> dict[str, Any]:
    """The answers without a server, which are those before the recovery, and the ones of a server."""
    offline = asking(kept.unpack(name, scratch / "offline"))
    answers = {"offline": {**kept.views(offline), "versions": kept.versions(offline)}}
    folder = kept.unpack(name, scratch / "served")
    ask = asking(folder)
    with serving(folder) as server:
        kept.wait_for_all(server)
        answers["served"] = {**kept.views(ask), "streams": kept.streams(ask)}
        answers["sent"] = {name: kept.sent(server, name) for name in map(str, FILES)}
        run(folder, "rollback", "traffic", "--yes")
        kept.wait_for_all(server)
        answers["rolled back"] = kept.views(ask)["traffic"]
    return answers


if __name__ == "__main__":
    name = sys.argv[1]
    make(FOLDER)
    keep(FOLDER, archive(name))
    with tempfile.TemporaryDirectory() as scratch:
        answers = record(name, Path(scratch))
    archive(name).with_name(f"{name}.json").write_text(json.dumps(answers, indent=1) + "\n")
