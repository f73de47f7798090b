"""The catalog: all streams and views of a workspace, read from its definition files and checked against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.define.model import Stream, View
from headrace.define.script import run_script
from headrace.define.select import Select, build_view
from headrace.define.statements import read_statements
from headrace.define.tokens import Source
from headrace.errors import DefinitionError, DefinitionErrors, Location, did_you_mean


@dataclass(frozen=True)
class Catalog:
    """Streams and views by name; `locations` says where each is declared and is no part of equality."""

    streams: Mapping[str, Stream] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)
    locations: Mapping[str, Location] = field(default_factory=dict, compare=False)

    def views_of(self, stream: str) -> tuple[View, ...]:
        """The views that read a stream."""
        return tuple(view for view in self.views.values() if view.stream == stream)

    def __len__(self) -> int:
        return len(self.streams) + len(self.views)


@dataclass(frozen=True)
class Definition:
    """Something declared, with its place; a view in SQL is a Select until its stream is known."""

    what: Stream | View | Select
    where: Location


def load(folder: Path | str) -> Catalog:
    """The catalog of a folder's *.sql and *.py files; all their mistakes at once."""
    definitions: list[Definition] = []
    errors: list[DefinitionError] = []
    for path in sorted(p for p in Path(folder).glob("*") if p.suffix in (".sql", ".py") and p.is_file()):
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as e:
            errors.append(DefinitionError(f"the definition file cannot be read: {e}", where=Location(str(path), 1, 1)))
            continue
        if path.suffix == ".sql":
            declared, mistakes = read_statements(Source(text, str(path)))
            definitions += [Definition(d.definition, d.where) for d in declared]
            errors += mistakes
        else:
            try:
                definitions += [Definition(what, where) for what, where in run_script(path, text)]
            except DefinitionErrors as e:
                errors += e.errors
            except DefinitionError as e:
                errors.append(e)
    return assemble(definitions, errors)


def assemble(
    definitions: list[Definition], errors: list[DefinitionError] | None = None, known: Catalog | None = None
) -> Catalog:
    """The catalog of these definitions, views resolved against streams of all of them and of `known`."""
    errors = list(errors or [])
    streams: dict[str, Stream] = {}
    views: dict[str, View] = {}
    locations: dict[str, Location] = {}
    taken: dict[str, Location] = {}
    readable = dict(known.streams) if known else {}
    broken = bool(errors)
    for definition in definitions:
        name = definition.what.name
        if name.lower() in taken:
            errors.append(
                DefinitionError(
                    f"'{name}' is declared twice, also at {taken[name.lower()]}",
                    fix="rename one",
                    where=definition.where,
                )
            )
            continue
        taken[name.lower()] = locations[name] = definition.where
        if isinstance(definition.what, Stream):
            streams[name] = readable[name] = definition.what
    for definition in definitions:
        if isinstance(definition.what, Stream) or locations.get(definition.what.name) != definition.where:
            continue
        try:
            views[definition.what.name] = _resolve(definition, readable)
        except _UnknownStreamError as e:
            # After a mistake elsewhere the stream may be one that could not be read: one message is enough.
            if not broken:
                errors.append(e)
        except DefinitionError as e:
            errors.append(e)
    if errors:
        errors.sort(key=lambda e: (e.where.file, e.where.line, e.where.column) if e.where else ("", 0, 0))
        raise errors[0] if len(errors) == 1 else DefinitionErrors(errors)
    return Catalog(streams, views, locations)


class _UnknownStreamError(DefinitionError):
    """A view reads a stream that is not declared."""


def _resolve(definition: Definition, streams: dict[str, Stream]) -> View:
    what = definition.what
    assert not isinstance(what, Stream)
    by_lower = {name.lower(): stream for name, stream in streams.items()}
    stream = by_lower.get(what.stream.lower())
    if stream is None:
        where = what.source.locate(what.stream_at) if isinstance(what, Select) else definition.where
        fix = did_you_mean(what.stream.lower(), by_lower) or "declare it with CREATE STREAM"
        raise _UnknownStreamError(
            f"view '{what.name}' reads the stream '{what.stream}', which does not exist", fix=fix, where=where
        )
    return build_view(what, stream) if isinstance(what, Select) else what
