"""What `headrace explain` prints of events that came late, and of those that did not."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from rich.console import Console

from headrace.cli.explain_command import render
from headrace.cli.fitted_table import WordConsole
from headrace.serve.answer import Answer
from headrace.serve.explanation import ExplainedEvent, Explanation
from headrace.types import BIGINT
from tests import wording

AT = datetime(2014, 9, 1, 12, 0, 0, 123456, tzinfo=UTC)
NOW = AT + timedelta(hours=100_751.1)
EVENT = ExplainedEvent(
    position=0,
    commit=0,
    arrived=NOW,
    event_time=AT,
    delay_ms=round((NOW - AT).total_seconds() * 1000),
    behind_ms=0,
    late=False,
    correction=False,
    in_view=True,
    value="{}",
    bytes=2,
    whole=True,
    arguments={"hits": 1},
)
CELL = Answer(
    view="traffic",
    version=1,
    columns=(("hits", BIGINT),),
    values=[(1,)],
    next_cursor=None,
    more_rows=0,
    commits={"visits": 1},
    newest_event=AT,
    at=NOW,
    freshness_ms=0,
    freshness_reason=None,
    events={"batch": 0, "speed": 1},
    corrections=0,
    approximate={},
    windows=None,
    stalled=None,
)
EXPLANATION = Explanation(
    cell=CELL,
    key={"year": 2014},
    window_start=None,
    window_end=None,
    found=1,
    found_in_view=1,
    late=0,
    corrections=0,
    commits=1,
    agrees=True,
    note=None,
    nearest=(),
    events=[EVENT],
    columns=(("hits", BIGINT),),
    keys=(("year", BIGINT),),
    next_cursor=None,
    took_ms=5,
)


def printed(explanation: Explanation) -> str:
    out = io.StringIO()
    Console(file=out, width=300).print(render(explanation))
    return out.getvalue()


def test_an_old_event_that_was_the_newest_is_delayed_and_not_late() -> None:
    text = printed(EXPLANATION)
    row = next(line for line in text.splitlines() if "{}" in line)
    assert row.split() == [
        *["0", "0", "2026-02-28", "11:06:00.123", "2014-09-01", "12:00:00.123456", "11.5", "years", "1", "{}"]
    ]
    assert text.startswith("traffic · year=2014\n")
    wording.check_line(text, 1, 0)


def test_an_event_fits_a_narrow_screen() -> None:
    value = '{"visitor":"ann","page":"/products/trousers","status":200,"bytes":512,"at":"2014-09-01T12:00:00Z"}'
    event = replace(EVENT, value=value, bytes=len(value))
    out = io.StringIO()
    WordConsole(file=out, width=80).print(render(replace(EXPLANATION, events=[event])))
    assert max(map(len, out.getvalue().splitlines())) <= 80
    assert value in "".join(line.strip() for line in out.getvalue().splitlines())


def test_a_late_event_shows_its_lateness() -> None:
    late = replace(EVENT, behind_ms=3 * 3_600_000, late=True, correction=True)
    text = printed(replace(EXPLANATION, events=[late], late=1, corrections=1))
    row = next(line for line in text.splitlines() if "{}" in line)
    assert row.split()[-6:] == ["years", "3.0", "h", "correction", "1", "{}"]
    wording.check_line(text, 1, 0)


def test_the_version_of_a_table_is_that_of_its_list() -> None:
    of_table = replace(CELL, view="users", commits={"users": 1_200})
    assert "· version 1,200 ·" in printed(replace(EXPLANATION, cell=of_table))
    assert "· version 1 ·" in printed(EXPLANATION)
