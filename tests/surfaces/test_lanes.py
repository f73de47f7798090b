"""The lane that updates a view, and why it is Spark, in every surface; over a real runtime without Spark."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from tests.surfaces.conftest import Ran, Served

SLOW = "CREATE MATERIALIZED VIEW slow AS SELECT count(*) AS hits FROM visits WHERE page ILIKE '/a%';"
REASON = "WHERE: only Spark computes page ILIKE '/a%'"
OFF = "the setting fused_lane is false"


@pytest.fixture
def slow(applied: Path, headrace: Callable[..., Ran]) -> Path:
    """A workspace with a view that only Spark computes, beside one that both lanes can compute."""
    (applied / "definitions" / "slow.sql").write_text(SLOW)
    plan = headrace("plan", "-w", applied)
    assert plan.code == 0
    assert f"    hint: Spark jobs will update it, not the faster fused lane; {REASON}\n" in plan.out
    assert headrace("apply", "--yes", "-w", applied).code == 0
    return applied


def lanes(served: Served) -> dict[str, tuple[str, str | None]]:
    views = served.http.get("/v1/views").json()["views"]
    return {view["name"]: (view["lane"], view["lane_reason"]) for view in views}


def test_the_lane_and_its_reason_are_shown(
    slow: Path, serve: Callable[..., Served], headrace: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    served = serve(slow)
    assert lanes(served) == {"slow": ("spark", REASON), "traffic": ("fused", None)}
    [version] = served.http.get("/v1/views/slow/versions").json()["versions"]
    assert (version["lane"], version["lane_reason"]) == ("spark", REASON)
    page = unescape(served.http.get("/views/slow").text)
    assert re.search(f"updated by Spark: <bdi[^>]*>{re.escape(REASON)}</bdi>", page)
    assert "updated by Spark" not in served.http.get("/views/traffic").text
    for running in (True, False):
        if not running:
            served.stop()
        views = headrace("views", "-w", slow).out
        assert "lane" in views.splitlines()[0]
        assert views.endswith(f"\n\nSpark updates view slow: {REASON}.\n")
        versions = headrace("versions", "slow", "-w", slow).out
        assert versions.splitlines()[0].split()[:3] == ["version", "state", "lane"]
        assert versions.endswith(f"\n\nSpark updates version 1: {REASON}.\n")
        assert "Spark" not in headrace("versions", "traffic", "-w", slow).out
        [version] = headrace("versions", "slow", "-w", slow, "--json").json
        assert (version["lane"], version["lane_reason"]) == ("spark", REASON)


def test_without_the_fused_lane_the_setting_is_the_reason(slow: Path, serve: Callable[..., Served]) -> None:
    assert lanes(serve(slow, fused_lane=False)) == {"slow": ("spark", OFF), "traffic": ("spark", OFF)}


def test_a_version_that_is_not_updated_has_no_lane(served: Served, applied: Path, headrace: Callable[..., Ran]) -> None:
    file = applied / "definitions" / "shop.sql"
    file.write_text(file.read_text().replace("AS hits", "AS seen"))
    assert headrace("apply", "--yes", "-w", applied).code == 0
    versions = served.http.get("/v1/views/traffic/versions").json()["versions"]
    assert [(version["state"], version["lane"], version["lane_reason"]) for version in versions] == [
        ("serving", "fused", None),
        ("retired", None, None),
    ]
