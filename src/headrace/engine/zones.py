"""Time zones by name, in texts and for local times, many at once."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.language.calendar import UTC_NAME, find_zone, zone_name

Numbers = npt.NDArray[np.int64]
Zones = npt.NDArray[np.object_]  # names of zones, or seconds east of UTC
_LONGEST = 48  # bytes of a name
_ZONE_CHARACTERS = np.zeros(256, dtype=bool)
_ZONE_CHARACTERS[np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/_+-:", np.uint8)] = True
_NOT_IN_JAVA = frozenset(("EST", "MST", "HST", "ROC", "Factory", "localtime", "posixrules", "GMT+0", "GMT-0"))
# Abbreviations that mean one zone to everybody. Java knows more, and takes BST for Bougainville and IST for Iceland.
ABBREVIATIONS = {
    "EST": "America/New_York", "EDT": "America/New_York", "CST": "America/Chicago", "CDT": "America/Chicago",
    "MST": "America/Denver", "MDT": "America/Denver", "PST": "America/Los_Angeles", "PDT": "America/Los_Angeles",
    "AKST": "America/Juneau", "AKDT": "America/Juneau", "HST": "Pacific/Honolulu", "CET": "Europe/Paris",
    "CEST": "Europe/Paris", "EET": "Europe/Bucharest", "EEST": "Europe/Bucharest", "MSK": "Europe/Moscow",
    "JST": "Asia/Tokyo", "KST": "Asia/Seoul", "HKT": "Asia/Hong_Kong", "AEST": "Australia/Sydney",
    "AEDT": "Australia/Sydney", "AWST": "Australia/Perth", "NZST": "Pacific/Auckland", "NZDT": "Pacific/Auckland",
    "EAT": "Africa/Nairobi",
}  # fmt: skip
_OFFSET = re.compile(r"([+-])([0-5]\d):([0-5]\d)(?::([0-5]\d))?")
_OFFSET_MOST_S = 18 * 3600
_EPOCH, _US = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_CYCLE_US = 146_097 * 86_400_000_000  # the calendar repeats after 400 years
_LAST_US = (datetime(9999, 1, 1, tzinfo=UTC) - _EPOCH) // _US
_LATE_US = (datetime(2037, 12, 1, tzinfo=UTC) - _EPOCH) // _US  # Arrow does not go on by the rules of a zone


def find_zones(data: npt.NDArray[np.uint8], at: Numbers, end: Numbers, *, short: bool) -> tuple[Zones, Numbers]:
    """The zone whose name is there in each text, and how long the name is: 0 if there is none."""
    places = np.where(_ZONE_CHARACTERS[data], len(data), np.arange(len(data)))
    name_end = np.minimum.accumulate(places[::-1])[::-1]
    width = np.clip(np.minimum(name_end[np.minimum(at, len(data) - 1)], end) - at, 0, _LONGEST)
    columns = np.arange(_LONGEST)
    letters = data[np.minimum(at[:, None] + columns, len(data) - 1)]
    names, which = np.unique(np.where(columns < width[:, None], letters, 0).view(f"S{_LONGEST}"), return_inverse=True)
    pairs = [_zone_of(name.decode().upper(), short) for name in names.tolist()]
    zones = np.array([zone for zone, _ in pairs], dtype=object)
    return zones[which.reshape(-1)], np.array([length for _, length in pairs], dtype=np.int64)[which.reshape(-1)]


@lru_cache(maxsize=4096)
def _zone_of(text: str, short: bool) -> tuple[str | int | None, int]:
    """The zone that a text in capitals begins with, and the length of its name."""
    if text[:1] in ("+", "-"):
        return _with_offset(text, 0) or (None, 0)
    for prefix in ("UTC", "UT", "GMT"):
        if text.startswith(prefix):
            return _with_offset(text, len(prefix)) or (0, len(prefix))
    names = _names(short)
    for length in range(len(text), 0, -1):
        if text[:length] in names:
            return names[text[:length]], length
    return (0, 1) if text.startswith("Z") else (None, 0)


def _with_offset(text: str, start: int) -> tuple[int, int] | None:
    match = _OFFSET.match(text, start)
    if match is None:
        return None
    seconds = int(match[2]) * 3600 + int(match[3]) * 60 + int(match[4] or 0)
    return (-seconds if match[1] == "-" else seconds, match.end()) if seconds <= _OFFSET_MOST_S else None


@lru_cache(maxsize=2)
def _names(short: bool) -> dict[str, str]:
    import zoneinfo  # reads the folder of all zones, and few streams need them

    names = {name.upper(): name for name in zoneinfo.available_timezones() - _NOT_IN_JAVA}
    return {**names, **ABBREVIATIONS} if short else names


def to_utc(local_us: Numbers, zones: Zones, good: npt.NDArray[np.bool_]) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """The times in UTC of local ones, where there is a zone; as Java, the earlier of two, and after a gap."""
    times, good = local_us.copy(), good.copy()
    for zone in {zone for zone in zones[good].tolist() if zone is not None}:
        rows = good & (zones == zone)
        if isinstance(zone, int):
            times[rows] -= zone * 1_000_000
        else:
            times[rows] = _in_zone(local_us[rows], zone)
    return times, good


def times_in_zone(times: pa.Array, zone: str, *, to_local: bool) -> pa.Array:
    """Microseconds since 1970 of times in UTC as local ones, or the other way round; NULL for NULL."""
    name = zone_name(zone)
    if name == UTC_NAME:
        return times
    convert = _to_local if to_local else _in_zone
    converted = convert(np.asarray(times.fill_null(0)), name)
    return pa.array(converted, mask=np.asarray(times.is_null(), dtype=bool))


def _to_local(utc_us: Numbers, zone: str) -> Numbers:
    times = np.array(pc.local_timestamp(pa.array(utc_us).cast(pa.timestamp("us", tz=zone))).cast(pa.int64()))
    for row in np.flatnonzero(utc_us >= _LATE_US):
        utc, before_us = _earlier(int(utc_us[row]))
        times[row] = (utc.astimezone(find_zone(zone)).replace(tzinfo=UTC) - _EPOCH) // _US + before_us
    return times


def _in_zone(local_us: Numbers, zone: str) -> Numbers:
    late = local_us >= _LATE_US
    if not late.any():
        return _in_listed_years(local_us, zone)
    times = _in_listed_years(np.where(late, 0, local_us), zone)
    for row in np.flatnonzero(late):
        local, before_us = _earlier(int(local_us[row]))
        utc = local.replace(tzinfo=find_zone(zone)).astimezone(UTC)  # in a gap, too, by the offset from before
        times[row] = (utc - _EPOCH) // _US + before_us
    return times


def _earlier(time_us: int) -> tuple[datetime, int]:
    """A time before year 9999, the last one that Python has, with the same offset; and how much earlier it is."""
    before_us = _CYCLE_US if time_us >= _LAST_US else 0
    return _EPOCH + timedelta(microseconds=time_us - before_us), before_us


def _in_listed_years(local_us: Numbers, zone: str) -> Numbers:
    local = pa.array(local_us).cast(pa.timestamp("us"))
    first, last = (
        np.asarray(pc.assume_timezone(local, zone, ambiguous="earliest", nonexistent=which).cast(pa.int64()))
        for which in ("earliest", "latest")
    )
    gaps = first != last
    if not gaps.any():
        return first.copy()
    # In a gap, the time is as much later as the clock was put forward: as if it still had the offset from before.
    before = pa.array(first[gaps]).cast(pa.timestamp("us", tz=zone))
    offsets = np.asarray(pc.local_timestamp(before).cast(pa.int64())) - first[gaps]
    times = first.copy()
    times[gaps] = local_us[gaps] - offsets
    return times
