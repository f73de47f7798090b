"""The two layers of a view in few words, for terminal and page, out of what a view says of itself."""

from __future__ import annotations

from datetime import datetime

from headrace.format import about, span
from headrace.name_encoding import shell
from headrace.server.status import AuditStatus, ViewStatus


def shares(view: ViewStatus) -> tuple[float, float] | None:
    """Which part of a view's events the batch layer and the speed layer have; None while there is none."""
    batch, speed = view.batch_events or 0, view.speed_events or 0
    return (batch / (batch + speed), speed / (batch + speed)) if batch + speed else None


def checked(view: ViewStatus, now: datetime) -> str:
    """When the two layers were last compared, and what came of it."""
    audit = view.last_audit
    if audit is None:
        return "not checked yet"
    differs = "it differs from the rows of its table in" if view.over else "the layers differ in"
    return f"checked {_ago((now - datetime.fromisoformat(audit.at)).total_seconds())}: {_found(audit, differs)}"


def _ago(seconds: float) -> str:
    if seconds < 2:
        return "just now"
    return f"{seconds:.0f} s ago" if seconds < 120 else f"{span(seconds * 1000)} ago"


def _found(audit: AuditStatus, differs: str) -> str:
    rows = f"{audit.rows:,} row{'' if audit.rows == 1 else 's'}"
    if audit.agreed:
        return f"{rows} agree{'s' if audit.rows == 1 else ''}"
    return f"{rows}, {differs} " + ", ".join(f"{off.column} ({off.rows:,})" for off in audit.drift)


def alarm(view: ViewStatus) -> str | None:
    """That the two layers disagree, in few words."""
    if not view.alarm:
        return None
    off = [drift.column for drift in view.last_audit.drift] if view.last_audit else []
    return f"drift in {', '.join(off)}" if off else "drift"


def what_to_do(view: ViewStatus) -> str:
    """The way out of an alarm."""
    name, source = view.name, f"the rows of table {view.over}" if view.over else "the log"
    return (
        f"`headrace audit {shell(name)}` shows what differs, `headrace refresh {shell(name)}` compares again, "
        f"`headrace refresh {shell(name)} --full` rebuilds the view from {source}"
    )


def building(view: ViewStatus) -> str | None:
    """How far the version is that will take over."""
    coming = view.building
    if not coming:
        return None
    name = f"version {coming.version}"
    if coming.error:
        return f"{name} cannot be built: {coming.error}"
    if coming.state == "ready":
        return f"{name} is built and catches up"
    done, of, left = coming.events_done or 0, coming.events or 0, coming.eta_s
    left_text = "" if left is None else f", {about(left)} left"
    return f"{name} is being built: {done:,} of {of:,} events{left_text}"
