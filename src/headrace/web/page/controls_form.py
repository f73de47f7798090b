"""The form of a view's page: keys, range, and what the chart shows. It needs no script; submitting it creates a URL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.html import Html, tag
from headrace.language.durations import DAY_MS, HOUR_MS, MINUTE_MS
from headrace.server.status import ViewStatus
from headrace.web.page.chart_series import TOP
from headrace.web.page.page_selection import OLDEST, PageSelection, numeric_columns, view_path

RANGES = {"-15m": 15 * MINUTE_MS, "-1h": HOUR_MS, "-6h": 6 * HOUR_MS, "-1d": DAY_MS, "-7d": 7 * DAY_MS,
          "-30d": 30 * DAY_MS, "-365d": 365 * DAY_MS}  # fmt: skip
MANY_WINDOWS = 2000  # a range of more is not suggested


def controls(view: ViewStatus, selection: PageSelection) -> Html | None:
    """The form, filled in with the current parameters."""
    fields = [*_keys(view, selection), *_range(view, selection), *_chart(view, selection)]
    if not fields:
        return None
    can_clear = selection != PageSelection(selection.view, sort=selection.sort)
    parts = [
        *fields,
        tag("input", type="hidden", name="sort", value=selection.sort) if selection.sort else None,
        tag("button", "Show"),
        tag("a", "Clear", href=view_path(selection.view), data_stay=True) if can_clear else None,
        tag("p", _hint(view), class_="quiet"),
    ]
    return tag("form", parts, method="get", action=view_path(selection.view), class_="filter", role="search")


def _keys(view: ViewStatus, selection: PageSelection) -> Iterable[Html]:
    for key in view.keys:
        values = [text for name, text in selection.keys if name == key]
        yield _text(f"key.{key}", key, values[0] if values else "")
        for text in [*values[1:], ""] if values else []:
            yield _text(f"key.{key}", f"or {key}", text)


def _range(view: ViewStatus, selection: PageSelection) -> Iterable[Html]:
    if view.window is None:
        return
    size_ms, every_ms = view.window
    likely = [text for text, ms in RANGES.items() if size_ms <= ms <= MANY_WINDOWS * every_ms]
    yield _text("start", "from", selection.start, choices="ranges", placeholder="newest")
    yield _text("end", "to", selection.end, placeholder="now")
    yield tag("datalist", [tag("option", value=text) for text in (*likely, OLDEST)], id="ranges")


def _chart(view: ViewStatus, selection: PageSelection) -> Iterable[Html]:
    if view.sessions:
        return
    numbers = numeric_columns(view)
    if len(numbers) > 1:
        yield _choice("column", "chart", selection.column or numbers[0], {name: name for name in numbers})
    keys = view.keys
    if keys:
        timed = view.window_ms is not None
        top = f"top {TOP} by " if timed else "by "
        choices = {"": "all keys together" if timed else f"by {', '.join(keys)}"}
        choices |= {key: f"{top}{key}" for key in keys if timed or len(keys) > 1}
        if timed and len(keys) > 1:
            choices[",".join(keys)] = f"{top}{', '.join(keys)}"
        series = ",".join(selection.by)
        choices.setdefault(series, f"{top}{', '.join(selection.by)}")
        if len(choices) > 1:
            yield _choice("by", "series" if timed else "bars", series, choices)


def _text(name: str, label: str, text: str, *, choices: str | None = None, placeholder: str | None = None) -> Html:
    field = tag("input", name=name, value=text or None, autocomplete="off", list=choices, placeholder=placeholder)
    return tag("label", tag("span", label), field)


def _choice(name: str, label: str, current: str, choices: Mapping[str, str]) -> Html:
    options = [tag("option", text, value=value, selected=value == current) for value, text in choices.items()]
    return tag("label", tag("span", label), tag("select", options, name=name))


def _hint(view: ViewStatus) -> str:
    parts = [r"Keys: empty is all, \N is NULL."] if view.keys else []
    if view.window_ms is not None:
        parts.append(f"Times: UTC such as 2026-03-01T12:00, or before the newest event such as -6h; {OLDEST} is all.")
    return " ".join(parts)
