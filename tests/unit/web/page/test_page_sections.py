"""The parts of the page: escaping, charts of extreme numbers, the cache, sessions and colours."""

from __future__ import annotations

import re
import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import unescape
from typing import Any
from xml.etree import ElementTree

import pytest

from headrace.define.catalog import parse
from headrace.html import data, join, number, plain, short, tag, value
from headrace.server.status import FieldStatus, StreamDefinition
from headrace.web.guard import LASTS_S, Sessions
from headrace.web.page.chart_series import ChartPoint, Series
from headrace.web.page.charts import chart
from headrace.web.page.first_steps import define_view, send_events
from headrace.web.page.page_frame import asset
from headrace.web.page.pages import Cache

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_text_is_escaped_in_content_and_attributes() -> None:
    evil = "<script>'\"&"
    element = tag("p", evil, [evil, tag("b", evil)], title=evil, data_x=evil)
    assert "<script" not in element
    assert element.count("&lt;script&gt;&#x27;&quot;&amp;") == 5
    assert join(None, "a", ["b", None]) == "ab"
    assert tag("input", name="x", required=True, value=None) == '<input name="x" required>'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\u202eb", r"a\u202eb"),
        ("\u2066x\u2069", r"\u2066x\u2069"),
        ("a\x00\x1b[31m\n", r"a\u0000\u001b[31m\u000a"),
        ("=HYPERLINK(1)", "=HYPERLINK(1)"),
        ("ÄÖ 日本 🎉", "ÄÖ 日本 🎉"),
        ("x" * 100_000, "x" * 120 + "… (100,000 characters)"),
    ],
)
def test_invisible_characters_are_escaped(text: str, expected: str) -> None:
    assert plain(text) == expected
    assert data(text).startswith(("<bdi>", '<bdi class="long">'))


def test_values_and_numbers() -> None:
    assert "NULL" in value(None)
    assert "&quot;&quot;" in value("")
    assert [number(n) for n in (1234567, 0.0, 0.5, 1e-9, 1e300, Decimal("1234.50"), float("nan"), float("-inf"))] == [
        "1,234,567", "0", "0.5", "1e-09", "1e+300", "1,234.50", "NaN", "-Infinity",
    ]  # fmt: skip
    assert [short(n) for n in (0, 12, 999, 1500, 2.5e6, 3e13, 1e200)] == [
        "0", "12", "999", "1.5 k", "2.5 M", "30 T", "1e+200",
    ]  # fmt: skip


def draw_bars(*values: Any, places: int = 20) -> tuple[str, list[dict[str, str]]]:
    points = [ChartPoint(at, f"window {at}", v, settled=at % 2 == 0) for at, v in enumerate(values)]
    end = NOON + timedelta(minutes=places)
    figure = chart(Series("hits", "hits per minute", points, places, NOON, end), "c")
    bars = []
    if "<svg" in figure:
        svg = ElementTree.fromstring(figure[figure.index("<svg") : figure.index("</svg>") + 6])
        bars = [rect.attrib for rect in svg.iter("rect")]
        for bar in bars:
            y, height = float(bar["y"]), float(bar["height"])
            assert 0 <= y <= 100, bar
            assert 0 < height <= 100.01, bar
            assert y + height <= 100.01, bar
    return figure, bars


def test_a_chart_has_a_description_and_axes() -> None:
    figure, bars = draw_bars(3, 6, 1)
    assert [float(bar["height"]) for bar in bars] == [50, 100, pytest.approx(16.67)]
    assert bars[1]["class"] == "provisional"
    assert "lowest 1; highest 6; last 1" in figure
    assert 'aria-labelledby="c-title c-desc"' in figure
    assert re.findall(r"<span>([^<]*)</span>", figure) == ["6", "0", "2026-03-01 12:00", "12:10", "12:20 UTC"]


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ([5], 1),
        ([0, 0], 2),
        ([None, 1, float("nan"), float("inf"), 2], 2),
        ([1e308, -1e308, 5], 3),
        ([-4, -2], 2),
        ([10**400, 7], 1),
        ([Decimal("1e37"), Decimal(-1)], 2),
        ([5e-324, 1e-320], 2),
    ],
)
def test_extreme_numbers_are_drawn_or_left_out(values: list[Any], count: int) -> None:
    assert len(draw_bars(*values)[1]) == count


def test_without_any_number_there_is_no_chart() -> None:
    for values in ([], [None], [float("nan"), 10**400]):
        figure, bars = draw_bars(*values)
        assert not bars
        assert "no number to draw" in figure


def test_a_chart_over_keys() -> None:
    points = [
        ChartPoint(0, "<b>", 10, settled=True),
        ChartPoint(1, "x\u202e", None, settled=True),
        ChartPoint(2, "c", 5, settled=True),
    ]
    figure = chart(Series("n", "n by k", points, 3), "c")
    assert figure.count("<li>") == 2
    assert "&lt;b&gt;" in figure


def test_commands_to_paste_are_quoted() -> None:
    fields = (
        FieldStatus("it's", "STRING", True, None),
        FieldStatus("n", "DECIMAL(10,2)", True, None),
        FieldStatus("c", "INT", True, "n + 1"),
    )
    hint = send_events(
        "http://h", "/tmp/a b", StreamDefinition("s", "json", fields, None, 0, None, None, None), token=True
    )
    assert "$HEADRACE_TOKEN" in hint
    assert "&#x27;/tmp/a b&#x27;" in hint
    assert "&quot;c&quot;" not in hint
    assert "&quot;n&quot;:&quot;1.50&quot;" in hint


def test_concurrent_callers_share_one_cached_value() -> None:
    clock = [0.0]
    calls: list[int] = []
    cache: Cache[int] = Cache(1.0, lambda: clock[0])

    def make() -> int:
        calls.append(1)
        return len(calls)

    threads = [threading.Thread(target=cache.get, args=("a", make)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    clock[0] = 0.99
    assert cache.get("a", make) == 1
    clock[0] = 1.0
    assert cache.get("a", make) == 2
    for key in range(1000):
        cache.get(key, lambda: 0)
    assert len(cache._entries) <= 64


def test_an_expensive_value_is_cached_longer() -> None:
    clock = [0.0]
    cache: Cache[float] = Cache(1.0, lambda: clock[0], lambda: clock[0])

    def slow() -> float:
        clock[0] += 2
        return clock[0]

    assert cache.get("a", slow) == 2
    clock[0] = 21.9
    assert cache.get("a", slow) == 2
    clock[0] = 22.0
    assert cache.get("a", slow) == 24


def test_a_session_expires_and_cannot_be_forged() -> None:
    clock = [1000.0]
    sessions = Sessions("open sesame", lambda: clock[0])
    header = sessions.begin(secure=True)
    assert {"HttpOnly", "SameSite=Strict", "Secure", "Path=/"} <= set(header.split("; "))
    cookie = header.partition(";")[0]
    assert sessions.holds(f"other=1; {cookie}")
    assert "sesame" not in cookie
    assert not Sessions("another", lambda: clock[0]).holds(cookie)
    name, _, content = cookie.partition("=")
    until, _, signature = content.partition(".")
    for forged in (
        f"{name}={int(until) + 9}.{signature}",
        f"{name}={until}.",
        f"{name}=",
        f"{name}=x.y",
        "",
        "a=b;;=",
        name,
    ):
        assert not sessions.holds(forged), forged
    clock[0] += LASTS_S
    assert not sessions.holds(cookie)
    assert sessions.is_token("open sesame")
    assert not sessions.is_token("öpen sesame")


def luminance(colour: str) -> float:
    digits = colour * 2 if len(colour) == 3 else colour
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(scheme: str) -> None:
    light, dark = asset("style.css").decode().split("@media (prefers-color-scheme: dark)", 1)
    colours = dict(re.findall(r"--([a-z-]+): #([0-9a-f]{3,6});", dark if scheme == "dark" else light))
    pairs = [(ink, ground) for ink in ("text", "quiet", "accent", "bad", "warn") for ground in ("ground", "surface")]
    pairs += [("bad", "bad-ground"), ("warn", "warn-ground"), ("good", "good-ground"), ("text", "bad-ground")]
    for ink, ground in pairs:
        low, high = sorted([luminance(colours[ink]), luminance(colours[ground])])
        assert (high + 0.05) / (low + 0.05) >= 4.5, (ink, ground)
    for line in ("one", "two", "three", "four", "five"):
        for ground in ("ground", "surface"):
            low, high = sorted([luminance(colours[f"line-{line}"]), luminance(colours[ground])])
            assert (high + 0.05) / (low + 0.05) >= 3, (line, ground)


def test_the_view_that_an_empty_workspace_is_shown_is_accepted() -> None:
    for name in ("visits", "web events"):
        sql = f"CREATE STREAM `{name}` (page STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at);\n"
        html = str(define_view(".", StreamDefinition(name, "json", (), "at", 0, None, None, None)))
        (view,) = re.findall(r"CREATE MATERIALIZED VIEW .*?;", unescape(html), re.DOTALL)
        assert list(parse(sql + view).views) == [f"{name}_per_minute"]
