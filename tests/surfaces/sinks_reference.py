"""Generates the tables of docs/sinks.md from the options of the connectors."""

from __future__ import annotations

import re

from headrace.define.connectors import COMMON, CONNECTORS, Connector, Option

_TABLE = re.compile(r"<!-- (\w+) -->\n.*?<!-- end -->\n", re.DOTALL)


def sinks_reference(text: str) -> str:
    """The text with its tables as the code has them."""
    return _TABLE.sub(lambda match: f"<!-- {match[1]} -->\n{_content(match[1])}<!-- end -->\n", text)


def _content(name: str) -> str:
    if name == "connectors":
        rows = [f"| {each.name} | {each.summary} | {', '.join(each.modes)} | {each.delivery} |" for each in _every()]
        return "| connector | sends to | modes | delivery |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"
    options = COMMON if name == "common" else CONNECTORS[name].options
    rows = [_row(option) for option in options]
    if name != "common":
        rows += [f"| `{prefix}…` | | {what} |" for prefix, what in CONNECTORS[name].prefixes]
    return "| option | default | description |\n|---|---|---|\n" + "\n".join(rows) + "\n"


def _row(option: Option) -> str:
    default = "required" if option.required else f"`{option.default}`" if option.default else ""
    also = f" Also: {', '.join(f'`{name}`' for name in option.also)}." if option.also else ""
    return f"| `{option.name}` | {default} | {option.summary}{also} |"


def _every() -> list[Connector]:
    return list(CONNECTORS.values())
