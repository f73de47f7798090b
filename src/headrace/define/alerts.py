"""Rules of alerts, the same for definitions in SQL and in Python. Errors here have no place yet."""

from __future__ import annotations

from headrace.define.connectors import Option, check_options, check_value, find_connector
from headrace.define.durations import SECOND_MS, format_duration
from headrace.define.model import Alert, Options, Output, Stream, View
from headrace.errors import DefinitionError, nearest
from headrace.types import Expression

CONNECTORS = ("http", "kafka")  # that notices go to
OPTIONS = (
    Option("webhook", "A URL that each notice is sent to: short for `connector = 'http', url = '…'`.", kind="url"),
    Option("connector", "`http` or `kafka`, with the options that a sink has.", choices=CONNECTORS),
    Option("severity", "A word for those who get the notice, such as `critical`."),
    Option("summary", "A sentence for them; `{column}` stands for a value of the row."),
    Option("repeat", "How often a notice is sent again while the alert fires; without it, once.", kind="duration"),
    Option("log", "Whether notices are written to the log of the server.", default="true", kind="boolean"),
)


def make_alert(
    name: str,
    view: Stream | View,
    outputs: tuple[Output, ...],
    where: Expression,
    for_ms: int,
    options: Options,
    *,
    on_close: bool = False,
) -> Alert:
    """An alert on rows of a view."""
    if isinstance(view, Stream):
        raise DefinitionError(
            f"alert '{name}' reads the stream '{view.name}'",
            expected="a materialized view",
            fix="make a view that counts the events, or write ON STREAM … WHEN NO EVENTS FOR INTERVAL …",
        )
    if on_close and view.over is not None:
        raise DefinitionError(
            f"alert '{name}': the view '{view.name}' is over a table, whose rows may always change: no window closes",
            fix="remove EMIT ON WINDOW CLOSE",
        )
    if on_close and view.window is None:
        raise DefinitionError(
            f"alert '{name}': the view '{view.name}' has no window that could close",
            fix="remove EMIT ON WINDOW CLOSE, or declare the view with window(…) in GROUP BY",
        )
    if view.shape is not None and view.shape.limit is not None and on_close:
        raise DefinitionError(
            f"alert '{name}': the view '{view.name}' has LIMIT, so its rows do not close",
            fix="remove EMIT ON WINDOW CLOSE",
        )
    return Alert(name, view.name, outputs, where, for_ms, None, alert_options(name, options), on_close)


def make_absence(name: str, source: Stream | View, absent_ms: int, options: Options) -> Alert:
    """An alert for the absence of events: of a stream, or of each key of a view."""
    if absent_ms < SECOND_MS:
        raise DefinitionError(
            f"alert '{name}': the time without events is too short",
            found=format_duration(absent_ms),
            expected="at least 1 second",
        )
    if isinstance(source, View) and source.window is None:
        raise DefinitionError(
            f"alert '{name}': the view '{source.name}' has no window, so the time of its last events is not known",
            fix=f"declare the view with window(…) in GROUP BY, or write ON STREAM {source.streams[0]}",
        )
    if isinstance(source, Stream) and source.relation is not None:
        raise DefinitionError(
            f"alert '{name}': the events of the derived stream '{source.name}' are not counted",
            fix=f"write ON STREAM {source.relation.streams[0]}, or ON VIEW with a view over '{source.name}'",
        )
    return Alert(name, source.name, absent_ms=absent_ms, options=alert_options(name, options))


def alert_options(name: str, options: Options) -> Options:
    """The options of an alert, each checked: its own, and those of its connector."""
    owner, others = f"alert '{name}'", dict(options)
    known = {option.name: option for option in OPTIONS}
    own = {each: check_value(known[each], others.pop(each), owner) for each in list(others) if each in known}
    webhook, kind = own.pop("webhook", None), own.pop("connector", None)
    if webhook is not None:
        if kind is not None:
            raise DefinitionError(f"{owner} has both a webhook and a connector", fix="keep one of them")
        kind, others["url"] = "http", webhook
    if kind is None:
        if others:
            raise _unknown(owner, next(iter(others)))
        return tuple(sorted(own.items()))
    checked = check_options(find_connector(kind, owner), others.items(), owner)
    return tuple(sorted({**own, **dict(checked), "connector": kind}.items()))


def _unknown(owner: str, name: str) -> DefinitionError:
    names = [option.name for option in OPTIONS]
    near = nearest(name, names)
    return DefinitionError(
        f"{owner} has no option '{name}'",
        expected=f"{', '.join(names)}, or options of its connector",
        fix=f"did you mean '{near}'?" if near else "remove it, or add connector = 'http' or 'kafka'",
    )
