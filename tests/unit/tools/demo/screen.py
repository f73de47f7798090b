"""Figures of a demo, and their text in a terminal."""

import io

from rich.console import Console

from headrace.tools.demo.run_figures import Figures, StreamFigures
from headrace.tools.demo.traffic_sender import Tally

TRAFFIC = {"page": "/p/🎁", "hits": 1234, "errors": 2, "load_ms": 98.7}
AUDIENCE = {"visitors": 432, "at_checkout": 21, "window_end": "2025-11-28T09:10:00Z", "settled": True}


def figures():
    tally = Tally(events=9_876, accepted=9_800, refused=76, late=321, repeats=3)
    result = Figures(seed=7, flow_s=20, phase="sending events", url="http://127.0.0.1:1234")
    result.streams = [
        StreamFigures("visits", tally, events=9_700, dead_letters=44, per_second=3_456, newest="09:12:13")
    ]
    result.rates.extend([10, 4_000, 2_000])
    result.freshness_ms, result.corrections = 870, 210
    result.rows = {
        "traffic": [TRAFFIC, {**TRAFFIC, "page": None, "load_ms": None}],
        "revenue": [{"category": "Möbel", "orders": 12, "revenue": "1234.50"}],
        "audience": [{"window_start": "2025-11-28T09:00:00Z", **AUDIENCE}],
    }
    return result


def render(renderable, width=120):
    console = Console(file=io.StringIO(), width=width)
    console.print(renderable)
    return console.file.getvalue()
