"""Invalid events for the demo, each kind with one violation of its stream; apart from the valid ones in `traffic`."""

from __future__ import annotations

from typing import Any

import orjson

Event = dict[str, Any]


def _cut_off(event: Event) -> bytes:
    return orjson.dumps(event)[:-9]


def _no_visitor(event: Event) -> bytes:
    return orjson.dumps({**event, "visitor": None})


def _no_time(event: Event) -> bytes:
    return orjson.dumps({name: value for name, value in event.items() if name != "at"})


def _word_for_number(event: Event) -> bytes:
    return orjson.dumps({**event, "quantity" if "quantity" in event else "status": "two hundred"})


def _year_1900(event: Event) -> bytes:
    return orjson.dumps({**event, "at": "1900-01-01T00:00:00Z"})


def _year_9000(event: Event) -> bytes:
    return orjson.dumps({**event, "at": "9000-01-01T00:00:00Z"})


def _no_such_day(event: Event) -> bytes:
    return orjson.dumps({**event, "at": "2025-02-30T10:00:00Z"})


def _no_object(event: Event) -> bytes:
    return orjson.dumps(list(event.values()))


def _no_utf8(event: Event) -> bytes:
    return orjson.dumps({**event, "visitor": "@@"}).replace(b"@@", b"\xff\xfe")


def _too_precise(event: Event) -> bytes:
    """An amount of a thousandth, or more bytes than 64 bits can count."""
    if "quantity" in event:
        return orjson.dumps({**event, "amount": "9.999"})
    return orjson.dumps({**event, "bytes": "@@"}).replace(b'"@@"', b"9223372036854775808")


KINDS = {
    "cut off": _cut_off,
    "no visitor": _no_visitor,
    "no time": _no_time,
    "a word for a number": _word_for_number,
    "the year 1900": _year_1900,
    "the year 9000": _year_9000,
    "a day that never was": _no_such_day,
    "not an object": _no_object,
    "not UTF-8": _no_utf8,
    "more than the type holds": _too_precise,
}


def spoil(event: Event, choice: int) -> bytes:
    """The event as invalid bytes, of the kind that the choice selects."""
    return list(KINDS.values())[choice % len(KINDS)](event)
