"""A question to a view, from Python values or from the text of a URL or command line.

A question is checked against the view only when it is answered (`plan`): its keys, bounds and
windows make sense for one version of one view.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from headrace.errors import QuestionError, did_you_mean
from headrace.serve.question_times import (
    TIMESTAMP,
    VERSION,
    AsOf,
    Bound,
    parse_bound,
    parse_calendar,
    parse_span,
    parse_zone,
    read_as_of,
)

if TYPE_CHECKING:
    from headrace.aggregate import Value
    from headrace.language.calendar import Calendar

DEFAULT_LIMIT, HIGHEST_LIMIT = 1_000, 10_000
MOST_ALTERNATIVES = 10_000
SETTLED_ONLY, CORRECTIONS = "settled_only", "corrections"
TIMES = ("start", "end", "window", "every", "cumulate", "zone")
OF_LOOKUPS = (*TIMES, "order", SETTLED_ONLY, CORRECTIONS, VERSION, TIMESTAMP)
PARAMETERS = ("by", *TIMES, "having", "order_by", "order", "limit", "cursor", *OF_LOOKUPS[len(TIMES) + 1 :])
ALL = "all"  # as a window: all of the time between start and end
OLDEST, NEWEST = "oldest", "newest"
NULL = r"\N"  # in text, as PostgreSQL and Hive write it; `\\N` is the text \N

Keys = Mapping[str, Any] | Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Question:
    r"""A question to one view.

    - `where`: alternatives, each of them key = value for some keys (None asks for NULL).
    - `by`: the keys to group by, the others are merged; None is all keys, () the grand total.
    - `start`, `end`: closed-open bounds. Relative ones ('-1h', 'now') count from the end of the pane
      that holds the newest event, and the answer says when that was. Each must fall on a pane start.
    - `as_of`: an earlier state of the view, instead of the current one.
    - `window`, `every`: the size of windows and the interval between them. One of them alone gives
      tumbling windows; neither, the windows that the view declares. Windows are aligned to `start`,
      else to the epoch; the answer has those whose end lies in (start, end] and that contain events.
      `all_time` (window 'all') is one window over [start, end), or all time without bounds.
      A window of '1 month', 'week' or the like is of the calendar, in UTC or in the `zone`: the answer has
      those whose end lies in (start, end]; with a zone, days and weeks are of its calendar, too, and bounds
      without an offset are its local times.
    - `cumulate`: a step; windows grow by it up to the size of `window`, then begin again.
    - `newest_first`: the order of the windows; keys are always in ascending order within one.
    - `settled_only`: only windows that are settled; it selects rows before `limit` counts them.
    - `corrections`: each row also has how many events are in it, and how many of them are corrections.
    - `lookup`: the rows come in the order of `where`, all at once, and the answer names the keys without rows.
    - `having`: a condition on the rows; `order_by`: their order, as ORDER BY writes it; `limit`: how many of them. None
      is what the view declares; an empty text is no condition, and the order of windows and keys.
    """

    view: str
    where: tuple[Mapping[str, Value], ...] = ()
    by: tuple[str, ...] | None = None
    start: Bound | None = None
    end: Bound | None = None
    window_ms: int | None = None
    every_ms: int | None = None
    limit: int | None = None
    cursor: str | None = None
    as_of: AsOf | None = None
    all_time: bool = False
    newest_first: bool = False
    settled_only: bool = False
    corrections: bool = False
    lookup: bool = False
    having: str | None = None
    order_by: str | None = None
    calendar: Calendar | None = None
    cumulate_ms: int | None = None
    zone: str | None = None

    @property
    def has_no_window(self) -> bool:
        """Whether it is about the windows that the view declares."""
        return self.window_ms is None and self.every_ms is None and self.calendar is None

    @classmethod
    def of(
        cls,
        view: str,
        key: Keys | None = None,
        *,
        by: str | Iterable[str] | None = None,
        start: Any = None,
        end: Any = None,
        window: Any = None,
        every: Any = None,
        limit: Any = None,
        cursor: str | None = None,
        version_as_of: Any = None,
        timestamp_as_of: Any = None,
        order: str | None = None,
        settled_only: Any = None,
        corrections: Any = None,
        having: str | None = None,
        order_by: str | None = None,
        zone: str | None = None,
        cumulate: Any = None,
    ) -> Question:
        """A question from Python values, or text in their place.

        `key` is {key: value}, where a list of values means any of them, or a list of such mappings,
        which means any of these.
        """
        all_time = isinstance(window, str) and window.strip().lower() == ALL
        if all_time and (every or cumulate):
            extra = f"every {every!r}" if every else f"cumulate {cumulate!r}"
            raise QuestionError(
                "window 'all' is one window", found=extra, fix=f"leave out {extra.split()[0]}, or give window a size"
            )
        zone = parse_zone(zone)
        calendar = None if all_time else parse_calendar(window, zone)
        cumulate_ms = parse_span("cumulate", cumulate)
        _check_together(window, every, cumulate_ms, calendar)
        return cls(
            view=view,
            where=_alternatives(key),
            by=_names(by),
            start=parse_bound("start", start, zone),
            end=parse_bound("end", end, zone),
            window_ms=None if all_time or calendar else parse_span("window", window),
            every_ms=parse_span("every", every),
            limit=_limit(limit),
            cursor=cursor or None,
            as_of=read_as_of(version_as_of, timestamp_as_of),
            all_time=all_time,
            newest_first=_order(order) == NEWEST,
            settled_only=_flag(SETTLED_ONLY, settled_only),
            corrections=_flag(CORRECTIONS, corrections),
            having=_text("having", having, "n > 5"),
            order_by=_text("order_by", order_by, "n DESC"),
            calendar=calendar,
            cumulate_ms=cumulate_ms,
            zone=zone,
        )

    @classmethod
    def lookup_of(cls, view: str, keys: Any, **options: Any) -> Question:
        """A lookup of many keys; `options` are those of OF_LOOKUPS."""
        if isinstance(keys, Mapping) or not isinstance(keys, Sequence) or isinstance(keys, str | bytes) or not keys:
            raise QuestionError(
                "a lookup takes a list of keys", found=repr(keys)[:60], expected="such as [{'page': '/home'}]"
            )
        for name in options:
            if name not in OF_LOOKUPS:
                raise QuestionError(
                    f"a lookup has no parameter '{name}'",
                    expected=f"keys, {', '.join(OF_LOOKUPS)}",
                    fix=did_you_mean(name, OF_LOOKUPS) or "it gives every row of its keys, in their order",
                )
        return replace(cls.of(view, keys, limit=HIGHEST_LIMIT, **options), lookup=True, order_by="")

    @classmethod
    def from_text(cls, view: str, parameters: Iterable[tuple[str, str]]) -> Question:
        r"""A question from the parameters of a URL or the options of a command.

        `key.page=/home` filters; given twice it means either; `key.page=\N` asks for NULL and
        `key.page=\\N` for the text \N. `by=` without a name asks for the grand total.
        """
        keys: dict[str, list[Any]] = {}
        options: dict[str, Any] = {}
        for name, text in parameters:
            if name.startswith("key."):
                keys.setdefault(name.removeprefix("key."), []).append(read_key(text))
            elif name not in PARAMETERS:
                raise _unknown_parameter(name)
            elif name == "by":
                options[name] = [*options.get(name, []), *(_names(text) or ())]
            elif name in options:
                raise QuestionError(f"parameter '{name}' is given twice", fix="give it once")
            else:
                options[name] = text
        return cls.of(view, keys or None, **options)


def read_key(text: str) -> str | None:
    """A key's value from the text of a URL or a command line."""
    return None if text == NULL else text[1:] if text == "\\" + NULL else text


def key_text(value: Any) -> str:
    """The text that `read_key` reads back, and that becomes the same value once the type of the key is known."""
    if value is None:
        return NULL
    text = value.isoformat() if isinstance(value, date) else str(value)
    return "\\" + text if text == NULL else text


def _alternatives(key: Keys | None) -> tuple[Mapping[str, Value], ...]:
    if not key:
        return ()
    alternatives: list[Mapping[str, Value]] = []
    for mapping in [key] if isinstance(key, Mapping) else key:
        if not isinstance(mapping, Mapping):
            raise QuestionError(
                "key takes key = value pairs", found=repr(mapping), expected="such as {'page': '/home'}"
            )
        choices = [list(v) if isinstance(v, list | tuple | set | frozenset) else [v] for v in mapping.values()]
        alternatives += [dict(zip(mapping, values, strict=True)) for values in itertools.product(*choices)]
        if len(alternatives) > MOST_ALTERNATIVES:
            raise QuestionError(
                "the query names too many keys at once", expected=f"at most {MOST_ALTERNATIVES}", fix="ask in parts"
            )
    if not alternatives:
        raise QuestionError("a key is given with no value", found=repr(key), expected="at least one value")
    return tuple(alternatives)


def _names(by: str | Iterable[str] | None) -> tuple[str, ...] | None:
    if by is None:
        return None
    names = tuple(name.strip() for name in (by.split(",") if isinstance(by, str) else by))
    names = () if names == ("",) else names
    if len(set(names)) != len(names):
        raise QuestionError("by names a key twice", found=", ".join(names), expected="each key once")
    return names


def _check_together(window: Any, every: Any, cumulate_ms: int | None, calendar: Calendar | None) -> None:
    if calendar and every:
        raise QuestionError(
            "calendar windows follow one another", found=f"every {every!r}",
            fix="leave out every; cumulate is the running total of a window",
        )  # fmt: skip
    if cumulate_ms is not None and (every or not window):
        raise QuestionError(
            "cumulate is the step by which a window grows", found=f"every {every!r}" if every else "no window",
            expected="window and cumulate, such as window '1 day' and cumulate '1 hour'",
        )  # fmt: skip


def _order(order: Any) -> str:
    if order is None or order == "":
        return OLDEST
    if order not in (OLDEST, NEWEST):
        raise QuestionError(
            "the order of windows is not known", found=repr(order)[:60], expected=f"'{OLDEST}' or '{NEWEST}'"
        )
    return str(order)


def _flag(name: str, value: Any) -> bool:
    if value is None or value == "":
        return False
    flag = {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else value
    if not isinstance(flag, bool):
        raise QuestionError(f"{name} is true or false", found=repr(value)[:60], expected="'true' or 'false'")
    return flag


def _text(name: str, value: Any, example: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise QuestionError(f"{name} is a text", found=repr(value)[:60], expected=f"such as '{example}'")
    return value


def _limit(limit: Any) -> int | None:
    if limit is None or limit == "":
        return None
    try:
        number = int(limit)
    except (TypeError, ValueError):
        number = 0
    if not 1 <= number <= HIGHEST_LIMIT:
        raise QuestionError(
            "limit is out of range",
            found=repr(limit),
            expected=f"1 to {HIGHEST_LIMIT}",
            fix="take the rest with the answer's next_cursor",
        )
    return number


def _unknown_parameter(name: str) -> QuestionError:
    names = ("key.<name>", *PARAMETERS)
    return QuestionError(
        f"a query has no parameter '{name}'",
        expected=", ".join(names),
        fix=did_you_mean(name, PARAMETERS) or f"to filter by a key write key.{name}=",
    )
