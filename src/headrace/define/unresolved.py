"""Mistakes across definitions: names that cannot be resolved, and statements that messages propose."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.define import model
from headrace.define.model import Sink, Stream, Table, View
from headrace.define.sql_definitions import Declaration
from headrace.define.view_columns import contains_aggregate
from headrace.errors import DefinitionError, Location, nearest
from headrace.language.outline import rewrite
from headrace.language.source_text import SourceText
from headrace.language.statements.create_alert import AlertStatement
from headrace.language.statements.create_sink import SinkStatement
from headrace.language.statements.create_stream import DerivedStatement
from headrace.language.statements.create_table import DerivedTable
from headrace.language.statements.create_view import ViewStatement
from headrace.language.syntax import StreamRead
from headrace.language.terms import quote

_MATERIALIZED = re.compile(
    r"\s*CREATE\s+(?:OR\s+\w+\s+)?(?:\w+\s+)*?VIEW\s+(?:IF\s+NOT\s+EXISTS\s+)?"
    r"(?:`(?:[^`]|``)+`|\"(?:[^\"]|\"\")+\"|\S+)\s+(?:SCHEDULE\s.*?\s)?AS\s+",
    re.IGNORECASE | re.DOTALL,
)
_WINDOW = re.compile(
    r"""\b(?:window|TUMBLE)(?:_(?P<bound>START|END))?\s*\(\s*(?P<time>[^,()]+?)\s*,
        \s*(?:INTERVAL\s+)?'(?P<span>[^']+)'(?:\s+(?P<unit>\w+))?\s*\)(?:\.(?P<part>start|end)\b)?""",
    re.IGNORECASE | re.VERBOSE,
)


MOST_STEPS = 5  # corrections of one statement
_FILE = "<proposal>"
_NOT_ONE = "no statement reads both: make a view of each, and CREATE VIEW over these"  # each proposal leads back
_STATEMENT = re.compile(r"\s*CREATE\s", re.IGNORECASE)


@dataclass(frozen=True)
class PlacedDefinition:
    """Something declared, with its place; of SQL it is a statement until what it reads is known."""

    what: model.Definition | Declaration
    where: Location


def declared_twice(definition: PlacedDefinition, earlier: PlacedDefinition) -> DefinitionError:
    """A name that another definition has."""
    name, where, first = definition.what.name, definition.where, earlier.where
    if where == first:
        return DefinitionError(f"'{name}' is declared twice by this line", fix="give each a unique name", where=where)
    what = definition.what
    if isinstance(what, ViewStatement) and what.is_insert:
        aggregates = what.groups or any(contains_aggregate(item.node) for item in what.items)
        is_table = isinstance(earlier.what, DerivedTable)
        if isinstance(earlier.what, DerivedStatement) and not is_table and not aggregates:
            return _insert_into_derived(what, earlier.what, first)
        return _insert_into_declared(what, first)
    return DefinitionError(f"'{name}' is declared twice, also at {first}", fix="rename one", where=where)


def _insert_into_declared(what: ViewStatement, first: Location) -> DefinitionError:
    """INSERT INTO a stream or a table: the query is a view of its own."""
    rows = quote(f"{what.name}_rows")
    write = f"CREATE MATERIALIZED VIEW {rows} AS {_inserted(what.source.text[what.outline.start : what.outline.end])}"
    return what.source.error(
        what.outline.start,
        f"'{what.name}', declared at {first}, does not get these rows, since it cannot be filled by "
        "INSERT: UNION ALL in one CREATE STREAM unites queries",
        fix=f"write {write}; CREATE SINK … FROM {rows} sends its rows elsewhere", write=write, end=what.outline.end,
    )  # fmt: skip


def _insert_into_derived(what: ViewStatement, stream: DerivedStatement, first: Location) -> DefinitionError:
    """INSERT INTO a derived stream: one stream of both queries."""
    source, start = what.source, stream.outline.start
    edits = what.outline.edits[1:]  # the first is INSERT itself
    query = _inserted(rewrite(source, replace(what.outline, edits=edits)))
    write = f"{rewrite(stream.source, stream.outline)} UNION ALL {query}"
    error = source.error(
        what.outline.start,
        f"'{what.name}', declared at {first}, does not get these rows, since it cannot be filled by "
        "INSERT: UNION ALL in one CREATE STREAM unites queries",
        fix=f"write {write}",
    )  # fmt: skip
    if stream.source == source and start < what.outline.start:
        between = source.text[stream.outline.end : what.outline.start].lstrip("; \t\n")
        error.write, error.replaces = between + write, (start, what.outline.end)
    return error


def _inserted(statement: str) -> str:
    """The query of INSERT INTO … SELECT …."""
    return " ".join(re.sub(r"(?is)^INSERT\s+INTO\s+.+?(?=\sSELECT\s)", "", statement).split())


def unknown_stream(
    definition: PlacedDefinition, read: StreamRead, streams: Mapping[str, Stream], tables: Mapping[str, Table]
) -> DefinitionError:
    """A stream or a view over a stream that does not exist."""
    what, name = definition.what, read.name
    if name.lower() in tables:
        return DefinitionError(
            f"'{name}' is a table: {'a stream' if isinstance(what, DerivedStatement) else 'a query inside FROM'} "
            "is made of streams",
            fix=f"join it to a stream: FROM clicks c JOIN {name} t ON …; CREATE VIEW reads tables",
            where=_place_of(definition, read),
        )
    queries = [query for query in _queries_of(what) if query.lower() != name.lower()]
    near = nearest(name, [*queries, *(each.name for each in streams.values())])
    error = DefinitionError(
        f"{'stream' if isinstance(what, DerivedStatement) else 'view'} '{what.name}' reads the stream '{name}', "
        "which does not exist",
        fix=f"did you mean '{near}'?" if near else _declare(name, what),
        where=_place_of(definition, read),
    )
    if near and isinstance(what, ViewStatement | DerivedStatement) and what.source.text.startswith(name, read.at):
        error.write, error.replaces = near, (read.at, read.at + len(name))
    return error


def _queries_of(what: object) -> list[str]:
    """The names of the queries of WITH."""
    queries = what.queries if isinstance(what, ViewStatement) else ()
    queries = what.query.queries if isinstance(what, DerivedStatement) else queries
    return [item.name for item, _ in queries if item.name]


def _declare(name: str, what: object) -> str:
    if name.lower() in map(str.lower, _queries_of(what)):
        return "a query of WITH may read those before it, not itself or those after it"
    return "declare it with CREATE STREAM"


def _place_of(definition: PlacedDefinition, read: StreamRead) -> Location:
    what = definition.what
    return what.source.locate(read.at) if isinstance(what, ViewStatement | DerivedStatement) else definition.where


def over_view(definition: PlacedDefinition, read: StreamRead) -> DefinitionError:
    """A stream or a materialized view over a view; of the latter, with the logical view to write."""
    what, view = definition.what, read.name
    if isinstance(what, DerivedStatement):
        return DefinitionError(
            f"stream '{what.name}' reads the view '{view}', but a stream is made of streams",
            fix=f"read the streams that '{view}' reads; CREATE VIEW reads views",
            where=_place_of(definition, read),
        )
    message = f"view '{what.name}' reads the view '{view}', but a materialized view reads streams and tables"
    if not isinstance(what, ViewStatement):
        return DefinitionError(message, fix=f"write hr.LogicalView('{what.name}', 'SELECT …')", where=definition.where)
    text = what.source.text[what.outline.start : what.outline.end]
    head = _MATERIALIZED.match(text)
    query = _in_duckdb(" ".join(text[head.end() :].split())) if head else "SELECT …"
    write = f"CREATE VIEW {quote(what.name)} AS {query}"
    error = DefinitionError(
        message, fix=f"write {write}; it is evaluated when it is queried", where=_place_of(definition, read)
    )
    if head:
        error.write, error.replaces = write, (what.outline.start, what.outline.end)
    return error


def _in_duckdb(query: str) -> str:
    """A query over views in the dialect of CREATE VIEW: a window over window_start is a time_bucket there."""
    query = query.replace("`", '"')
    windows = list(_WINDOW.finditer(query))
    if not windows:
        return query
    *_, last = windows  # that of GROUP BY, if it is there
    span = f"INTERVAL '{' '.join(filter(None, last.group('span', 'unit')))}'"
    bucket = f"time_bucket({span}, {last['time']})"
    start, end = (re.compile(rf"\bwindow[_.]{word}\b(\s+AS\b)?", re.IGNORECASE) for word in ("start", "end"))
    pieces, offset = [], 0
    for window in windows:
        before = query[offset : window.start()]
        before = start.sub(lambda found: f"{bucket}{found[1] or ' AS window_start'}", before)
        before = end.sub(lambda found: f"{bucket} + {span}{found[1] or ' AS window_end'}", before)
        bound = (window["bound"] or window["part"] or "start").lower()
        pieces += [before, bucket if bound == "start" else f"{bucket} + {span}"]
        offset = window.end()
    return "".join([*pieces, query[offset:]])


def reads_logical(definition: PlacedDefinition, view: str) -> DefinitionError:
    """A sink or an alert over a logical view, which has no changes to send."""
    what = definition.what
    kind = "sink" if isinstance(what, Sink | SinkStatement) else "alert"
    return DefinitionError(
        f"{kind} '{what.name}' reads the logical view '{view}', "
        "which is evaluated when it is queried and has no changes",
        fix="name a materialized view that it reads",
        where=what.source.locate(what.reads_at)
        if isinstance(what, SinkStatement | AlertStatement)
        else definition.where,
    )


def unknown_source(definition: PlacedDefinition, name: str, known: Mapping[str, Stream | View]) -> DefinitionError:
    """A sink or an alert over what does not exist."""
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


# What messages propose


def complete(errors: Sequence[DefinitionError], mistakes_of: Callable[[SourceText], list[DefinitionError]]) -> None:
    """Correct the statements that these mistakes propose; what is wrong with them is said once."""
    reported = {error.message for error in errors}
    for error in errors:
        if error.write and error.replaces and _STATEMENT.match(error.write):
            _complete(error, reported, mistakes_of)


def _complete(
    error: DefinitionError, reported: set[str], mistakes_of: Callable[[SourceText], list[DefinitionError]]
) -> None:
    statements: set[str] = set()
    for _ in range(MOST_STEPS):
        statement = error.write or ""
        if statement in statements:
            error.fix = _NOT_ONE
            error.write = error.replaces = None
            return
        statements.add(statement)
        mistakes = mistakes_of(SourceText(statement, _FILE))
        mistake = next((one for one in mistakes if one.replaces), None)
        if mistake is None:
            for one in mistakes:
                if one.message not in reported:  # nothing can be written in its place: that is the answer
                    error.message = f"{error.message}; {one.message}"
                    error.found, error.expected, error.fix = one.found, one.expected, one.fix
                    error.write = error.replaces = None
            return
        start, end = mistake.replaces or (0, 0)
        error.write = f"{statement[:start]}{mistake.write}{statement[end:]}".strip()
        if mistake.message not in reported and mistake.message not in error.message:
            error.message = f"{error.message}; {mistake.message}"
        whole = (start, end) == (0, len(statement)) and mistake.message not in reported
        error.fix = mistake.fix if whole else f"write {error.write}"
