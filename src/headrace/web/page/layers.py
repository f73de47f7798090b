"""What the page says of a view's two layers: their shares, the last comparison, an alarm, a version being built."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from headrace.format import count, span
from headrace.server.layers import alarm, building, checked, shares, what_to_do
from headrace.server.state import AuditStatus, VersionStatus, ViewStatus
from headrace.web.page.cells import moment_text
from headrace.web.page.html import Html, data, tag
from headrace.web.page.tables import columns, table

MOST_ALARM = 2000  # characters of an alarm that are shown


def layers_line(view: ViewStatus, at: datetime) -> Html | None:
    """The version that answers, how much of it each layer has, and when they were compared."""
    if view.version is None:
        return None
    of = shares(view)
    said = [tag("span", f"version {view.version}")]
    if of is not None:
        held = f"{_percent(of[0])} of its events in the batch layer, {_percent(of[1])} in the speed layer"
        said.append(tag("span", _bar(of[0], held), f"batch {_percent(of[0])}, speed {_percent(of[1])}"))
    agreed = view.last_audit is not None and view.last_audit.agreed
    mark = "bad" if view.alarm else "good" if agreed else None
    said.append(tag("span", checked(view, at), class_=mark))
    return tag("p", said, class_="layers")


def alarm_box(view: ViewStatus) -> Html | None:
    """That the layers disagree, where, and what to do."""
    said = alarm(view)
    if said is None or view.alarm is None:
        return None
    return tag(
        "div",
        tag("p", tag("strong", f"Alarm: {said}."), " Answers are not affected; the batch layer waits."),
        tag("p", data(_sentence(view.alarm), MOST_ALARM), "."),
        tag("p", _commands(what_to_do(view.name)), "."),
        class_="alarm",
        role="alert",
    )


def building_bar(view: ViewStatus) -> Html | None:
    """How far the version is that will take over."""
    said, coming = building(view), view.building
    if said is None or coming is None:
        return None
    said = _sentence(said)
    done, of = coming.events_done or 0, coming.events or 0
    if coming.state == "ready":
        done = of = 1
    bar = tag("progress", said, value=done, max=max(of, 1), aria_label=said)
    text = tag("span", said, class_="bad" if coming.error else None)
    return tag("p", bar, " ", text, class_="building")


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
        "version", "state", "since (UTC)", "commits", "events", "rows", "what changed",
        numbers=["commits", "events", "rows"],
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


def _bar(batch: float, said: str) -> Html:
    """Two colours on one line; drawn in attributes, for the page takes no style from elsewhere."""
    width = round(batch * 100, 2)
    return tag(
        "svg",
        tag("title", said),
        tag("rect", width=width, height=10),
        tag("rect", x=width, width=round(100 - width, 2), height=10, class_="provisional"),
        viewBox="0 0 100 10",
        preserveAspectRatio="none",
        role="img",
    )


def _percent(share: float) -> str:
    """Whole, but neither all nor nothing where it is not quite."""
    if 0 < share < 0.01:
        return "under 1 %"
    return "over 99 %" if 0.99 < share < 1 else f"{share:.0%}".replace("%", " %")


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _commands(text: str) -> list[Html | str]:
    """What stands between backticks is typed."""
    return [tag("code", part) if at % 2 else part for at, part in enumerate(text.split("`"))]
