"""The applied catalog of a workspace on disk; its file is replaced atomically."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson

from headrace.define.definitions import Catalog
from headrace.define.fingerprint import from_json, to_json
from headrace.disk import replace_file
from headrace.errors import CorruptionError


def read_running(file: Path) -> Catalog:
    """The applied catalog; empty before the first apply."""
    try:
        content = orjson.loads(file.read_bytes())
        definitions = [from_json(value) for value in content["definitions"]]
    except FileNotFoundError:
        return Catalog()
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise CorruptionError(
            f"catalog '{file}' cannot be read: {error}",
            fix="move it away: `headrace up` writes it again from the definitions",
        ) from error
    reads = {name: tuple(sources) for name, sources in content.get("reads", {}).items()}
    return replace(Catalog.of(definitions), reads=reads)


def write_running(file: Path, catalog: Catalog) -> None:
    """Make this the applied catalog."""
    file.parent.mkdir(parents=True, exist_ok=True)
    definitions = [to_json(each) for each in catalog.definitions]
    reads = {"reads": {name: list(sources) for name, sources in catalog.reads.items()}} if catalog.reads else {}
    content = orjson.dumps({"definitions": definitions, **reads}, option=orjson.OPT_INDENT_2)
    replace_file(file, content, "the applied definitions were not recorded")
