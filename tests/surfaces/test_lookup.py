"""Many keys in one request, only settled rows, and corrections per row: the same by HTTP, Python and command line."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from headrace.api.connect import Connection, connect
from headrace.errors import QuestionError
from tests.surfaces.conftest import Ran, Served
from tests.surfaces.sql_shop import fill, visit_of

MINUTES = range(5, 10)  # the last of them is not settled
KEYS = [{"page": "/b"}, {"page": "/none"}, {"page": "/a"}, {"page": "/b"}]


@pytest.fixture
def shop(applied: Path, serve: Callable[..., Served], tmp_path: Path) -> Served:
    """Two pages over five minutes."""
    served = serve(applied)
    fill(served.runtime, tmp_path, visits=[visit_of(page, at) for at in MINUTES for page in ("/a", "/b")])
    return served


@pytest.fixture(params=["server", "folder"])
def connection(shop: Served, request: pytest.FixtureRequest) -> Iterator[Connection]:
    """Through the server, and from its folder once it has stopped."""
    folder = shop.runtime.workspace.folder
    if request.param == "folder":
        shop.stop()
    with connect(folder) as opened:
        yield opened


def test_a_lookup_gives_rows_in_the_order_of_its_keys_and_names_the_missing(connection: Connection) -> None:
    answer = connection.lookup("traffic", KEYS, window="all")
    assert [(row["page"], row["hits"]) for row in answer.rows()] == [("/b", 5), ("/a", 5), ("/b", 5)]
    assert answer.missing == ({"page": "/none"},)
    by_time = connection.lookup("traffic", KEYS[2:], start="-3m", order="newest").rows()
    assert [row["page"] for row in by_time] == ["/a", "/a", "/b", "/b"]
    assert by_time[0]["window_start"] > by_time[1]["window_start"]
    assert answer.arrow().num_rows == 3


def test_a_lookup_never_gives_a_part(connection: Connection) -> None:
    with pytest.raises(QuestionError, match=r"more than 10,000 rows.*fewer keys"):
        connection.lookup("traffic", [{}] * 9 + [{"page": "/a"}] * 2_000)
    with pytest.raises(QuestionError, match="a lookup takes a list of keys; found 'page'"):
        connection.lookup("traffic", "page")  # type: ignore[arg-type]


def test_http_looks_keys_up(shop: Served) -> None:
    path = "/v1/views/traffic/lookup"
    reply = shop.http.post(path, json={"keys": KEYS, "window": "all"}).json()
    assert [row["page"] for row in reply["rows"]] == ["/b", "/a", "/b"]
    assert reply["missing"] == [{"page": "/none"}]
    assert "missing" not in shop.http.post(path, json={"key": KEYS}).json()
    again = shop.http.post(path, json={"keys": KEYS, "window": "all"}).json()
    assert (again["rows"], again["missing"]) == (reply["rows"], reply["missing"])


@pytest.mark.parametrize("lines", ['{"page": "/b"}\n\n{"page":"/none"}\n{"page": "/a"}\n', "/b\n/none\n/a"])
def test_the_command_takes_keys_from_a_file_or_its_input(
    shop: Served, headrace: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: str
) -> None:
    file = tmp_path / "keys"
    file.write_text(lines)
    options = ("ask", "traffic", "-w", shop.url, "--window", "all", "--keys-from")
    answer = headrace(*options, file, "--json").json
    assert [row["page"] for row in answer["rows"]] == ["/b", "/a"]
    assert answer["missing"] == [{"page": "/none"}]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    assert "no rows for 1 key: page=/none" in headrace(*options, "-").out


def test_the_command_refuses_keys_that_it_cannot_use(
    shop: Served, headrace: Callable[..., Ran], tmp_path: Path
) -> None:
    file = tmp_path / "keys"
    options = ("ask", "traffic", "-w", shop.url, "--keys-from", file)
    assert "cannot be read" in headrace(*options).err
    file.write_text("\n")
    assert "has no keys" in headrace(*options).err
    file.write_text("{page}")
    assert "line 1 is not JSON" in headrace(*options).err
    file.write_text("/a")
    assert "it takes no --limit" in headrace(*options, "--limit", 3).err


def test_settled_rows_alone(connection: Connection) -> None:
    everything = connection.ask("traffic").rows()
    settled = [row for row in everything if row["settled"]]
    assert 0 < len(settled) < len(everything)
    assert connection.ask("traffic", settled_only=True).rows() == settled
    first = connection.ask("traffic", settled_only=True, limit=3)
    rest = connection.ask("traffic", settled_only=True, limit=100, cursor=first.next_cursor)
    assert [*first.rows(), *rest.rows()] == settled
    assert first.more_rows == len(settled) - 3
    sliding = connection.ask("traffic", window="3m", every="1m").rows()
    assert connection.ask("traffic", window="3m", every="1m", settled_only=True).rows() == [
        row for row in sliding if row["settled"]
    ]
    with pytest.raises(QuestionError, match="without an end is never settled"):
        connection.ask("traffic", window="all", settled_only=True)


def test_the_command_shows_settled_rows_alone(shop: Served, headrace: Callable[..., Ran]) -> None:
    answer = headrace("ask", "traffic", "-w", shop.url, "--settled-only", "--json").json
    assert [row["settled"] for row in answer["rows"]] == [True] * 8
    assert "8 rows: 8 settled, 0 provisional" in headrace("ask", "traffic", "-w", shop.url, "--settled-only").out


def test_events_and_corrections_of_each_row(shop: Served, headrace: Callable[..., Ran]) -> None:
    reply = shop.http.get("/v1/views/traffic?corrections=true").json()
    assert sum(row["events"] for row in reply["rows"]) == sum(reply["events"].values())
    assert sum(row["corrections"] for row in reply["rows"]) == reply["corrections"]
    assert [column["name"] for column in reply["columns"]][-3:] == ["settled", "events", "corrections"]
    assert "corrections" not in shop.http.get("/v1/views/traffic").json()["rows"][0]
    with connect(shop.url) as connection:
        assert connection.ask("traffic", corrections=True).arrow().column_names[-2:] == ["events", "corrections"]
    assert orjson.loads(headrace("ask", "traffic", "-w", shop.url, "--corrections", "--json").out)["rows"][0]["events"]
