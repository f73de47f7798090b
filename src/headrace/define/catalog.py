"""The catalog: all definitions of a workspace, read from its definition files and checked against each other."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from headrace.define import model
from headrace.define.logical import build_logical_views
from headrace.define.mistakes import each, join, placed, quote_lines
from headrace.define.model import Alert, LogicalView, Sink, Stream, Table, View
from headrace.define.ordering import in_order
from headrace.define.own import fresh_names
from headrace.define.python.script import run_script
from headrace.define.sql.alerts import AlertStatement, build_alert
from headrace.define.sql.derived import DerivedStatement, build_derived
from headrace.define.sql.logical import LogicalStatement
from headrace.define.sql.query_tree import StreamRead
from headrace.define.sql.select import Select
from headrace.define.sql.sinks import SinkStatement, build_sink
from headrace.define.sql.statements import Statement, read_statements
from headrace.define.sql.tables import DerivedTable, build_table
from headrace.define.sql.view_rows import build_view
from headrace.define.tables import over_table, with_parts
from headrace.define.tokens import Source
from headrace.errors import DefinitionError, Location, nearest

_MATERIALIZED = re.compile(
    r"\s*CREATE\s+(?:OR\s+\w+\s+)?MATERIALIZED\s+VIEW\s+(?:IF\s+NOT\s+EXISTS\s+)?\S+\s+(?:SCHEDULE\s.*?\s)?AS\s+",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Catalog:
    """Definitions by name; `locations` says where each is declared and is no part of equality."""

    streams: Mapping[str, Stream] = field(default_factory=dict)
    views: Mapping[str, View] = field(default_factory=dict)
    locations: Mapping[str, Location] = field(default_factory=dict, compare=False)
    sinks: Mapping[str, Sink] = field(default_factory=dict)
    alerts: Mapping[str, Alert] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)  # `streams` and `views` hold their two parts too
    logical: Mapping[str, LogicalView] = field(default_factory=dict)  # each after those that it reads
    # What streams and views name in their definitions, where that is known: a composed relation names base streams.
    reads: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, definitions: Iterable[model.Definition], locations: Mapping[str, Location] | None = None) -> Catalog:
        """The catalog of these definitions, with the parts of its tables."""
        every = list(definitions)
        tables = {each.name: each for each in every if isinstance(each, Table)}
        streams, views = with_parts(
            tables,
            {each.name: each for each in every if isinstance(each, Stream)},
            {each.name: each for each in every if isinstance(each, View)},
        )
        sinks = {each.name: each for each in every if isinstance(each, Sink)}
        alerts = {each.name: each for each in every if isinstance(each, Alert)}
        logical = {each.name: each for each in every if isinstance(each, LogicalView)}
        return cls(streams, views, locations or {}, sinks, alerts, tables, logical)

    @property
    def base_streams(self) -> dict[str, Stream]:
        """The streams that have events of their own: those of the others are made of these."""
        return {name: stream for name, stream in self.streams.items() if stream.relation is None}

    @property
    def definitions(self) -> tuple[model.Definition, ...]:
        """What was declared, each after what it reads: a table is one of them, its parts are not."""
        streams, views = (
            [each for name, each in parts.items() if name not in self.tables] for parts in (self.streams, self.views)
        )
        read = (*streams, *self.tables.values(), *views, *self.logical.values())
        return (*read, *self.sinks.values(), *self.alerts.values())

    def patience_ms(self, view: View) -> dict[str, int]:
        """The patience of each stream that a view reads, as far as the stream exists."""
        declared = {name: self.streams[name].patience_ms for name in view.streams if name in self.streams}
        relation = view.relation
        return {name: relation.patience_of(name, ms) if relation else ms for name, ms in declared.items()}

    def __len__(self) -> int:
        return len(self.definitions)


@dataclass(frozen=True)
class Definition:
    """Something declared, with its place; of SQL it is a statement until what it reads is known."""

    what: model.Definition | Statement
    where: Location


def load(folder: Path | str) -> Catalog:
    """The catalog of a folder's *.sql and *.py files; all their mistakes at once."""
    with fresh_names():
        return _assemble_quoting(*_read_folder(folder))


def load_changed(folder: Path | str, source: Source) -> Catalog:
    """The same with the SQL of a text added to it: what has the name of something in the folder replaces it."""
    with fresh_names():
        texts, definitions, errors = _read_folder(folder)
        declared, mistakes = read_statements(source)
        changed = {one.definition.name.lower() for one in declared}
        kept = [definition for definition in definitions if definition.what.name.lower() not in changed]
        kept += [Definition(one.definition, one.where) for one in declared]
        return _assemble_quoting({**texts, source.file: source.text}, kept, [*errors, *mistakes])


def _read_folder(folder: Path | str) -> tuple[dict[str, str], list[Definition], list[DefinitionError]]:
    """The text of each file, and what they declare."""
    definitions: list[Definition] = []
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
            declared, mistakes = read_statements(Source(text, str(path)))
            definitions += [Definition(d.definition, d.where) for d in declared]
            errors += mistakes
        else:
            try:
                definitions += [Definition(what, where) for what, where in run_script(path, text)]
            except DefinitionError as e:
                errors += each(e)
    # A stream that several files import from one module is one stream.
    distinct = list({id(definition.what): definition for definition in definitions}.values())
    return texts, sorted(distinct, key=lambda definition: definition.where.file), errors


def assemble(
    definitions: list[Definition], errors: list[DefinitionError] | None = None, known: Catalog | None = None
) -> Catalog:
    """The catalog of these definitions, views resolved against streams of all of them and of `known`."""
    errors = list(errors or [])
    broken = {error.of and error.of.lower() for error in errors}  # None: it may have been any
    streams: dict[str, Stream] = {}
    tables: dict[str, Table] = {}
    views: dict[str, View] = {}
    locations: dict[str, Location] = {}
    declared: list[Definition] = []  # the first of each name
    first_at: dict[str, Location] = {}
    readable = {name: each for name, each in known.streams.items() if name not in known.tables} if known else {}
    for definition in definitions:
        name = definition.what.name
        if name.lower() in first_at:
            errors.append(_declared_twice(definition, first_at[name.lower()]))
            continue
        declared.append(definition)
        first_at[name.lower()] = locations[name] = definition.where
        if isinstance(definition.what, Stream):
            streams[name] = readable[name] = definition.what
        elif isinstance(definition.what, Table):
            tables[name] = definition.what
    by_name = {name.lower(): stream for name, stream in readable.items()}
    over = {one.what.name.lower() for one in declared if isinstance(one.what, Select | View | LogicalStatement)}
    over |= {name.lower() for name in {*known.views, *known.logical} - {*known.tables}} if known else set()
    tables_by_name = {name.lower(): table for name, table in {**(known.tables if known else {}), **tables}.items()}
    derived = [(one.what, one.where) for one in declared if isinstance(one.what, DerivedStatement)]
    ordered = [Definition(what, where) for what, where in in_order(derived, errors, broken)]
    names: dict[str, tuple[str, ...]] = {}
    for definition in [*ordered, *(one for one in declared if isinstance(one.what, View | Select))]:
        what = definition.what
        assert isinstance(what, View | Select | DerivedStatement), "these read streams"
        reads = tuple(StreamRead(name, 0) for name in what.streams) if isinstance(what, View) else what.reads
        readable_names = {*by_name, *_table_read(what, tables_by_name)}
        unknown = [read for read in reads if read.name.lower() not in readable_names]
        joined = () if isinstance(what, View) else what.joined
        if any(read.name.lower() in broken for read in joined):  # a table that could not be read
            broken.add(what.name.lower())
            continue
        if unknown:
            # A stream that could not be read: one message is enough.
            missing = [read for read in unknown if not broken & {None, read.name.lower()}]
            broken.add(what.name.lower())
            errors += () if isinstance(what, View) else what.mistakes
            errors += [
                _over_view(definition, read)
                if read.name.lower() in over
                else _unknown_stream(definition, read, by_name, tables_by_name)
                for read in missing
            ]
            continue
        if not isinstance(what, View):
            sources: dict[str, Stream | Table] = {**by_name, **tables_by_name}
            names[what.name] = tuple(sources[read.name.lower()].name for read in reads)
        try:
            if isinstance(what, DerivedTable):
                tables[what.name] = tables_by_name[what.name.lower()] = build_table(what, by_name, tables_by_name)
            elif isinstance(what, DerivedStatement):
                streams[what.name] = readable[what.name] = build_derived(what, by_name, tables_by_name)
                by_name[what.name.lower()] = streams[what.name]
            elif isinstance(what, View):
                views[what.name] = what
            else:
                with placed(definition.where):
                    views[what.name] = _build_select(what, by_name, tables_by_name)
        except DefinitionError as e:
            broken.add(what.name.lower())
            errors += each(e)
    streams, views = with_parts(tables, streams, views)
    every = {**(known.views if known else {}), **views}
    statements = [one.what for one in declared if isinstance(one.what, LogicalStatement)]
    logical, mistakes = build_logical_views(
        statements, {**every, **(known.logical if known else {})}, {**readable, **streams}, broken
    )
    errors += mistakes
    computed = {name.lower() for name in (*(one.name for one in statements), *(known.logical if known else ()))}
    sinks, alerts = _outgoing(declared, {**readable, **every}, computed, broken, errors)
    if errors:
        raise join(errors)
    return Catalog(streams, views, locations, sinks, alerts, tables, logical, names)


def _table_read(what: View | Select | DerivedStatement, tables: Mapping[str, Table]) -> set[str]:
    """The names of the tables whose rows it is made of, in lower case."""
    if isinstance(what, View):
        return {*what.streams, what.over.table} if what.over else set()
    name = (what.from_clause.input.name or "").lower() if isinstance(what, Select) else ""
    return {name} & tables.keys()


def _build_select(what: Select, streams: Mapping[str, Stream], tables: Mapping[str, Table]) -> View:
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
    declared: list[Definition],
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
                errors.append(_reads_logical(definition, name))
            elif not broken & {None, name.lower()}:
                errors.append(_unknown_source(definition, name, by_name))
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
    """What a text in SQL declares; it may also read the streams and views of `known`."""
    declared, errors = read_statements(Source(text, file))
    return _assemble_quoting({file: text}, [Definition(d.definition, d.where) for d in declared], errors, known)


def _assemble_quoting(
    texts: Mapping[str, str],
    definitions: list[Definition],
    errors: list[DefinitionError],
    known: Catalog | None = None,
) -> Catalog:
    """`assemble`, whose mistakes have the lines of these texts."""
    try:
        return assemble(definitions, errors, known)
    except DefinitionError as error:
        raise quote_lines(error, texts) from None


def _declared_twice(definition: Definition, first: Location) -> DefinitionError:
    name, where = definition.what.name, definition.where
    if where == first:
        return DefinitionError(f"'{name}' is declared twice by this line", fix="give each a unique name", where=where)
    return DefinitionError(f"'{name}' is declared twice, also at {first}", fix="rename one", where=where)


def _unknown_stream(
    definition: Definition, read: StreamRead, streams: Mapping[str, Stream], tables: Mapping[str, Table]
) -> DefinitionError:
    what, name = definition.what, read.name
    if name.lower() in tables:
        return DefinitionError(
            f"'{name}' is a table: {'a stream' if isinstance(what, DerivedStatement) else 'a query inside FROM'} "
            "is made of streams",
            fix=f"join it to a stream: FROM clicks c JOIN {name} t ON …; CREATE VIEW reads tables",
            where=_place_of(definition, read),
        )
    near = nearest(name, (each.name for each in streams.values()))
    error = DefinitionError(
        f"{'stream' if isinstance(what, DerivedStatement) else 'view'} '{what.name}' reads the stream '{name}', "
        "which does not exist",
        fix=f"did you mean '{near}'?" if near else _declare(name, what),
        where=_place_of(definition, read),
    )
    if near and isinstance(what, Select | DerivedStatement) and what.source.text.startswith(name, read.at):
        error.write, error.replaces = near, (read.at, read.at + len(name))
    return error


def _declare(name: str, what: object) -> str:
    queries = what.queries if isinstance(what, Select) else ()
    queries = what.query.queries if isinstance(what, DerivedStatement) else queries
    if any((item.name or "").lower() == name.lower() for item, _ in queries):
        return "a query of WITH may read those before it, not itself or those after it"
    return "declare it with CREATE STREAM"


def _place_of(definition: Definition, read: StreamRead) -> Location:
    what = definition.what
    return what.source.locate(read.at) if isinstance(what, Select | DerivedStatement) else definition.where


def _over_view(definition: Definition, read: StreamRead) -> DefinitionError:
    """A stream or a materialized view over a view; of the latter, with the logical view to write."""
    what, view = definition.what, read.name
    if isinstance(what, DerivedStatement):
        return DefinitionError(
            f"stream '{what.name}' reads the view '{view}', but a stream is made of streams",
            fix=f"read the streams that '{view}' reads; CREATE VIEW reads views",
            where=_place_of(definition, read),
        )
    message = f"view '{what.name}' reads the view '{view}', but a materialized view reads streams and tables"
    if not isinstance(what, Select):
        return DefinitionError(message, fix=f"write hr.LogicalView('{what.name}', 'SELECT …')", where=definition.where)
    text = what.source.text[what.peer.start : what.peer.end]
    head = _MATERIALIZED.match(text)
    query = " ".join(text[head.end() :].split()) if head else "SELECT …"
    error = DefinitionError(
        message,
        fix=f"write CREATE VIEW {what.name} AS {query}: it is computed when it is asked",
        where=_place_of(definition, read),
    )
    if head:
        error.write = f"CREATE VIEW {what.name} AS "
        error.replaces = (what.peer.start, what.peer.start + head.end())
    return error


def _reads_logical(definition: Definition, view: str) -> DefinitionError:
    """A sink or an alert over a logical view, which has no changes to send."""
    what = definition.what
    kind = "sink" if isinstance(what, Sink | SinkStatement) else "alert"
    return DefinitionError(
        f"{kind} '{what.name}' reads the logical view '{view}', which is computed when it is asked and has no changes",
        fix="name a materialized view that it reads",
        where=what.source.locate(what.reads_at)
        if isinstance(what, SinkStatement | AlertStatement)
        else definition.where,
    )


def _unknown_source(definition: Definition, name: str, known: Mapping[str, Stream | View]) -> DefinitionError:
    what = definition.what
    kind = "sink" if isinstance(what, Sink | SinkStatement) else "alert"
    near = nearest(name, (one.name for one in known.values()))
    error = DefinitionError(
        f"{kind} '{what.name}' reads '{name}', which does not exist",
        fix=f"did you mean '{near}'?" if near else "name a materialized view or a stream",
        where=definition.where,
    )
    if isinstance(what, SinkStatement | AlertStatement):
        error.where = what.source.locate(what.reads_at)
        if near and what.source.text.startswith(name, what.reads_at):
            error.write, error.replaces = near, (what.reads_at, what.reads_at + len(name))
    return error
