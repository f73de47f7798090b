"""The two layers of a view on the page: their shares, the last comparison, an alarm, a version being built."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headrace.format import count, span
from headrace.html import Html, data, moment_text, tag
from headrace.server.layer_text import alarm, building, checked, shares, what_to_do
from headrace.server.status import AuditStatus, VersionStatus, ViewStatus
from headrace.web.page.page_tables import columns, table

MOST_ALARM = 2000  # characters of an alarm that are shown
MOST_REASON = 300  # … and of the reason for a lane


def layers_line(view: ViewStatus, at: datetime) -> Html | None:
    """The version that answers, how much of it each layer has, and when they were compared."""
    if view.version is None:
        return None
    of = shares(view)
    parts = [tag("span", f"version {count(view.applied_to if view.table else view.version)}")]
    if view.over is not None:
        parts.append(tag("span", "over table ", data(view.over)))
    elif of is not None:
        title = f"{_percent(of[0])} of its events in the batch layer, {_percent(of[1])} in the speed layer"
        parts.append(tag("span", _bar(of[0], title), f"batch {_percent(of[0])}, speed {_percent(of[1])}"))
    agreed = view.last_audit is not None and view.last_audit.agreed
    mark = "bad" if view.alarm else "good" if agreed else None
    parts.append(tag("span", checked(view, at), class_=mark))
    if view.lane_reason is not None:
        parts.append(tag("span", "updated by Spark: ", data(view.lane_reason, MOST_REASON)))
    return tag("p", parts, class_="layers")


def alarm_box(view: ViewStatus) -> Html | None:
    """The alarm that the layers differ: where, and what to do."""
    summary = alarm(view)
    if summary is None or view.alarm is None:
        return None
    meanwhile = "Answers are not affected; the batch layer waits"
    if view.over is not None:
        meanwhile = "Answers may be wrong"
    return tag(
        "div",
        tag("p", tag("strong", f"Alarm: {summary}."), f" {meanwhile}."),
        tag("p", data(_sentence(view.alarm), MOST_ALARM), "."),
        tag("p", _commands(what_to_do(view)), "."),
        class_="alarm",
        role="alert",
    )


def building_bar(view: ViewStatus) -> Html | None:
    """Progress of the version that is being built."""
    sentence, version = building(view), view.building
    if sentence is None or version is None:
        return None
    sentence = _sentence(sentence)
    events_done, of = version.events_done or 0, version.events or 0
    if version.state == "ready":
        events_done = of = 1
    bar = tag("progress", sentence, value=events_done, max=max(of, 1), aria_label=sentence)
    label = tag("span", sentence, class_="bad" if version.error else None)
    return tag("p", bar, " ", label, class_="building")


def audits_table(view: ViewStatus) -> Html | None:
    """The last comparisons of the two layers."""
    if not view.audits:
        return None
    rows = [
        [
            moment_text(audit.at, zone=""),
            count(audit.version),
            f"{audit.from_commit:,} to {audit.to_commit - 1:,}",
            count(audit.events),
            count(audit.rows),
            span(audit.took_ms),
            tag("span", "agree", class_="good") if audit.agreed else tag("span", _drift(audit), class_="bad"),
        ]
        for audit in view.audits
    ]
    numbers = ["version", "commits", "events", "rows", "time"]
    titles = columns("checked (UTC)", *numbers, "the layers", numbers=numbers)
    return tag(
        "section",
        tag("h2", "Audits", id="audits"),
        table(titles, rows, label="audits", stacked=True),
        aria_labelledby="audits",
    )


def versions_table(versions: Sequence[VersionStatus]) -> Html | None:
    """The versions of a view, newest first, and what each of them changed."""
    if not versions:
        return None
    rows = [
        [
            count(version.version),
            _state(version),
            moment_text(version.since, zone=""),
            count(version.applied_to),
            count(version.batch_events + version.speed_events),
            count(version.batch_rows + version.speed_rows),
            _changes(version),
        ]
        for version in versions
    ]
    titles = columns(
        "version", "state", "since (UTC)", "commits", "events", "stored rows", "what changed",
        numbers=["commits", "events", "stored rows"],
    )  # fmt: skip
    return tag(
        "section",
        tag("h2", "Versions", id="versions"),
        table(titles, rows, label="versions", stacked=True),
        aria_labelledby="versions",
    )


def _state(version: VersionStatus) -> Html:
    if version.stalled or version.error:
        return tag("span", f"{version.state}, stalled", class_="bad")
    return tag("span", version.state, class_="good" if version.state == "serving" else None)


def _changes(version: VersionStatus) -> Html:
    if version.error:
        return tag("span", data(version.error, MOST_ALARM), class_="bad")
    if version.changed_from is None:
        return tag("span", "the first version", class_="quiet")
    changes = "; ".join(version.changes) or "nothing in the definition"
    return data(f"{changes} (from version {version.changed_from})", MOST_ALARM)


def _drift(audit: AuditStatus) -> str:
    return "differ in " + ", ".join(f"{off.column} ({off.rows:,})" for off in audit.drift)


def _bar(batch: float, title: str) -> Html:
    """A bar of two colours; sized by attributes, since the content security policy allows no inline style."""
    width = round(batch * 100, 2)
    return tag(
        "svg",
        tag("title", title),
        tag("rect", width=width, height=10),
        tag("rect", x=width, width=round(100 - width, 2), height=10, class_="provisional"),
        viewBox="0 0 100 10",
        preserveAspectRatio="none",
        role="img",
    )


def _percent(share: float) -> str:
    """The percentage rounded, but 0 % and 100 % only if exact."""
    if 0 < share < 0.01:
        return "under 1 %"
    return "over 99 %" if 0.99 < share < 1 else f"{share:.0%}".replace("%", " %")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _commands(text: str) -> list[Html | str]:
    """Text in backticks as code."""
    return [tag("code", part) if at % 2 else part for at, part in enumerate(text.split("`"))]
