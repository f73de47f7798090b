"""If the journal or lake of a stream was written by a newer Headrace, other streams continue to accept events."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.newer import make_lake_newer, make_newer
from tests.surfaces.conftest import Ran, Served, visit

Command = Callable[..., Ran]
ORDERS = "CREATE STREAM orders (id BIGINT NOT NULL);"


@pytest.fixture
def two_streams(folder: Path, headrace: Command) -> Path:
    (folder / "definitions" / "orders.sql").write_text(ORDERS)
    assert headrace("apply", "--yes", "-w", folder).code == 0
    return folder


@pytest.mark.parametrize(("what", "make"), [("journal", make_newer), ("lake", make_lake_newer)])
def test_other_streams_continue(
    two_streams: Path, serve: Callable[..., Served], headrace: Command, what: str, make: Callable[[Path], None]
) -> None:
    serve(two_streams).stop()
    folder = two_streams / "data" / what / "orders"
    make(folder)
    served = serve(two_streams)
    reply = served.http.post("/v1/streams/orders/events", json=[{"id": 1}])
    newer = f"{what} '{folder}' was written by a newer Headrace"
    assert (reply.status_code, reply.json()["error"]["code"]) == (500, "newer_format")
    assert reply.json()["error"]["message"] == newer
    assert served.http.post("/v1/streams/visits/events", json=[visit()]).json()["accepted"] == 1
    served.stop()
    streams = {stream["name"]: stream for stream in headrace("streams", "-w", two_streams, "--json").json}
    assert newer in streams["orders"]["error"]
    assert streams["visits"]["error"] is None
    (two_streams / "orders.ndjson").write_text('{"id": 1}\n')
    result = headrace("send", "orders", two_streams / "orders.ndjson", "-w", two_streams)
    assert (result.code, newer in result.err) == (1, True), result


def test_commands_refuse_a_newer_workspace(applied: Path, headrace: Command) -> None:
    make_newer(applied / "data")
    for command in ("status", "plan", "up", "apply"):
        result = headrace(command, "-w", applied)
        assert result.code == 1, command
        assert f"workspace '{applied}/data' was written by a newer Headrace; found format 3" in result.err
