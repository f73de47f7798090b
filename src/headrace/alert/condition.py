"""The WHERE and the SELECT of an alert, compiled for the rows of its view."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from headrace.alert.incident import FOREVER_US, Observation
from headrace.engine.python_evaluation import compile_expression
from headrace.define.model import Alert, Window
from headrace.format import EPOCH
from headrace.serve.values import encoder
from headrace.types import Type

START, END, SETTLED = "window_start", "window_end", "settled"


class Condition:
    """Looks at rows with these columns: the keys, the bounds of windows, the outputs of the view, and settled."""

    def __init__(
        self, alert: Alert, columns: Sequence[tuple[str, Type]], keys: Sequence[str], window: Window | None
    ) -> None:
        self._names = [name for name, _ in columns]
        self._where = compile_expression(alert.where, tuple(columns)) if alert.where else None
        encoders = {name: encoder(of) for name, of in columns}
        self._keys = [(name, self._names.index(name), encoders[name]) for name in keys]
        self._outputs: list[tuple[str, Callable[[Sequence[Any]], Any], Callable[[Any], Any] | None]] = [
            (output.name, compile_expression(output.expression, tuple(columns)), encoder(output.expression.type))
            for output in alert.outputs
        ]
        self._columns = [(name, at, encoders[name]) for at, name in enumerate(self._names)]
        self._window = window
        self._time_us = 0

    def at(self, time_us: int) -> Condition:
        """Look from a time of the view: a row without a window speaks for the time from then on."""
        self._time_us = time_us
        return self

    def key(self, row: Sequence[Any]) -> dict[str, Any]:
        """The key of a row, as JSON values."""
        return {name: _encoded(row[at], encode) for name, at, encode in self._keys}

    def observe(self, row: Sequence[Any], version: int, commit: int) -> Observation:
        """What the alert sees of a row."""
        matches = self._where is not None and self._where(row) is True
        return Observation(self._shown(row) if matches else {}, matches, version, commit, *self._span(row))

    def observe_gone(self, row: Sequence[Any], version: int, commit: int) -> Observation:
        """What the alert sees of a row that is gone; it has only keys and times."""
        return Observation({}, False, version, commit, *self._span(row))

    def _span(self, row: Sequence[Any]) -> tuple[int, int]:
        """The event time that the window of a row adds to the window before it; without windows, from now on."""
        if self._window is None:
            return self._time_us, FOREVER_US
        start_us, end_us = (_us(row[self._names.index(name)]) for name in (START, END))
        if self._window.calendar and not self._window.cumulative:
            return start_us, end_us
        step_start_us = end_us - self._window.slide_ms * 1000
        return max(start_us, step_start_us) if self._window.cumulative else step_start_us, end_us

    def _shown(self, row: Sequence[Any]) -> Mapping[str, Any]:
        """The row as notices show it: what SELECT names, and the bounds of its window."""
        columns = [column for column in self._columns if not self._outputs or column[0] in (START, END)]
        values = {name: _encoded(row[at], encode) for name, at, encode in columns}
        return values | {name: _encoded(face(row), encode) for name, face, encode in self._outputs}


def _encoded(value: Any, encode: Callable[[Any], Any] | None) -> Any:
    return value if value is None or encode is None else encode(value)


def _us(time: datetime) -> int:
    return (time - EPOCH) // timedelta(microseconds=1)
