"""`headrace explain` and its endpoint where there is nothing to explain yet, or the question is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from .conftest import Ran, Served


def test_mistakes_over_http(served: Served) -> None:
    for path, status, words in [
        ("traffic/explain?key.page=/home&at=2026-03-01", 503, "Spark is starting"),
        ("traffic/explain?at=2026-03-01", 400, "found none of 'page'"),
        ("traffic/explain?key.page=/home", 400, "has windows, so a time must be given; found no time"),
        ("traffic/explain?key.page=a&key.page=b", 400, "'key.page' is given twice"),
        ("traffic/explain?at=2026-03-01&at=2026-03-02", 400, "'at' is given twice"),
        ("traffic/explain?page=/home", 400, "explain has no parameter 'page'"),
        ("traffic/explain?key.page=/home&at=2026-03-01&limit=0", 400, "limit is out of range"),
        ("traffic/explain?key.page=/home&at=2026-03-01&cursor=x", 400, "cursor is out of range"),
        ("traffic/explain?key.page=/home&at=-1h", 400, "has no event yet to count from"),
        ("traffic/explain?key.page=/home&at=2026-03-01&window=90s", 400, "not a multiple of the view's pane"),
        ("traffik/explain?key.page=/home&at=2026-03-01", 404, "did you mean 'traffic'?"),
    ]:
        reply = served.http.get(f"/v1/views/{path}")
        error = reply.json()["error"]
        assert reply.status_code == status, (path, reply.text)
        assert words in "; ".join(f"found {error[n]}" if n == "found" else str(error[n]) for n in error), (
            path,
            error,
        )


def test_mistakes_on_the_command_line(applied: Path, headrace: Callable[..., Ran]) -> None:
    options = ("--key", "page=/home", "--at", "2026-03-01")
    assert "view 'traffic' has never been computed" in headrace("explain", "traffic", *options, "-w", applied).err
    assert "view 'traffik' does not exist; did you mean" in headrace("explain", "traffik", *options, "-w", applied).err
    assert "is not a key and a value" in headrace("explain", "traffic", "--key", "page", "-w", applied).err
