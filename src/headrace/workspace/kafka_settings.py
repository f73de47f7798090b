"""The table [kafka] of headrace.toml: settings of the Kafka client that every connector of the workspace shares."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.define.connector_options import LIBRDKAFKA, OptionError, check_property
from headrace.errors import WorkspaceError

TABLE = "kafka"
PREFIX = "HEADRACE_KAFKA_"


def read_kafka(table: object, file: Path) -> dict[str, str]:
    """The settings by the names of librdkafka. HEADRACE_KAFKA_SASL_PASSWORD sets sasl.password, before the file."""
    if not isinstance(table, Mapping):
        raise WorkspaceError(
            f"settings '{file}': '{TABLE}' is a table", found=repr(table), fix=f'write [{TABLE}] and below it, for '
            'example, "bootstrap.servers" = "localhost:9092"',
        )  # fmt: skip
    variables = dict(_variables())
    properties = {**dict(_flat(table)), **variables}
    for name, value in properties.items():
        try:
            check_property(name, name, value)
        except OptionError as error:
            source = "variables" if name in variables else f"settings '{file}'"
            raise WorkspaceError(
                f"{source}: [{TABLE}] {error.message}", found=error.found, expected=error.expected, fix=error.fix
            ) from None
    return {name: value for name, value in sorted(properties.items()) if name != "isolation.level"}


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Names with dots: bootstrap.servers without quotes is a table in a table in TOML."""
    for name, value in table.items():
        full = f"{before}{name}".lower().removeprefix("properties.")
        if isinstance(value, Mapping):
            yield from _flat(value, f"{full}.")
        else:
            yield full, str(value).lower() if isinstance(value, bool) else str(value)


def _variables() -> Iterator[tuple[str, str]]:
    names = {f"{PREFIX}{name.upper().replace('.', '_')}": name for name in LIBRDKAFKA}
    for variable, value in os.environ.items():
        if variable.upper() in names:
            yield names[variable.upper()], value
