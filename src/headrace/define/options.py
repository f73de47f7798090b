"""Rules for the options of connectors, the same in SQL, in Python and in headrace.toml."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.define.durations import parse_duration
from headrace.errors import DefinitionError, nearest

_BOOLEANS = {"true": True, "false": False}


class OptionError(DefinitionError):
    """A mistake in one option; `option` is its name as it was written, in lower case.

    It is mended by another name (`rename`), by leaving the option out (`remove`) or by another option (`write`).
    """

    def __init__(
        self,
        option: str,
        message: str,
        *,
        found: str | None = None,
        expected: str | None = None,
        fix: str | None = None,
        write: str | None = None,
        rename: str | None = None,
        remove: bool = False,
    ) -> None:
        fix = fix or (f"write {write}" if write else f"did you mean '{rename}'?" if rename else None)
        super().__init__(message, found=found, expected=expected, fix=fix or ("remove it" if remove else None))
        self.option = option
        self.write = write
        self.rename = rename
        self.remove = remove


def unknown_option(name: str, known: Iterable[str], owner: str) -> OptionError:
    """The error of a name that is no option: with the nearest one, or all of them."""
    names = list(known)
    near = nearest(name, names)
    fix = None if near else f"options are: {', '.join(names)}"
    return OptionError(name, f"{owner} has no option '{name}'", fix=fix, rename=near, remove=near is None)


def read_boolean(options: Mapping[str, str], name: str, default: bool) -> bool:
    """A value that is true or false."""
    value = options.get(name)
    if value is None:
        return default
    if value.lower() not in _BOOLEANS:
        raise OptionError(
            name, f"the option '{name}' has an invalid value", found=f"'{value}'", expected="true or false"
        )
    return _BOOLEANS[value.lower()]


def read_integer(options: Mapping[str, str], name: str, *, least: int = 0) -> int | None:
    """A whole number."""
    value = options.get(name)
    if value is None:
        return None
    if not value.isascii() or not value.isdigit() or int(value) < least:
        expected = "a whole number" + (f", at least {least}" if least else "")
        raise OptionError(name, f"the option '{name}' has an invalid value", found=f"'{value}'", expected=expected)
    return int(value)


def read_milliseconds(options: Mapping[str, str], name: str, default_ms: int, *, least_ms: int = 0) -> int:
    """A duration such as '30 s'; a bare number counts milliseconds."""
    value = options.get(name)
    if value is None:
        return default_ms
    try:
        duration_ms = int(value) if value.isascii() and value.isdigit() else parse_duration(value)
    except DefinitionError as error:
        raise OptionError(
            name, f"the option '{name}' has an invalid value", found=f"'{value}'", expected=error.expected
        ) from None
    if duration_ms < least_ms:
        raise OptionError(
            name, f"the option '{name}' is too short", found=f"'{value}'", expected=f"at least {least_ms} ms"
        )
    return duration_ms
