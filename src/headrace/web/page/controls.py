"""The form of a view's page: keys, range, and what the chart shows. It needs no script, and what it makes is a URL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.define.durations import DAY_MS, HOUR_MS, MINUTE_MS
from headrace.server.state import ViewStatus
from headrace.web.page.asked import OLDEST, Asked, numeric_columns, view_path
from headrace.web.page.html import Html, tag
from headrace.web.page.series import TOP

RANGES = {"-15m": 15 * MINUTE_MS, "-1h": HOUR_MS, "-6h": 6 * HOUR_MS, "-1d": DAY_MS, "-7d": 7 * DAY_MS,
          "-30d": 30 * DAY_MS, "-365d": 365 * DAY_MS}  # fmt: skip
MANY_WINDOWS = 2000  # a range of more is not suggested


def controls(view: ViewStatus, asked: Asked) -> Html | None:
    """The form, filled in with what is asked for."""
    fields = [*_keys(view, asked), *_range(view, asked), *_chart(view, asked)]
    if not fields:
        return None
    asked_for = asked != Asked(asked.view, sort=asked.sort)
    parts = [
        *fields,
        tag("input", type="hidden", name="sort", value=asked.sort) if asked.sort else None,
        tag("button", "Show"),
        tag("a", "Clear", href=view_path(asked.view), data_stay=True) if asked_for else None,
        tag("p", _hint(view), class_="quiet"),
    ]
    return tag("form", parts, method="get", action=view_path(asked.view), class_="filter", role="search")


def _keys(view: ViewStatus, asked: Asked) -> Iterable[Html]:
    for key in view.keys:
        given = [text for name, text in asked.keys if name == key]
        yield _text(f"key.{key}", key, given[0] if given else "")
        for text in [*given[1:], ""] if given else []:
            yield _text(f"key.{key}", f"or {key}", text)


def _range(view: ViewStatus, asked: Asked) -> Iterable[Html]:
    if view.window is None:
        return
    size_ms, every_ms = view.window
    likely = [text for text, ms in RANGES.items() if size_ms <= ms <= MANY_WINDOWS * every_ms]
    yield _text("start", "from", asked.start, choices="ranges", placeholder="newest")
    yield _text("end", "to", asked.end, placeholder="now")
    yield tag("datalist", [tag("option", value=text) for text in (*likely, OLDEST)], id="ranges")


def _chart(view: ViewStatus, asked: Asked) -> Iterable[Html]:
    numbers = numeric_columns(view)
    if len(numbers) > 1:
        yield _choice("column", "chart", asked.column or numbers[0], {name: name for name in numbers})
    keys = view.keys
    if keys:
        timed = view.window_ms is not None
        top = f"top {TOP} by " if timed else "by "
        choices = {"": "all keys together" if timed else f"by {', '.join(keys)}"}
        choices |= {key: f"{top}{key}" for key in keys if timed or len(keys) > 1}
        if timed and len(keys) > 1:
            choices[",".join(keys)] = f"{top}{', '.join(keys)}"
        given = ",".join(asked.by)
        choices.setdefault(given, f"{top}{', '.join(asked.by)}")
        if len(choices) > 1:
            yield _choice("by", "series" if timed else "bars", given, choices)


def _text(name: str, label: str, text: str, *, choices: str | None = None, placeholder: str | None = None) -> Html:
    field = tag("input", name=name, value=text or None, autocomplete="off", list=choices, placeholder=placeholder)
    return tag("label", tag("span", label), field)


def _choice(name: str, label: str, chosen: str, choices: Mapping[str, str]) -> Html:
    options = [tag("option", text, value=value, selected=value == chosen) for value, text in choices.items()]
    return tag("label", tag("span", label), tag("select", options, name=name))


def _hint(view: ViewStatus) -> str:
    parts = [r"Keys: empty is all, \N is NULL."] if view.keys else []
    if view.window_ms is not None:
        parts.append(f"Times: UTC such as 2026-03-01T12:00, or before the newest event such as -6h; {OLDEST} is all.")
    return " ".join(parts)
