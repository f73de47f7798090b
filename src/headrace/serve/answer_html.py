"""Answers as HTML for notebooks: a table, how fresh it is, and a small chart. It needs no style sheet and no script."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.format import commits_of, count, freshness, plural, version_shown
from headrace.html import Html, Part, join, key_value, plain, short, tag, value, window_text

if TYPE_CHECKING:
    from headrace.serve.answer import Answer

ROWS = 20  # of a table
BARS = 40  # of a chart over time
KEYS = 12  # bars of a chart by key
PLACE, WIDTH, HEIGHT = 10, 8, 48  # of a bar, in px
QUIET = "opacity:.65"
RIGHT = "text-align:right;font-variant-numeric:tabular-nums"
WINDOW = ("window_start", "window_end")


def answer_html(answer: Answer, chart_of: Answer | None = None) -> Html:
    """The first rows of an answer, with its chart, or that of another one, and all that it says of itself."""
    if answer.parts is not None:
        return _logical_html(answer)
    keys = _keys(answer)
    columns = [
        (at, name)
        for at, (name, _) in enumerate(answer.columns)
        if name not in WINDOW or not _is_unbounded(answer, name)
    ]
    names = [name for _, name in columns]
    numbers = [name for name, of in answer.columns[keys:] if of.is_numeric]
    rows = [[_cell(name, row[at], is_key=at < keys) for at, name in columns] for row in answer.values[:ROWS]]
    more = len(answer.values) - len(rows)
    lines = [f"… and {plural(more, 'row')} more"] if more else []
    fresh = freshness(answer.freshness_ms, answer.freshness_reason)
    version = count(version_shown(answer.view, answer.version, answer.commits))
    return block(
        heading(answer.view, f"version {version}", fresh, _as_of(answer)),
        _chart(chart_of or answer),
        table(names, rows, numbers) if rows else tag("p", "no rows"),
        *(quiet(line) for line in [*lines, *_facts(answer)]),
    )


def _logical_html(answer: Answer) -> Html:
    """The first rows of a logical view, and what it was computed from."""
    rows = [[key_value(one) for one in row] for row in answer.values[:ROWS]]
    numbers = [name for name, of in answer.columns if of.is_numeric]
    more = len(answer.values) - len(rows)
    lines = [f"… and {plural(more, 'row')} more"] if more else []
    lines += [plural(len(answer.values), "row")]
    for name, part in (answer.parts or {}).items():
        version = count(version_shown(name, part["version"], part["commits"]))
        lines.append(f"from {name}: version {version}, {freshness(part['freshness_ms'], part['freshness_reason'])}")
    lines += ["there are more rows: `next_cursor` continues"] if answer.next_cursor else []
    return block(
        heading(answer.view, "logical view", freshness(answer.freshness_ms, answer.freshness_reason), _as_of(answer)),
        table([name for name, _ in answer.columns], rows, numbers) if rows else tag("p", "no rows"),
        *(quiet(line) for line in lines),
    )


def block(*parts: Part) -> Html:
    """The frame of what a notebook shows."""
    return tag("div", *parts, class_="headrace", style="font-size:13px;line-height:1.4")


def heading(name: str, *facts: str | None) -> Html:
    """A name, and what matters most about it."""
    return tag("div", tag("strong", plain(name)), *(f" · {fact}" for fact in facts if fact))


def quiet(text: str) -> Html:
    """A line of less importance."""
    return tag("div", text, style=QUIET)


def table(titles: Sequence[str], rows: Iterable[Sequence[Part]], numbers: Collection[str] = ()) -> Html:
    """A table; the columns in `numbers` are aligned right."""
    styles = [f"padding:1px 8px;{RIGHT if title in numbers else 'text-align:left'}" for title in titles]
    head = [tag("th", plain(title), style=style, scope="col") for title, style in zip(titles, styles, strict=True)]
    body = [tag("tr", [tag("td", cell, style=at) for cell, at in zip(row, styles, strict=True)]) for row in rows]
    return tag("div", tag("table", tag("thead", tag("tr", head)), tag("tbody", body)), style="overflow-x:auto")


def bars_svg(title: str, bars: Sequence[tuple[str, float, bool]]) -> Html:
    """A chart of bars, each with a label, a size, and whether it is settled; others are paler."""
    top, bottom = max(0.0, *(size for _, size, _ in bars)), min(0.0, *(size for _, size, _ in bars))
    scale = HEIGHT / ((top - bottom) or 1.0)
    pictures = [
        tag(
            "rect",
            tag("title", f"{plain(label)}: {short(size)}{'' if settled else ', provisional'}"),
            x=at * PLACE + 1,
            y=f"{(top - max(size, 0.0)) * scale:.2f}",
            width=WIDTH,
            height=f"{max(abs(size) * scale, 0.8):.2f}",
            fill="currentColor",
            opacity="0.75" if settled else "0.35",
        )
        for at, (label, size, settled) in enumerate(bars)
    ]
    width = len(bars) * PLACE
    picture = tag("svg", tag("title", title), pictures, viewBox=f"0 0 {width} {HEIGHT}", width=width, height=HEIGHT,
                  role="img", aria_label=title)  # fmt: skip
    return tag("figure", picture, tag("figcaption", title, style=QUIET), style="margin:4px 0")


def _cell(name: str, one: Any, *, is_key: bool) -> Part:
    if name == "settled":
        return "settled" if one else "provisional"
    return key_value(one) if is_key else value(one)


def _keys(answer: Answer) -> int:
    """How many of the columns are keys."""
    return [name for name, _ in answer.columns].index("window_start")


def _is_unbounded(answer: Answer, name: str) -> bool:
    """Whether the windows of all rows lack this bound."""
    if answer.windows is None:
        return True
    return answer.windows["window_ms"] is None and answer.windows[name.removeprefix("window_")] is None


def _chart(answer: Answer) -> Html | None:
    """The first number of the rows: over time if there is one row for each window, else by key in the newest window."""
    names, keys = [name for name, _ in answer.columns], _keys(answer)
    settled = names.index("settled")
    column = next((at for at in range(keys, settled) if answer.columns[at][1].is_numeric), None)
    rows = [row for row in answer.values if column is not None and _size(row[column]) is not None]
    if column is None or len(rows) < 2:
        return None
    starts = [row[keys] for row in rows]
    if None not in starts and len(set(starts)) == len(rows):
        rows = sorted(rows, key=lambda row: row[keys])[-BARS:]
        title = f"{names[column]}, {window_text(rows[0][keys], rows[-1][keys + 1])} UTC"
        bars = [(window_text(row[keys], row[keys + 1]), _size(row[column]) or 0.0, bool(row[settled])) for row in rows]
        return bars_svg(title, bars)
    newest = max((start for start in starts if start is not None), default=None)
    rows = sorted((row for row in rows if row[keys] == newest), key=lambda row: -(_size(row[column]) or 0.0))[:KEYS]
    of = f"{', '.join(names[:keys]) or 'row'}{' in the newest window' if newest is not None else ''}"
    bars = [
        (", ".join(map(str, row[:keys])), _size(row[column]) or 0.0, bool(row[settled]) or newest is None)
        for row in rows
    ]
    return bars_svg(f"{names[column]} by {of}: the {len(rows)} largest", bars) if len(rows) > 1 else None


def _size(one: Any) -> float | None:
    """A number that can be drawn."""
    try:
        size = float(one)
    except (TypeError, ValueError, OverflowError):
        return None
    return size if abs(size) < 1e300 else None  # NaN is not


def _as_of(answer: Answer) -> str:
    newest = f", newest event {answer.newest_event:%Y-%m-%d %H:%M:%S} UTC" if answer.newest_event else ""
    return f"as of {commits_of(answer.commits)}{newest}"


def _facts(answer: Answer) -> list[str]:
    events = sum(answer.events.values())
    settled_at = [name for name, _ in answer.columns].index("settled")
    settled = sum(bool(row[settled_at]) for row in answer.values)
    lines = [
        f"{plural(len(answer.values), 'row')}, {settled:,} settled · {events - answer.corrections:,} events on time + "
        f"{plural(answer.corrections, 'correction')} = {plural(events, 'event')}"
    ]
    if answer.missing:
        lines.append(f"no rows for {plural(len(answer.missing), 'key')}")
    lines += [f"{name}: {error}" for name, error in answer.stated_errors().items()]
    if answer.stalled:
        lines.append(f"stalled: {answer.stalled}")
    if answer.next_cursor:
        lines.append("there are more rows: `next_cursor` continues")
    return lines


def facts_html(facts: Iterable[tuple[str, Part]]) -> Html:
    """Names with what they are, a line each."""
    pairs = [join(tag("dt", name, style=QUIET), tag("dd", part, style="margin:0")) for name, part in facts]
    return tag("dl", pairs, style="display:grid;grid-template-columns:max-content auto;gap:0 1em;margin:4px 0")
