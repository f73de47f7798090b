"""The state of the versions of a view, with what each of them changed."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.format import iso_us
from headrace.plan.edits import classify
from headrace.server.describe_view import NO_LANES, lane_of
from headrace.server.running_stream import Lanes
from headrace.server.status import VersionStatus
from headrace.store.store_contract import Snapshot
from headrace.store.version import Version


def describe_versions(
    snapshot: Snapshot, view: str, errors: Mapping[int, str], lanes: Lanes = NO_LANES
) -> list[VersionStatus]:
    """The versions of a view, newest first; `errors` say why one cannot be built, by its number."""
    own = {version.number: version for version in snapshot.versions() if version.view.name == view}
    return [
        _describe_version(snapshot, own[number], own.get(own[number].replaces or 0), errors.get(number), lanes)
        for number in sorted(own, reverse=True)
    ]


def _describe_version(
    snapshot: Snapshot, version: Version, earlier: Version | None, error: str | None, lanes: Lanes
) -> VersionStatus:
    """A version and what it changed; `earlier` is the one that it replaced, if that is still kept."""
    batch_rows, speed_rows = snapshot.count(version)
    lane, lane_reason = lane_of(version, lanes)
    edit = classify(earlier.view, version.view, (earlier.patience_ms, version.patience_ms)) if earlier else None
    return VersionStatus(
        version=version.number,
        state=version.state,
        since=iso_us(version.changed_at_us),
        fingerprint=version.fingerprint,
        replaces=version.replaces,
        changed_from=earlier.number if earlier else None,
        changes=tuple(edit.texts) if edit else (),
        horizon=version.total("horizon"),
        next_horizon=_next_horizon(version),
        built_to=version.total("built_to"),
        applied_to=version.total("applied_to"),
        batch_tables=len(version.batch),
        batch_events=sum(table.events for table in version.batch),
        speed_events=snapshot.speed_events(version),
        batch_rows=batch_rows,
        speed_rows=speed_rows,
        has_rows=version.home is not None,
        lane=lane,
        lane_reason=lane_reason,
        stalled=version.stalled,
        alarm=version.alarm,
        error=error,
    )


def _next_horizon(version: Version) -> int | None:
    """Where the horizon will be after the beats under way; None if there is none."""
    if all(base.next_horizon is None for base in version.bases):
        return None
    return sum(base.horizon if base.next_horizon is None else base.next_horizon for base in version.bases)
