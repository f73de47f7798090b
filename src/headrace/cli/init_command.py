"""`headrace init`: a new workspace, with an example that runs or with definitions inferred from files."""

from __future__ import annotations

import shlex
from dataclasses import fields as fields_of
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.common_options import JsonOption
from headrace.cli.output import print_json
from headrace.errors import UsageError, WorkspaceError
from headrace.lazy import later
from headrace.workspace.lease_holder import live_holder
from headrace.workspace.settings import Settings, Workspace

if TYPE_CHECKING:
    from headrace.cli import inferred_definitions
    from headrace.cli.inferred_definitions import InferredStream
else:  # loaded by their first use
    inferred_definitions = later("headrace.cli.inferred_definitions")

EXAMPLE = """\
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
EXAMPLE_TEST = """\
# Tests of the definitions: `headrace test` runs them, without a server.
- name: errors and bytes are counted per page and minute
  given:
    visits:
      - {visitor: ada, page: /home, status: 200, bytes: 100, at: 2026-01-01T12:00:05Z}
      - {visitor: bob, page: /home, status: 500, bytes: 20, at: 2026-01-01T12:00:59Z}
      - {visitor: ada, page: /cart, status: 200, bytes: 30, at: 2026-01-01T12:01:00Z}
      - {visitor: ada, page: /home, status: 304, bytes: 0, at: 2026-01-01T12:00:30Z}   # the view leaves out 304
  ask: {view: traffic}
  expect:
    rows:
      - {page: /home, window_start: 2026-01-01T12:00:00Z, hits: 2, errors: 1, bytes: 120, visitors: 2}
      - {page: /cart, window_start: 2026-01-01T12:01:00Z, hits: 1, errors: 0, bytes: 30, visitors: 1}

- name: a late event still counts
  given:
    visits:
      - {visitor: ada, page: /home, status: 200, bytes: 100, at: 2026-01-01T12:00:05Z}
      - {visitor: ada, page: /home, status: 200, bytes: 100, at: 2026-01-01T12:05:00Z}
      - {visitor: bob, page: /home, status: 200, bytes: 20, at: 2026-01-01T12:00:10Z, _arrived: 2026-01-01T12:09:00Z}
  ask: {view: traffic, key: {page: /home}, end: "2026-01-01T12:01:00Z"}
  expect:
    rows:
      - {hits: 2, bytes: 120, settled: true}
    corrections: 1   # the minute was settled when the event came

- name: a visit without a visitor is refused
  given:
    visits:
      - {page: /home, status: 200, bytes: 100, at: 2026-01-01T12:00:05Z}
  expect:
    dead_letters: ["'visitor' is missing"]
"""
EXAMPLE_EVENTS = """\
{"visitor": "ada", "page": "/home", "status": 200, "bytes": 512, "at": "2026-01-01T10:00:05Z"}
{"visitor": "grace", "page": "/home", "status": 200, "bytes": 1024, "at": "2026-01-01T10:00:40Z"}
{"visitor": "ada", "page": "/cart", "status": 500, "bytes": 64, "at": "2026-01-01T10:01:10Z"}
{"visitor": "alan", "page": "/home", "status": 200, "bytes": 100, "at": "2026-01-01T10:01:30Z"}
{"visitor": "grace", "page": "/cart", "status": 200, "bytes": 2048, "at": "2026-01-01T10:02:15Z"}
"""
SETTINGS, GITIGNORE, TESTS, EVENTS = "headrace.toml", ".gitignore", "tests", "visits.ndjson"


def init(
    places: Annotated[
        list[Path] | None,
        typer.Argument(help="Folder to create.", metavar="FOLDER...", show_default="the current folder"),
    ] = None,
    sources: Annotated[
        list[Path] | None,
        typer.Option("--from", help="Infer the definition from a file of events; can be repeated.", metavar="FILE"),
    ] = None,
    fields: Annotated[str | None, typer.Option(metavar="A,B,C", help="Column names of a CSV without a header.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Create a workspace. With --from, infer its definitions from a file of events.

    Writes settings, a definition file (an example, or inferred from NDJSON, JSON, CSV with a header, Parquet or lines
    of text such as an access log), a first test of it, some events of the example and a .gitignore. In an existing
    workspace, --from adds a definition file and its test.
    """
    folder, files = _places(places or [], sources or [])
    if fields is not None and not files:
        raise UsageError("--fields names the columns of a file", fix="name the file: --from FILE")
    inferred = _infer(files, folder, fields) if files else []
    files_to_write = [
        *((folder / "definitions" / f"{one.draft.name}.sql", one.draft.sql) for one in inferred),
        *((folder / TESTS / f"{one.draft.name}.yaml", one.test) for one in inferred if one.test),
    ] or [
        (folder / "definitions" / "shop.sql", EXAMPLE),
        (folder / TESTS / "shop.yaml", EXAMPLE_TEST),
        (folder / EVENTS, EXAMPLE_EVENTS),
    ]
    if not (inferred and (folder / SETTINGS).is_file()):
        files_to_write = [(folder / SETTINGS, settings_text()), *files_to_write, (folder / GITIGNORE, "data/\n")]
    files_to_write = [file for file in files_to_write if file[0].parent.name != TESTS or not file[0].exists()]
    for path, _ in files_to_write:
        if path.exists() and path.name != GITIGNORE:
            raise WorkspaceError(f"'{path}' exists already", fix="choose another folder; nothing was written")
    _write_all(files_to_write)
    where = "" if folder.resolve() == Path.cwd() else f" -w {folder}"
    names = [str(path.relative_to(folder)) for path, _ in files_to_write]
    commands = [command for one in inferred for command in one.commands(where)] or [
        f"headrace send{where} visits {shlex.quote(str(folder / EVENTS))} --wait",
        f"headrace ask{where} traffic",
    ]
    server_url = _server_url(Workspace.open(folder))
    if as_json:
        print_json(
            {
                "folder": str(folder.resolve()),
                "files": names,
                "streams": [one.as_dict() for one in inferred],
                "next": [f"headrace {'apply' if server_url else 'up'}{where}", *commands],
            }
        )
        return
    file_list = ", ".join(name for name in names if name != GITIGNORE)
    typer.echo(f"Created {'a workspace in ' if SETTINGS in names else ''}{folder.resolve()}: {file_list}")
    for one in inferred:
        typer.echo("")
        for line in one.lines():
            typer.echo(line)
    port = Workspace.open(folder).settings.port or Settings.port
    _print_next(where, commands, server_url, f"http://localhost:{port}")


def _places(places: list[Path], sources: list[Path]) -> tuple[Path, list[Path]]:
    """The folder, and the files: the shell turns `--from *.csv` into one option and many arguments."""
    files = [place for place in places if sources and place.is_file()]
    folders = [place for place in places if place not in files]
    if folders and folders[0].is_file():
        raise UsageError(
            f"'{folders[0]}' is a file, not a folder", fix=f"to infer a definition from it: --from {folders[0]}"
        )
    if len(folders) > 1:
        raise UsageError(
            "a workspace is one folder",
            found=", ".join(f"'{folder}'" for folder in folders),
            fix="give one folder; files of events follow --from",
        )
    return (folders[0] if folders else Path()), [*sources, *files]


def _infer(files: list[Path], folder: Path, fields: str | None) -> list[InferredStream]:
    return inferred_definitions.infer(files, folder, fields)


def _write_all(files: list[tuple[Path, str]]) -> None:
    """Write all of the files, or none."""
    new_paths: list[Path] = []
    try:
        for path, text in files:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                new_paths.append(path)
                path.touch(mode=0o600 if path.name == SETTINGS else 0o666)  # it may contain a token
                path.write_text(text, encoding="utf-8")
    except OSError as error:
        for path in new_paths:
            path.unlink(missing_ok=True)
        raise WorkspaceError(
            f"cannot write '{error.filename}': {error.strerror}", fix="choose another folder; nothing was written"
        ) from error


def _server_url(workspace: Workspace) -> str | None:
    """The URL of the server that holds the workspace, if one does."""
    holder = live_holder(workspace.lease_file)
    return holder.url if holder else None


def _print_next(where: str, commands: list[str], server_url: str | None, url: str) -> None:
    if server_url:
        typer.echo("\nNext (a server runs this workspace already):")
        typer.echo(f"  headrace apply{where}")
    else:
        typer.echo("\nNext, in this terminal (it runs until Ctrl-C):")
        typer.echo(f"  headrace up{where}")
        typer.echo("and in a second one:")
    for command in commands:
        typer.echo(f"  {command}")
    typer.echo(f"Open {server_url or url} in a browser to watch it.")


def settings_text() -> str:
    """`headrace.toml` with every setting, commented out, at its default."""
    lines = ["# Settings of this workspace. Environment variables such as HEADRACE_PORT take precedence.", ""]
    for each in fields_of(Settings):
        lines += [f"# {each.metadata['description']}", f"# {each.name} = {toml_value(each.default)}", ""]
    return "\n".join(lines)


def toml_value(value: Any) -> str:
    """A default as TOML."""
    if value is None:
        return '"…"'
    return f'"{value}"' if isinstance(value, str) else str(value).lower()  # true, not True
