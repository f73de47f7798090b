"""Where the value of a field is in an event: FROM 'log.level' is a key, FROM '$.service.name' a JSON path."""

from __future__ import annotations

import re
from functools import lru_cache

from headrace.errors import DefinitionError

Steps = tuple[str | int, ...]  # names of objects and indexes of arrays, the outermost first

MOST_STEPS = 16
_MOST_INDEX = 99_999  # an event has at most 100,000 values
_PLAIN = re.compile(r"[A-Za-z_]\w*")
_STEP = re.compile(
    r"""
    \.(?P<word>[^.\[\]'"*\s]+)
  | \[(?P<index>\d+)\]
  | \[(?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]
    """,
    re.VERBOSE | re.DOTALL,
)
_EXPECTED = "a key as it is in the event, as in 'log.level', or a path, as in '$.service.name' or '$.items[0].sku'"


@lru_cache(maxsize=4096)  # parsers ask for them again and again
def parse_path(text: str) -> Steps:
    """The steps of what FROM says: a text that begins with $ is a JSON path, any other is one key of the event."""
    if not text:
        raise DefinitionError("FROM '' names nothing", expected=_EXPECTED)
    if not text.startswith("$"):
        return (text,)
    steps: list[str | int] = []
    at = 1
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            raise _invalid(text, at)
        steps.append(_value(step))
        at = step.end()
    if not steps or isinstance(steps[0], int) or "" in steps:
        raise _invalid(text, 1)
    if len(steps) > MOST_STEPS or any(isinstance(step, int) and step > _MOST_INDEX for step in steps):
        raise DefinitionError(f"the path '{text}' is too deep", expected=f"at most {MOST_STEPS} steps")
    return tuple(steps)


def format_path(steps: Steps) -> str:
    """The one way to write these steps, which `parse_path` reads."""
    if len(steps) == 1 and isinstance(steps[0], str) and not steps[0].startswith("$"):
        return steps[0]
    return "$" + "".join(map(_written, steps))


def _written(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if _PLAIN.fullmatch(step):
        return f".{step}"
    escaped = step.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{escaped}']"


def _value(step: re.Match[str]) -> str | int:
    if step["index"] is not None:
        return int(step["index"])
    return step["word"] or re.sub(r"\\(.)", r"\1", step["quoted"][1:-1], flags=re.DOTALL)


def _invalid(text: str, at: int) -> DefinitionError:
    if "*" in text[at : at + 3] or text[at : at + 2] == "..":
        several = "name one element, as in $.items[0], or declare an ARRAY field of the whole list"
        return DefinitionError(f"the path '{text}' leads to several values", expected=_EXPECTED, fix=several)
    fix = None if text.startswith(("$.", "$[")) else f"a key that itself begins with $ is written $['{text}']"
    return DefinitionError(f"the path '{text}' cannot be read from character {at + 1} on", expected=_EXPECTED, fix=fix)
