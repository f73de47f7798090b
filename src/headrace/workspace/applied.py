"""What runs in a workspace, on disk: the catalog that was applied last, replaced whole or not at all."""

from __future__ import annotations

from pathlib import Path

import orjson

from headrace.define.catalog import Catalog
from headrace.define.fingerprint import from_json, to_json
from headrace.define.model import Stream, View
from headrace.disk import replace_file
from headrace.errors import CorruptionError


def read_running(file: Path) -> Catalog:
    """The running catalog; empty before the first apply."""
    try:
        said = orjson.loads(file.read_bytes())
        definitions = [from_json(value) for value in said["definitions"]]
    except FileNotFoundError:
        return Catalog()
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise CorruptionError(
            f"catalog '{file}' cannot be read: {error}",
            fix="move it away: `headrace up` makes it again from the definitions",
        ) from error
    return Catalog(
        {d.name: d for d in definitions if isinstance(d, Stream)},
        {d.name: d for d in definitions if isinstance(d, View)},
    )


def write_running(file: Path, catalog: Catalog) -> None:
    """Make this catalog the one that runs."""
    file.parent.mkdir(parents=True, exist_ok=True)
    every: list[Stream | View] = [*catalog.streams.values(), *catalog.views.values()]
    content = orjson.dumps({"definitions": [to_json(d) for d in every]}, option=orjson.OPT_INDENT_2)
    replace_file(file, content, "the definitions that run were not recorded")
