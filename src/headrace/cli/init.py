"""`headrace init`: a new workspace with an example that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.options import JsonOption
from headrace.cli.output import print_json
from headrace.errors import WorkspaceError

_EXAMPLE = """\
-- A stream: events of one shape. Each visit is one JSON object with these fields.
CREATE STREAM visits (
  visitor STRING NOT NULL,
  page    STRING,
  status  INT,
  bytes   BIGINT,
  at      TIMESTAMP NOT NULL,
  WATERMARK FOR at AS at - INTERVAL 1 MINUTE   -- event time and patience: late events always count
);

-- A view: numbers per page and minute, kept up to date as events arrive.
CREATE MATERIALIZED VIEW traffic AS
SELECT page,
       count(*)                                AS hits,
       count(*) FILTER (WHERE status >= 500)   AS errors,
       sum(bytes)                              AS bytes,
       approx_count_distinct(visitor)          AS visitors
FROM visits
WHERE status <> 304
GROUP BY page, window(at, '1 minute');
"""
_NEXT = """\
headrace up{where}
headrace send{where} visits events.ndjson
headrace ask{where} traffic --start -1h"""


def init(
    folder: Annotated[
        Path, typer.Argument(help="Where to make it.", metavar="FOLDER", show_default="the current folder")
    ] = Path(),
    as_json: JsonOption = False,
) -> None:
    """Make a workspace: settings, an example definition, and a .gitignore for its data."""
    files = {
        folder / "headrace.toml": settings_text(),
        folder / "definitions" / "shop.sql": _EXAMPLE,
        folder / ".gitignore": "data/\n",
    }
    for path in files:
        if path.exists() and path.name != ".gitignore":
            raise WorkspaceError(f"'{path}' exists already", fix="choose another folder; nothing was written")
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                path.write_text(text)
    except OSError as error:
        raise WorkspaceError(
            f"cannot write '{error.filename}': {error.strerror}", fix="choose another folder"
        ) from error
    if as_json:
        print_json({"folder": str(folder.resolve()), "files": [str(path.relative_to(folder)) for path in files]})
        return
    where = "" if folder.resolve() == Path.cwd() else f" -w {folder}"
    typer.echo(f"Made a workspace in {folder.resolve()}: headrace.toml, definitions/shop.sql\n\nNext:")
    for line in _NEXT.format(where=where).splitlines():
        typer.echo(f"  {line}")


def settings_text() -> str:
    """`headrace.toml` with every setting, commented out, at its default."""
    from headrace.config import Settings

    lines = ["# Settings of this workspace. A variable such as HEADRACE_PORT wins over this file.", ""]
    for name, field in Settings.model_fields.items():
        lines += [f"# {field.description}", f"# {name} = {toml_value(field.default)}", ""]
    return "\n".join(lines)


def toml_value(value: Any) -> str:
    """A default as TOML writes it."""
    if value is None:
        return '"…"'
    return f'"{value}"' if isinstance(value, str) else str(value)
