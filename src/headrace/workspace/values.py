"""Values of settings, checked by type and bounds, whether they come from TOML, a variable, an option or Python."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_WORDS = {
    **dict.fromkeys(("true", "1", "yes", "on", "t", "y"), True),
    **dict.fromkeys(("false", "0", "no", "off", "f", "n"), False),
}


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest value of a setting, its words, or its pattern."""

    least: float | None = None
    most: float | None = None
    words: tuple[str, ...] = ()
    pattern: str | None = None  # of a text
    described: str = ""  # the pattern in words


def check_value(kind: str, value: Any, bounds: Bounds) -> Any:
    """The value as the type that `kind` names, such as 'int'; raises a ValueError that names what was expected."""
    if value is None and kind.endswith("| None"):
        return None
    typed = _READERS[kind.removesuffix(" | None")](value)
    if bounds.words and typed not in bounds.words:
        raise ValueError(f"one of {', '.join(bounds.words)}")
    if bounds.pattern and not re.fullmatch(bounds.pattern, typed):
        raise ValueError(bounds.described)
    if bounds.least is not None and typed < bounds.least:
        raise ValueError(f"at least {bounds.least:g}")
    if bounds.most is not None and typed > bounds.most:
        raise ValueError(f"at most {bounds.most:g}")
    return typed


def _read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("text")
    return value


def _read_bool(value: Any) -> bool:
    word = str(value).lower() if isinstance(value, str | int) else ""
    if word not in _WORDS:
        raise ValueError("true or false")
    return _WORDS[word]


def _read_int(value: Any) -> int:
    number = _number(value)
    if not number.is_integer():
        raise ValueError("a whole number")
    return int(number)


def _read_float(value: Any) -> float:
    number = _number(value)
    if not math.isfinite(number):
        raise ValueError("a number")
    return number


def _number(value: Any) -> float:
    """A number, or a text that is one, as a float; else NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return math.nan
    try:
        return float(value)
    except (ValueError, OverflowError):
        return math.nan


_READERS: dict[str, Callable[[Any], Any]] = {
    "str": _read_text,
    "bool": _read_bool,
    "int": _read_int,
    "float": _read_float,
}
