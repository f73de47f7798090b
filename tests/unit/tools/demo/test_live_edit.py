"""The edit and the late event in the terminal, from figures alone; and when the late event is as expected."""

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.tools.demo.live_edit import LATE_US, EditStep, Late, LiveEdit, late_visit
from headrace.tools.demo.screen import render_edit, render_late, render_page
from tests.unit.tools.demo.screen import figures, render

NEWEST_US = 1_764_322_000_000_000


def edit():
    view_edit = LiveEdit("http://127.0.0.1:1", Path("shop.sql"), begin=threading.Event(), stopping=threading.Event())
    view_edit.steps = [
        EditStep("plan", "+ max(load_ms) AS slowest: a build, 23,433 events, under a second", took_s=0.1),
        EditStep("build", "23,433 events read from the log, while version 1 answered", took_s=4.2),
        EditStep("swap", "version 2 answers, with 'slowest' for all of history", took_s=0.4),
        EditStep("compare", "the batch layer reads again what the speed layer has"),
    ]
    view_edit.queries.answers, view_edit.queries.by_version, view_edit.queries.longest_ms = 321, {1: 300, 2: 21}, 87
    return view_edit


def late():
    def event(visitor, slowest):
        return {
            "position": 4711, "commit": 9, "event_time": "2025-11-28T06:20:00Z", "behind_ms": 10_800_000,
            "arguments": {"hits": 1, "slowest": slowest}, "correction": True, "value": f'{{"visitor":"{visitor}"}}',
        }  # fmt: skip

    explanation = {
        "window_start": "2025-11-28T06:00:00Z", "window_end": "2025-11-28T07:00:00Z", "found": 3, "commits": 30,
        "corrections": 3, "agrees": True, "events": [event("v1", 12.5), event("v2", 40.5), event("v-late", 1999.5)],
    }  # fmt: skip
    visit = {"page": "/checkout", "at": "2025-11-28T06:20:00.000000Z"}
    return Late(visit, {"hits": 2, "slowest": 40.5}, {"hits": 3, "slowest": 1999.5}, explanation)


def test_the_steps_and_the_queries_are_displayed():
    page = render(render_edit(edit()), width=100)
    for text in (
        "✓  plan",
        "…  compare",
        "23,433 events",
        "4.2 s",
        "321 answers",
        "21 by version 2",
        "0 failed",
        "87 ms",
    ):
        assert text in page


def test_the_page_fits_a_common_terminal_while_a_view_is_edited():
    demo = figures()
    demo.edit = edit()
    lines = render(render_page(demo), width=100).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 100


def test_the_cell_of_the_late_event_is_explained():
    page = render(render_late(late()), width=100)
    for text in ("three hours late: /checkout at 06:20:00", "hits 2 → 3", "slowest 40.5 → 1999.5", "v-late", "3.0 h"):
        assert text in page
    assert page.count("correction ") == 3
    assert late().ok


@pytest.mark.parametrize(
    "wrong",
    [
        {"after": {"hits": 2, "slowest": 1999.5}},
        {"after": {"hits": 3, "slowest": 40.5}},
        {"before": None},
        {"after": None},
        {"explanation": {**late().explanation, "agrees": False}},
        {"explanation": {**late().explanation, "found": 2}},
        {"explanation": {**late().explanation, "events": late().explanation["events"][:2]}},
    ],
)
def test_a_wrong_cell_is_not_ok(wrong):
    assert not replace(late(), **wrong).ok


def test_the_late_event_is_three_hours_behind_the_newest():
    assert late_visit(NEWEST_US).at_us == NEWEST_US - LATE_US
