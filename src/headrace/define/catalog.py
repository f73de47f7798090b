"""The catalog: all definitions of a workspace, read from its definition files and checked against each other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from headrace.define.definitions import Catalog as Catalog
from headrace.define.dependent_definitions import build_alert, build_derived, build_sink, build_table
from headrace.define.fingerprint import aggregate_id
from headrace.define.logical_views import build_logical_views
from headrace.define.model import Alert, LogicalView, Sink, Stream, Table, View
from headrace.define.python.definition_script import run_script
from headrace.define.sql_definitions import read_definitions
from headrace.define.table_parts import over_table, with_parts
from headrace.define.unresolved import (
    PlacedDefinition,
    complete,
    declared_twice,
    over_view,
    reads_logical,
    unknown_source,
    unknown_stream,
)
from headrace.define.view_builder import build_view
from headrace.errors import DefinitionError, Location
from headrace.language.source_text import SourceText, each, join, placed, quote_lines
from headrace.language.statements.create_alert import AlertStatement
from headrace.language.statements.create_sink import SinkStatement
from headrace.language.statements.create_stream import DerivedStatement
from headrace.language.statements.create_table import DerivedTable
from headrace.language.statements.create_view import LogicalStatement, ViewStatement
from headrace.language.syntax import StreamRead
from headrace.language.user_functions import fresh_names

Declared = tuple[DerivedStatement, Location]


def in_order(
    declared: Sequence[Declared], errors: list[DefinitionError], broken: set[str | None]
) -> Iterator[Declared]:
    """The statements, each after those that it reads. A cycle is added to `errors`, and its streams to `broken`."""
    waiting = {statement.name.lower(): (statement, where) for statement, where in declared}
    reads = {
        name: [read.name.lower() for read in (*statement.reads, *statement.joined)]
        for name, (statement, _) in waiting.items()
    }
    while waiting:
        ready = [name for name in waiting if not any(read in waiting for read in reads[name])]
        if not ready:
            errors.append(_cycle(waiting, reads))
            broken |= set(waiting)
            return
        for name in ready:
            yield waiting.pop(name)


def _cycle(waiting: Mapping[str, Declared], reads: Mapping[str, list[str]]) -> DefinitionError:
    path = [next(iter(waiting))]
    while path[-1] not in path[:-1]:
        path.append(next(read for read in reads[path[-1]] if read in waiting))
    circle = path[path.index(path[-1]) :]
    names = [waiting[name][0].name for name in circle]
    message, who = f"stream '{names[0]}' reads itself", "it"
    if len(names) > 2:
        message = "streams are made from one another: " + ", ".join(f"'{a}' reads '{b}'" for a, b in pairwise(names))
        who = "one of them"
    return DefinitionError(message, fix=f"let {who} read another stream", where=waiting[circle[0]][1])


def load(folder: Path | str) -> Catalog:
    """The catalog of a folder's *.sql and *.py files; all their mistakes at once."""
    with fresh_names():
        return _assemble_quoting(*_read_folder(folder))


def load_changed(folder: Path | str, source: SourceText) -> Catalog:
    """Return the catalog of a folder and a text in SQL, which replaces what has the same names in the folder."""
    with fresh_names():
        texts, definitions, errors = _read_folder(folder)
        declared, mistakes = read_definitions(source)
        changed = {one.definition.name.lower() for one in declared}
        kept = [definition for definition in definitions if definition.what.name.lower() not in changed]
        kept += [PlacedDefinition(one.definition, one.where) for one in declared]
        return _assemble_quoting({**texts, source.file: source.text}, kept, [*errors, *mistakes])


def _read_folder(folder: Path | str) -> tuple[dict[str, str], list[PlacedDefinition], list[DefinitionError]]:
    """The text of each file, and what they declare."""
    definitions: list[PlacedDefinition] = []
    errors: list[DefinitionError] = []
    texts: dict[str, str] = {}
    paths = [path for path in Path(folder).glob("*") if path.suffix in (".sql", ".py") and path.is_file()]
    # Python files first: they define functions that SQL calls.
    for path in sorted(paths, key=lambda path: (path.suffix != ".py", path)):
        try:
            text = texts[str(path)] = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as e:
            errors.append(DefinitionError(f"the definition file cannot be read: {e}", where=Location(str(path), 1, 1)))
            continue
        if path.suffix == ".sql":
            declared, mistakes = read_definitions(SourceText(text, str(path)))
            definitions += [PlacedDefinition(d.definition, d.where) for d in declared]
            errors += mistakes
        else:
            try:
                definitions += [PlacedDefinition(what, where) for what, where in run_script(path, text)]
            except DefinitionError as e:
                errors += each(e)
    # A stream that several files import from one module is one stream.
    distinct = list({id(definition.what): definition for definition in definitions}.values())
    return texts, sorted(distinct, key=lambda definition: definition.where.file), errors


def assemble(
    definitions: list[PlacedDefinition], errors: list[DefinitionError] | None = None, known: Catalog | None = None
) -> Catalog:
    """The catalog of these definitions, views resolved against streams of all of them and of `known`."""
    assembly = _Assembly(known or Catalog(), errors or [])
    declared = assembly.declare(definitions)
    derived = [(one.what, one.where) for one in declared if isinstance(one.what, DerivedStatement)]
    for statement, where in list(in_order(derived, assembly.errors, assembly.broken)):
        assembly.add(statement, where)
    for definition in declared:
        if isinstance(definition.what, View | ViewStatement):
            assembly.add(definition.what, definition.where)
    return assembly.finish(declared)


class _Assembly:
    """A catalog in the making: what can be read so far, and the mistakes. Names are compared in lower case."""

    def __init__(self, known: Catalog, errors: Iterable[DefinitionError]) -> None:
        self.errors = list(errors)
        self.broken = {error.of and error.of.lower() for error in self.errors}  # None: it may have been any
        self._known = known
        self._streams: dict[str, Stream] = {}
        self._tables: dict[str, Table] = {}
        self._views: dict[str, View] = {}
        self._reads: dict[str, tuple[str, ...]] = {}
        self._locations: dict[str, Location] = {}
        self._readable = {name: stream for name, stream in known.streams.items() if name not in known.tables}
        self._streams_by_name = {name.lower(): stream for name, stream in self._readable.items()}
        self._tables_by_name = {name.lower(): table for name, table in known.tables.items()}
        self._view_names = {name.lower() for name in {*known.views, *known.logical} - {*known.tables}}

    def declare(self, definitions: Iterable[PlacedDefinition]) -> list[PlacedDefinition]:
        """Note names, base streams and declared tables; returns the first definition of each name."""
        declared: list[PlacedDefinition] = []
        first: dict[str, PlacedDefinition] = {}
        for definition in sorted(definitions, key=_is_insert):  # after what they insert into
            what, name = definition.what, definition.what.name
            if name.lower() in first:
                self.errors.append(declared_twice(definition, first[name.lower()]))
                continue
            declared.append(definition)
            first[name.lower()], self._locations[name] = definition, definition.where
            if isinstance(what, Stream):
                self._add_stream(what)
            elif isinstance(what, Table):
                self._add_table(what)
            elif isinstance(what, ViewStatement | View | LogicalStatement):
                self._view_names.add(name.lower())
        return declared

    def add(self, what: View | ViewStatement | DerivedStatement, where: Location) -> None:
        """Build what reads streams or tables; if it cannot be built, it is broken, and so is what reads it."""
        reads = tuple(StreamRead(name, 0) for name in what.streams) if isinstance(what, View) else what.reads
        if not self._is_readable(what, where, reads):
            self.broken.add(what.name.lower())
            return
        if not isinstance(what, View):
            sources: dict[str, Stream | Table] = {**self._streams_by_name, **self._tables_by_name}
            self._reads[what.name] = tuple(sources[read.name.lower()].name for read in reads)
        try:
            self._build(what, where)
        except DefinitionError as e:
            self.broken.add(what.name.lower())
            self.errors += each(e)

    def _is_readable(
        self, what: View | ViewStatement | DerivedStatement, where: Location, reads: Sequence[StreamRead]
    ) -> bool:
        joined = () if isinstance(what, View) else what.joined
        if any(self._may_be_broken(read.name.lower()) for read in joined):  # a table that could not be read
            return False
        readable_names = {*self._streams_by_name, *_table_read(what, self._tables_by_name)}
        unknown = [read for read in reads if read.name.lower() not in readable_names]
        if not unknown:
            return True
        self.errors += () if isinstance(what, View) else what.mistakes
        definition = PlacedDefinition(what, where)
        for read in unknown:
            if self.broken & {None, read.name.lower()}:
                continue  # a stream that could not be read: one message is enough
            if read.name.lower() in self._view_names:
                self.errors.append(over_view(definition, read))
            else:
                self.errors.append(unknown_stream(definition, read, self._streams_by_name, self._tables_by_name))
        return False

    def _may_be_broken(self, name: str) -> bool:
        """Return True if this is, or may be, the name of something that could not be read."""
        readable = name in self._streams_by_name or name in self._tables_by_name or name in self._view_names
        return name in self.broken or (None in self.broken and not readable)

    def _build(self, what: View | ViewStatement | DerivedStatement, where: Location) -> None:
        streams, tables = self._streams_by_name, self._tables_by_name
        if isinstance(what, DerivedTable):
            self._add_table(build_table(what, streams, tables))
        elif isinstance(what, DerivedStatement):
            self._add_stream(build_derived(what, streams, tables))
        elif isinstance(what, View):
            self._views[what.name] = what
        else:
            with placed(where):
                self._views[what.name] = _build_select(what, streams, tables)

    def _add_stream(self, stream: Stream) -> None:
        self._streams[stream.name] = self._readable[stream.name] = stream
        self._streams_by_name[stream.name.lower()] = stream

    def _add_table(self, table: Table) -> None:
        self._tables[table.name] = self._tables_by_name[table.name.lower()] = table

    def _meets_column(self, view: View) -> DefinitionError | None:
        """The mistake of a key with the name of a stored column: `count_` and eight digits, say."""
        stored = {aggregate_id(column.aggregate.stored_as).lower() for column in view.columns}
        name = next((key.name for key in view.keys if key.name.lower().partition("__")[0] in stored), None)
        if name is None:
            return None
        where = self._locations.get(view.name)
        return DefinitionError(
            f"'{name}' names a stored column of view '{view.name}'", fix="rename the key", where=where
        )

    def finish(self, declared: list[PlacedDefinition]) -> Catalog:
        """The catalog, with logical views, sinks and alerts; all mistakes at once if there are any."""
        known = self._known
        streams, views = self._streams, self._views
        if self._tables:
            streams, views = with_parts(self._tables, streams, views)
        self.errors += [mistake for view in views.values() if (mistake := self._meets_column(view))]
        every = {**known.views, **views}
        statements = [one.what for one in declared if isinstance(one.what, LogicalStatement)]
        logical: dict[str, LogicalView] = {}
        if statements:
            readable = {**self._readable, **streams}
            logical, mistakes = build_logical_views(statements, {**every, **known.logical}, readable, self.broken)
            self.errors += mistakes
        computed = {name.lower() for name in (*(one.name for one in statements), *known.logical)}
        sinks, alerts = _outgoing(declared, {**self._readable, **every}, computed, self.broken, self.errors)
        if self.errors:
            raise join(self.errors)
        return Catalog(streams, views, self._locations, sinks, alerts, self._tables, logical, self._reads)


def _is_insert(definition: PlacedDefinition) -> bool:
    return isinstance(definition.what, ViewStatement) and definition.what.is_insert


def _table_read(what: View | ViewStatement | DerivedStatement, tables: Mapping[str, Table]) -> set[str]:
    """The names of the tables whose rows it is made of, in lower case."""
    if isinstance(what, View):
        return {*what.streams, what.over.table} if what.over else set()
    name = (what.from_clause.input.name or "").lower() if isinstance(what, ViewStatement) else ""
    return {name} & tables.keys()


def _build_select(what: ViewStatement, streams: Mapping[str, Stream], tables: Mapping[str, Table]) -> View:
    """The view over its streams, or over the rows of a table."""
    table = tables.get((what.from_clause.input.name or "").lower())
    if table is None:
        return build_view(what, streams, tables)
    if what.joined:
        raise what.source.error(
            what.joined[0].at, f"view '{what.name}' is made of the rows of table '{table.name}': it cannot join others",
            fix="join in the stream that the table is made of, or in CREATE VIEW",
        )  # fmt: skip
    return over_table(table, lambda rows: build_view(what, {**streams, table.name.lower(): rows}, of_table=True))


def _outgoing(
    declared: list[PlacedDefinition],
    readable: Mapping[str, Stream | View],
    logical: Collection[str],
    broken: set[str | None],
    errors: list[DefinitionError],
) -> tuple[dict[str, Sink], dict[str, Alert]]:
    """The sinks and alerts over these streams and views, not over logical ones; mistakes are added to `errors`."""
    sinks: dict[str, Sink] = {}
    alerts: dict[str, Alert] = {}
    by_name = {name.lower(): one for name, one in readable.items()}
    for definition in declared:
        what = definition.what
        if not isinstance(what, Sink | Alert | SinkStatement | AlertStatement):
            continue
        name = what.source if isinstance(what, Sink | Alert) else what.reads
        reads = by_name.get(name.lower())
        if reads is None:
            if name.lower() in logical:
                errors.append(reads_logical(definition, name))
            elif not broken & {None, name.lower()}:
                errors.append(unknown_source(definition, name, by_name))
            continue
        try:
            if isinstance(what, Sink | SinkStatement):
                sinks[what.name] = what if isinstance(what, Sink) else build_sink(what, reads)
            else:
                alerts[what.name] = what if isinstance(what, Alert) else build_alert(what, reads)
        except DefinitionError as e:
            errors += each(e)
    return sinks, alerts


def parse(text: str, file: str = "<sql>", known: Catalog | None = None) -> Catalog:
    """Return what a text in SQL declares; it may also read the streams and views of `known`."""
    declared, errors = read_definitions(SourceText(text, file))
    return _assemble_quoting({file: text}, [PlacedDefinition(d.definition, d.where) for d in declared], errors, known)


def _assemble_quoting(
    texts: Mapping[str, str],
    definitions: list[PlacedDefinition],
    errors: list[DefinitionError],
    known: Catalog | None = None,
) -> Catalog:
    """`assemble`, whose mistakes have the lines of these texts."""
    try:
        return assemble(definitions, errors, known)
    except DefinitionError as error:
        complete(each(error), lambda statement: _mistakes_of(statement, definitions, errors, known))
        raise quote_lines(join(each(error)), texts) from None


def _mistakes_of(
    statement: SourceText,
    definitions: Iterable[PlacedDefinition],
    unread: Iterable[DefinitionError],
    known: Catalog | None,
) -> list[DefinitionError]:
    """The mistakes of a statement that takes the place of the definitions of its names, beside those not read."""
    declared, errors = read_definitions(statement)
    names = {one.definition.name.lower() for one in declared}
    others = [definition for definition in definitions if definition.what.name.lower() not in names]
    errors += [error for error in unread if (error.of or "").lower() not in names]
    try:
        assemble([*others, *(PlacedDefinition(one.definition, one.where) for one in declared)], errors, known)
    except DefinitionError as error:
        return [one for one in each(error) if one.where and one.where.file == statement.file]
    return []
