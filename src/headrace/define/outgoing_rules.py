"""Rules of sinks and alerts, the same for definitions in SQL and in Python. Errors here have no place yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.define.connectors import BOOLEANS, FILES, Connector, Option, check_options, check_value, find_connector
from headrace.define.model import BOUNDS, Alert, Mode, Options, Output, Sink, Stream, View
from headrace.define.outputs import outputs_of
from headrace.errors import DefinitionError, nearest
from headrace.language.check import Scope
from headrace.language.durations import SECOND_MS, format_duration
from headrace.language.terms import Expression
from headrace.types import BOOLEAN, TIMESTAMP, Type

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
    if isinstance(source, View) and source.has_sessions:
        raise DefinitionError(
            f"alert '{name}': the view '{source.name}' has sessions, each of which ends when no events come",
            expected="a view with windows of a fixed size",
            fix=f"declare one with window(…) in GROUP BY, or write ON STREAM {source.streams[0]}",
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


SETTLED = "settled"
# What FORMAT, `mode` and RisingWave's `type` call them.
_MODES: dict[str, Mode] = {
    "append": "append", "plain": "append", "append-only": "append", "insert": "append",
    "update": "update", "upsert": "update", "complete": "complete", "retract": "update",
}  # fmt: skip
_MODE_OPTIONS = ("mode", "output.mode", "type")


@dataclass(frozen=True)
class WrittenShape:
    """The clauses of a sink beside its name and source."""

    options: Sequence[tuple[str, str]]  # of WITH, the connector among them
    where: Expression | None = None
    format: str | None = None  # the word after FORMAT
    encode: str | None = None  # the word after ENCODE
    on_close: bool | None = None  # EMIT ON WINDOW CLOSE or EMIT CHANGES; None: neither


def make_sink(name: str, source: Stream | View, written: WrittenShape) -> Sink:
    """The sink, every rule checked."""
    options = dict(written.options)
    kind = options.pop("connector", None)
    if kind is None:
        raise DefinitionError(f"sink '{name}' has no connector", fix="add one, as in WITH (connector = 'files', …)")
    connector = find_connector(kind, f"sink '{name}'")
    mode = _read_mode(name, options, written.format)
    corrections = _corrections(name, options)
    if written.encode is not None:
        options |= _encoding(name, connector, written.encode, options)
    checked = check_options(connector, options.items(), f"sink '{name}'")
    if isinstance(source, Stream):
        mode = _stream_mode(name, source, mode, written.on_close)
        on_close, corrections = False, True
    else:
        mode, on_close, corrections = _view_mode(name, source, mode, written.on_close, corrections)
        _refuse_startup(name, source, dict(checked))
    if connector is FILES:
        _check_files(name, source, dict(checked))
    if mode not in connector.modes:
        compacted = "write FORMAT UPSERT: a compacted topic holds the newest row of each key"
        raise DefinitionError(
            f"sink '{name}': the connector '{connector.name}' has no mode '{mode}'",
            expected=" or ".join(f"'{each}'" for each in connector.modes),
            fix=compacted if mode == "complete" else None,
        )
    return Sink(name, source.name, connector.name, checked, written.where, mode, on_close, corrections)


def row_scope(source: Stream | View) -> Scope:
    """Return the names that a condition of a sink or an alert may use."""
    kind = "stream" if isinstance(source, Stream) else "view"
    return Scope(row_types(source), f"{kind} '{source.name}'", (source.name,))


def row_types(source: Stream | View) -> dict[str, Type]:
    """The columns of an event, or of a row of a view's default question."""
    if isinstance(source, Stream):
        return source.types()
    return {
        **{key.name: key.expression.type for key in source.keys},
        **dict.fromkeys((*BOUNDS, *(source.window.names if source.window else ())), TIMESTAMP),
        **{output.name: output.expression.type for output in outputs_of(source)},
        SETTLED: BOOLEAN,
    }


def row_keys(source: Stream | View) -> tuple[str, ...]:
    """The columns that tell rows of a view apart; events of a stream have none."""
    if isinstance(source, Stream):
        return ()
    bounds = () if source.window is None else BOUNDS if source.window.cumulative else BOUNDS[:1]
    return (*(key.name for key in source.keys), *bounds)


def _read_mode(name: str, options: dict[str, str], format_: str | None) -> Mode | None:
    mode_options = {option: options.pop(option) for option in _MODE_OPTIONS if option in options}
    words = [*mode_options.values(), *([format_] if format_ else [])]
    modes = {_mode(name, word) for word in words}
    if len(modes) > 1:
        raise DefinitionError(f"sink '{name}' has two modes", found=" and ".join(words), fix="keep one")
    return modes.pop() if modes else None


def _mode(name: str, word: str) -> Mode:
    if word.lower() not in _MODES:
        raise DefinitionError(
            f"sink '{name}': there is no mode or format '{word}'",
            expected="FORMAT UPSERT or FORMAT APPEND; mode = 'append', 'update' or 'complete'",
        )
    return _MODES[word.lower()]


def _corrections(name: str, options: dict[str, str]) -> bool | None:
    value = options.pop("corrections", None)
    if value is None:
        return None
    if value.lower() not in (*BOOLEANS, "on", "off"):
        raise DefinitionError(
            f"sink '{name}': the value of the option 'corrections' cannot be used",
            found=f"'{value}'",
            expected="true or false",
        )
    return value.lower() in ("true", "on")


def _encoding(name: str, connector: Connector, encode: str, options: dict[str, str]) -> dict[str, str]:
    """The option that ENCODE stands for."""
    lower = encode.lower()
    if connector is FILES and lower in ("json", "parquet"):
        if options.get("format", lower).lower() != lower:
            raise DefinitionError(
                f"sink '{name}' has two formats", found=f"{encode} and {options['format']}", fix="keep one"
            )
        return {"format": lower}
    if lower != "json":
        raise DefinitionError(f"sink '{name}': there is no encoding {encode}", expected="ENCODE JSON")
    return {}


def _stream_mode(name: str, stream: Stream, mode: Mode | None, on_close: bool | None) -> Mode:
    if mode not in (None, "append"):
        raise DefinitionError(
            f"sink '{name}': events of stream '{stream.name}' never change",
            found=f"mode '{mode}'",
            fix="write FORMAT APPEND, or leave it out",
        )
    if on_close:
        raise DefinitionError(
            f"sink '{name}': stream '{stream.name}' has no windows to close", fix="remove EMIT ON WINDOW CLOSE"
        )
    return "append"


def _view_mode(
    name: str, view: View, mode: Mode | None, on_close: bool | None, corrections: bool | None
) -> tuple[Mode, bool, bool]:
    """The mode, whether rows are sent when they are settled, and whether corrections of those are."""
    mode = mode or "update"
    if mode == "append":
        if on_close is False:
            raise DefinitionError(
                f"sink '{name}': rows of view '{view.name}' change, which FORMAT APPEND cannot send",
                fix="write EMIT ON WINDOW CLOSE, or FORMAT UPSERT",
            )
        if corrections:
            raise DefinitionError(
                f"sink '{name}': FORMAT APPEND sends each row once, so it has no corrections",
                fix="remove the option 'corrections', or write FORMAT UPSERT",
            )
        on_close, corrections = True, False
    if mode == "complete" and on_close:
        raise DefinitionError(
            f"sink '{name}': mode 'complete' sends all rows at each change",
            found="EMIT ON WINDOW CLOSE",
            fix="remove it, or write FORMAT UPSERT",
        )
    if on_close and view.over is not None:
        raise DefinitionError(
            f"sink '{name}': view '{view.name}' is over a table, whose rows may always change: it is never settled",
            fix="write FORMAT UPSERT without EMIT ON WINDOW CLOSE",
        )
    if on_close and view.window is None:
        clause = "FORMAT APPEND" if mode == "append" else "EMIT ON WINDOW CLOSE"
        raise DefinitionError(
            f"sink '{name}': view '{view.name}' has no window, so its rows are never settled",
            found=clause,
            fix="write FORMAT UPSERT without EMIT ON WINDOW CLOSE, or add window(…) to GROUP BY of the view",
        )
    if corrections is not None and not on_close:
        raise DefinitionError(
            f"sink '{name}': 'corrections' applies to settled rows, but all changes are sent",
            fix="remove it, or add EMIT ON WINDOW CLOSE",
        )
    return mode, bool(on_close), corrections is not False


def _check_files(name: str, source: Stream | View, options: dict[str, str]) -> None:
    compression = options.get("compression", "none")
    if options.get("format") == "json" and compression not in ("gzip", "none"):
        raise DefinitionError(
            f"sink '{name}': files of JSON cannot be compressed with {compression}", expected="'gzip' or 'none'"
        )
    if options.get("partition.by") == "date" and isinstance(source, View) and source.window is None:
        raise DefinitionError(
            f"sink '{name}': view '{source.name}' has no window, so its rows have no date", fix="remove 'partition.by'"
        )


def _refuse_startup(name: str, view: View, options: dict[str, str]) -> None:
    if options.get("scan.startup.mode", "earliest") != "earliest":
        raise DefinitionError(
            f"sink '{name}': view '{view.name}' is always sent from its current state on",
            found="scan.startup.mode",
            fix="remove it; it applies to sinks of streams",
        )
