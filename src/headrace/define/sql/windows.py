"""window(…), TUMBLE(…) and HOP(…): the one window of a view, however it is written."""

from __future__ import annotations

from typing import Literal as LiteralType

from headrace.define.durations import parse_duration
from headrace.define.expression.syntax import Call, Interval, Literal, Name, Node
from headrace.define.model import Stream, Window
from headrace.define.rules import located, make_window
from headrace.define.tokens import Source
from headrace.errors import DefinitionError
from headrace.types import STRING

WINDOW_CALLS = ("window", "tumble", "hop")
START_CALLS = ("tumble_start", "hop_start", "window_start")
END_CALLS = ("tumble_end", "hop_end", "window_end")
UNSUPPORTED_CALLS = ("session", "session_window", "cumulate")
FORMS = {
    "window": "window(at, '1 minute') or window(at, '1 hour', '5 minutes')",
    "tumble": "TUMBLE(at, INTERVAL 1 MINUTE)",
    "hop": "HOP(at, slide, size), as in HOP(at, INTERVAL 5 MINUTES, INTERVAL 1 HOUR)",
}


Bound = LiteralType["start", "end", "both"]


def window_bound(source: Source, node: Node) -> Bound | None:
    """The bound of the window that an expression names, `both` for the window itself; None for other expressions."""
    if isinstance(node, Call):
        name = node.name.lower()
        return "start" if name in START_CALLS else "end" if name in END_CALLS else "both" if name == "window" else None
    if not isinstance(node, Name):
        return None
    name = node.name.lower()
    if (node.of or "").lower() == "window":
        if name not in ("start", "end"):
            raise source.error(node.at, f"a window has no '{node.name}'", expected="window.start or window.end")
        return "start" if name == "start" else "end"
    return {"window": "both", "window_start": "start", "window_end": "end"}.get(name)  # type: ignore[return-value]


def read_window(source: Source, call: Call, stream: Stream) -> Window:
    """The window of a call over the event time of the stream."""
    kind = call.name.lower()
    counts = {"window": (2, 3), "tumble": (2,), "hop": (3,)}[kind]
    if len(call.args) not in counts:
        raise source.error(call.at, f"{kind} does not take {len(call.args)} arguments", expected=FORMS[kind])
    _check_column(source, call.args[0], stream)
    spans = [_span(source, arg, kind) for arg in call.args[1:]]
    size, slide = (spans[1], spans[0]) if kind == "hop" else (spans[0], spans[-1])
    with located(source, call.at):
        return make_window(size, slide)


def _check_column(source: Source, node: Node, stream: Stream) -> None:
    time = stream.time_column
    if isinstance(node, Name) and node.name.lower() == time.lower():
        return
    watermark = f"WATERMARK FOR {node.name}" if isinstance(node, Name) and not stream.event_time else None
    raise source.error(
        node.at,
        f"a window is over the event time of the stream; that of '{stream.name}' is '{time}'",
        found=f"'{node.name}'" if isinstance(node, Name) else "an expression",
        fix=f"declare {watermark} in the stream, or write {time}" if watermark else f"write {time}",
        write=time,
        span=node.span,
    )


def _span(source: Source, node: Node, kind: str) -> int:
    if isinstance(node, Interval):
        return node.ms
    if isinstance(node, Literal) and node.type == STRING:
        try:
            return parse_duration(node.text)
        except DefinitionError as e:
            raise source.error(node.at, e.message, found=e.found, expected=e.expected, fix=e.fix) from None
    raise source.error(node.at, f"{kind} takes a constant duration here", expected=FORMS[kind])
