"""Versions, rollback, refresh and audits over a server without Spark: output and refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from headrace.cli.waiting import _serves, interruptible
from headrace.define.catalog import load
from headrace.errors import ConflictError, NotReadyError
from headrace.lake.delta_table import LakeTable
from headrace.lake.parquet_file import NewFile
from headrace.transport.position import Position
from headrace.workspace.settings import Workspace
from tests.status import build_status, view_status
from tests.surfaces.conftest import Ran, Served


def edit(folder: Path, old: str, new: str) -> None:
    sql = folder / "definitions" / "shop.sql"
    assert old in sql.read_text()
    sql.write_text(sql.read_text().replace(old, new))


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "words"),
    [
        ("GET", "trafic/versions", None, 404, "did you mean 'traffic'? `headrace views` lists all"),
        ("GET", "trafic/audits", None, 404, "view 'trafic' does not exist"),
        ("POST", "trafic/rollback", None, 404, "view 'trafic' does not exist"),
        ("POST", "trafic/refresh", None, 404, "view 'trafic' does not exist"),
        ("POST", "traffic/rollback", None, 409, "has no earlier version to roll back to"),
        ("POST", "traffic/rollback", b'{"to": 7}', 404, "view 'traffic' has no version 7"),
        ("POST", "traffic/rollback", b'{"to": 1}', 409, "version 1 serves already"),
        ("POST", "traffic/rollback", b'{"to": "1"}', 422, "'to' has the wrong type"),
        ("POST", "traffic/rollback", b'{"too": 1}', 422, "'too' is not a parameter"),
        ("POST", "traffic/rollback", b"[]", 422, "the body is not an object"),
        ("POST", "traffic/rollback", b"{", 422, "the body is not JSON"),
        ("POST", "traffic/refresh", b'{"full": 1}', 422, "'full' has the wrong type"),
        ("POST", "traffic/refresh", None, 503, "cannot be refreshed yet: Spark is starting"),
    ],
)
def test_refusals(served: Served, method: str, path: str, body: bytes | None, status: int, words: str) -> None:
    reply = served.http.request(method, f"/v1/views/{path}", content=body)
    assert reply.status_code == status
    assert words in " ".join(str(part) for part in reply.json()["error"].values())


def test_a_free_edit_and_back(served: Served, applied: Path, headrace: Callable[..., Ran]) -> None:
    edit(applied, "AS hits", "AS seen")
    plan = headrace("plan", "-w", applied).out
    assert "~ view traffic  free: no event is read again, the rows stay" in plan
    assert plan.endswith("1 to change: 1 free\n")
    assert headrace("apply", "--yes", "-w", applied).code == 0
    assert "seen" in served.http.get("/v1/views/traffic").json()["columns"][3]["name"]
    table = headrace("versions", "traffic", "-w", applied).out
    assert "column renamed: count(*) AS hits → seen" in table
    newest, oldest = headrace("versions", "traffic", "-w", applied, "--json").json
    assert (newest["version"], newest["state"], newest["changed_from"]) == (2, "serving", 1)
    assert (oldest["state"], oldest["has_rows"], oldest["changes"]) == ("retired", False, [])
    back = headrace("rollback", "traffic", "--yes", "-w", applied)
    assert "~ view traffic, version 2 → 1  free: no event is read again" in back.out
    assert back.out.endswith("View traffic is rolled back to version 1.\n")
    versions = headrace("versions", "traffic", "-w", applied, "--json").json
    assert [(v["version"], v["replaces"], v["changed_from"]) for v in versions] == [
        (3, 2, 2),
        (2, 1, 1),
        (1, None, None),
    ]
    assert versions[0]["changes"] == ["column renamed: count(*) AS seen → hits"]
    title, _, first, *_ = headrace("versions", "traffic", "-w", applied).out.splitlines()
    assert title.split()[-4:] == ["replaced", "changes", "to", "it"]
    assert "2   column renamed: count(*) AS seen → hits" in first
    assert served.http.get("/v1/views/traffic/versions").json()["versions"] == versions
    changes = headrace("plan", "-w", applied, "--json").json["changes"]
    assert [change["details"] for change in changes] == [["column renamed: count(*) AS hits → seen"]]


def test_an_edit_over_no_events_needs_no_spark(served: Served, applied: Path, headrace: Callable[..., Ran]) -> None:
    edit(applied, "sum(bytes)", "max(bytes)")
    assert "no events yet: it serves at once" in headrace("plan", "-w", applied).out
    assert headrace("apply", "--yes", "-w", applied).code == 0
    assert served.http.get("/v1/views/traffic").json()["version"] == 2
    audits = headrace("audit", "traffic", "-w", applied).out
    assert audits.startswith("View traffic has had no audit yet: the batch layer has computed all its rows.")
    assert "`headrace refresh traffic`" in audits


def test_without_a_server_versions_are_listed_and_changes_refused(
    served: Served, applied: Path, headrace: Callable[..., Ran]
) -> None:
    served.stop()
    assert [v["version"] for v in headrace("versions", "traffic", "-w", applied, "--json").json] == [1]
    assert headrace("audit", "traffic", "-w", applied, "--json").json["audits"] == []
    for command in (("rollback", "traffic", "--yes"), ("refresh", "traffic")):
        result = headrace(*command, "-w", applied)
        assert (result.code, "the server is not running; start `headrace up`, then try again" in result.err) == (
            1,
            True,
        )
    assert "view 'trafic' does not exist" in headrace("versions", "trafic", "-w", applied).err


def test_apply_without_a_server_prints_when_it_is_built(applied: Path, headrace: Callable[..., Ran]) -> None:
    workspace = Workspace.open(applied)
    lake = LakeTable(workspace.lake("visits"), load(workspace.definitions).streams["visits"], fence=2)
    (lake.folder / "_dead=false").mkdir(exist_ok=True)
    (lake.folder / "_dead=false" / "a.parquet").write_bytes(b"x" * 9)  # it is not read
    bounds = '"minValues":{"_commit":0},"maxValues":{"_commit":0},"nullCount":{}'
    file = NewFile("_dead=false/a.parquet", 9, 2, False, f'{{"numRecords":2,{bounds}}}')
    lake.commit(lake.state, Position.at(1), None, [file])
    edit(applied, "sum(bytes)", "max(bytes)")
    result = headrace("apply", "--yes", "-w", applied)
    assert result.out.endswith("Applied.\nNo server is running: the next `headrace up` runs the builds.\n"), result


def test_ctrl_c_ends_the_waiting_only(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as exit_, interruptible("traffic"):
        raise KeyboardInterrupt
    assert exit_.value.exit_code == 130
    message = "The server continues; `headrace versions traffic` shows the progress.\n"
    assert capsys.readouterr().err == message


def test_waiting_for_a_version_shows_progress_and_problems() -> None:
    build = {"version": 3, "state": "building", "applied_to": 5, "events_done": 1, "events": 9}
    progress: list[tuple[object, ...]] = []

    def serves(version: int | None, /, **building: object) -> bool:
        view = view_status(version=version, commits=7, building=build_status(**{**build, **building}))
        return _serves(view, "traffic", 3, lambda *words: progress.append(words))

    assert serves(3)
    assert not serves(1)
    assert not serves(1, state="ready")
    assert progress == [
        ("traffic", 1, 9, "version 3 of traffic: building"),
        ("traffic", 5, 7, "version 3 of traffic catches up"),
    ]
    with pytest.raises(ConflictError, match="version 3 was replaced before it could serve"):
        serves(1, version=4)
    for problem in ("stalled", "error"):
        with pytest.raises(NotReadyError, match="version 3 cannot be completed: boom; the server retries"):
            serves(1, **{problem: "boom"})
