"""The second look at a view that was refused: what it has of other systems, and what to write instead."""

from __future__ import annotations

import re
from dataclasses import replace

from headrace.define.answer_shape import ShapeReader
from headrace.define.derived_rows import RowScope
from headrace.define.model import Stream, View
from headrace.define.relation_rewrites import view_over
from headrace.define.view_builder import ViewBuilder
from headrace.define.view_columns import contains_aggregate, is_aggregate
from headrace.define.view_windows import is_bucket, is_window_call
from headrace.errors import DefinitionError
from headrace.language.check import check, check_condition
from headrace.language.durations import DAY_MS, HOUR_MS, MINUTE_MS
from headrace.language.foreign.unavailable_syntax import session_gap_at
from headrace.language.functions import UNSTABLE
from headrace.language.outline import TextEdit, rewrite
from headrace.language.source_text import FollowUpError, Mistakes, each, join
from headrace.language.statements.create_view import ViewStatement
from headrace.language.syntax import (
    Call,
    Interval,
    Literal,
    Logic,
    Name,
    Node,
    Operation,
    Star,
    Test,
    walk,
)
from headrace.language.terms import Expression, quote
from headrace.types import INT, STRING

_RANKS = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile")
_NEIGHBORS = ("lag", "lead")


def build_again(select: ViewStatement, stream: Stream, scope: RowScope, *, of_table: bool) -> View:
    """Build a view that was refused, or raise its mistakes, with what to write instead of what other systems have."""
    words = select.left_out
    _refuse_rows(select, scope, "VIEW" if of_table else "STREAM")
    select, errors = _resolve(select, stream)
    select = replace(select, mistakes=(*select.mistakes, *errors), incomplete=select.incomplete or bool(words))
    try:
        view = ViewBuilder(select, stream, scope, _read_where).view()
        return view_over(view, stream) if stream.relation else view
    except DefinitionError as error:
        # A name that is declared in a part that could not be read is no second mistake.
        rest = [one for one in each(error) if not any(f"'{word}'" in one.message.lower() for word in words)]
        rest = [one for one in rest if not (words and one.message.endswith("has no aggregate"))]
        if words and not rest:
            raise FollowUpError(f"view '{select.name}' could not be read") from None
        raise join(rest) from None


def _refuse_rows(select: ViewStatement, scope: RowScope, instead: str) -> None:
    """Raise if the query has no aggregates, with the CREATE STREAM or CREATE VIEW to write."""
    grouped = (
        select.groups or select.all_keys or select.from_clause.input.window or select.having or select.outline.distinct
    )
    if grouped or select.incomplete or select.left_out or any(contains_aggregate(item.node) for item in select.items):
        return
    try:
        for item in select.items:
            if not isinstance(item.node, Star):
                check(select.source, item.node, scope)
    except DefinitionError:
        return  # perhaps a misspelled aggregate: reported below
    is_table = re.match(r"CREATE\s+TABLE", select.source.text[select.outline.start :], re.IGNORECASE)
    if is_table:
        message = f"CREATE TABLE {select.name} AS SELECT has neither a PRIMARY KEY nor an aggregate"
        fix = f"write CREATE TABLE {quote(select.name)} PRIMARY KEY (…) AS SELECT … for the latest row of each key, "
        fix += f"or CREATE {instead} {quote(select.name)} AS SELECT … for all rows"
    else:
        what = "its rows are events one by one: a stream" if instead == "STREAM" else "its rows are those of the table"
        message = f"view '{select.name}' has no aggregate, so that {what}"
        fix = f"write CREATE {instead} {quote(select.name)} AS SELECT …, or add an aggregate: count(*) AS hits"
    written = rewrite(select.source, select.outline)
    head = re.match(r"CREATE(\s+OR\s+\w+)?\s+MATERIALIZED\s+VIEW", written, re.IGNORECASE)
    if head and not is_table:
        fix = f"write CREATE {instead}{written[head.end() :]}, or add an aggregate: count(*) AS hits"
    error = select.source.error(select.at, message, fix=fix)
    if head:
        error.write = f"CREATE {instead}{written[head.end() :]}"
        error.replaces = (select.outline.start, select.outline.end)
    raise join([*select.mistakes, error])


# What other systems have


def _named_as_here(select: ViewStatement) -> ViewStatement:
    """WINDOWSTART and WINDOWEND of ksqlDB, and w.start of GROUP BY window(…) AS w, as window_start and window_end."""
    names = {"windowstart": "window_start", "windowend": "window_end"}
    names |= {
        f"{name}.{bound}": f"window_{bound}" for name in select.outline.window_names for bound in ("start", "end")
    }
    edits, items = [], []
    for item in select.items:
        node = item.node
        name = f"{node.of}.{node.name}" if isinstance(node, Name) and node.of else getattr(node, "name", "")
        if isinstance(node, Name) and name.lower() in names and node.span:
            ours = names[name.lower()]
            edits.append(TextEdit(*node.span, ours))
            item = replace(item, node=replace(node, name=ours, of=None))
        items.append(item)
    outline = replace(select.outline, edits=(*select.outline.edits, *edits))
    return replace(select, items=tuple(items), outline=outline) if edits and select.outline.reasons else select


def _resolve(select: ViewStatement, stream: Stream) -> tuple[ViewStatement, list[DefinitionError]]:
    """The statement as its stream understands it, and the mistakes of what it has of other systems."""
    time = quote(stream.time_column)
    select, errors = _without_over(_named_as_here(select), time)
    select, clock_errors = _without_clock(select, stream)
    outline = select.outline
    if not outline.reasons:
        return select, errors + clock_errors
    insert: list[str] = []
    if outline.distinct and not outline.has_groups and not any(_calls(item.node) for item in select.items):
        insert += [item.text for item in select.items if item.text]
        outline = replace(
            outline, edits=(*outline.edits, TextEdit(outline.items_end, outline.items_end, ", count(*) AS n"))
        )
        items = tuple(item for item in select.items)
        count = Call(select.at, "count", ())
        select = replace(
            select,
            groups=tuple(item.node for item in items),
            items=(*items, replace(items[0], node=count, alias="n")),
        )
    if outline.window:
        durations = ", ".join(f"'{span}'" for span in outline.window)
        insert.append(f"{outline.window_call}({time}, {durations})")
        spans = tuple(Literal(select.at, span, STRING) for span in outline.window)
        window = Call(select.at, outline.window_call, (Name(select.at, stream.time_column), *spans))
        select = replace(select, groups=(*select.groups, window))
    if outline.grace:
        patience = f"WATERMARK FOR {time} AS {time} - INTERVAL {outline.grace.upper()}"
        reason = f"GRACE PERIOD is the patience of the stream '{stream.name}': {patience} in its CREATE STREAM"
        outline = replace(outline, reasons=(*outline.reasons, reason))
    write = rewrite(select.source, outline, insert)
    error = select.source.error(outline.start, "; ".join(outline.reasons), write=write, end=outline.end)
    return select, [*errors, *clock_errors, error]


def _calls(node: Node) -> list[Call]:
    return [part for part in walk(node) if isinstance(part, Call)]


def _without_over(select: ViewStatement, time: str) -> tuple[ViewStatement, list[DefinitionError]]:
    """The items without window functions; each of those is a mistake."""
    errors, items = [], []
    for item in select.items:
        over = next((call for call in _calls(item.node) if call.written and call.written.over is not None), None)
        if over is None or over.written is None:
            items.append(item)
            continue
        if any(contains_aggregate(arg) for arg in over.args):
            fix = "compute it from the answer, as in `headrace sql`"
        elif over.name.lower() in _NEIGHBORS:
            fix = f"aggregate by a window here; CREATE VIEW over it may have {over.name}(…) OVER"
        elif over.name.lower() in _RANKS:
            fix = "the latest x of a key is last(x); the first rows of an answer are ORDER BY … DESC LIMIT 10"
        else:
            gap = session_gap_at(select.source, over.at)
            window = f"session_window({time}, '{gap}')" if gap else f"window({time}, '1 minute')"
            keys = ", ".join((*(over.written.over or ()), window))
            fix = f"write {over.name}({', '.join(over.written.arguments)}) without OVER, and GROUP BY {keys}"
        message = f"{over.name}(…) OVER is not supported: a view aggregates events, it does not number rows"
        errors.append(select.source.error(over.at, message, fix=fix))
    return replace(select, items=tuple(items), incomplete=True) if errors else select, errors


def _without_clock(select: ViewStatement, stream: Stream) -> tuple[ViewStatement, list[DefinitionError]]:
    """WHERE without conditions on the current time; each of those is a mistake, and part of the question instead."""
    where = select.where
    if where is None:
        return select, []
    conditions = where.args if isinstance(where, Logic) and where.op == "AND" else (where,)
    kept = [condition for condition in conditions if not _is_clock_condition(condition, stream)]
    removed = [condition for condition in conditions if condition not in kept]
    if not removed:
        return select, []
    ages = [age for condition in removed for part in walk(condition) for age in _ages(part)]
    age_ms = max(ages, default=DAY_MS)
    start = _age(age_ms)
    has_window = _has_window(select, stream)
    pane = "1 second" if age_ms % MINUTE_MS else "1 minute"  # a question begins at a pane
    window = f"window({quote(stream.time_column)}, '{pane}')"
    group = "" if has_window else f", GROUP BY {window} in addition to the keys,"
    question = f"headrace ask {select.name} --start={start}" + ("" if has_window else " --window=all")
    clock = next(part for part in walk(removed[0]) if _is_clock(part))
    assert isinstance(clock, Call | Name), "a clock is a name or a call"
    fix = f"remove this condition{group} and give the time in the query: {question}"
    error = select.source.error(
        removed[0].at, f"{clock.name} is not deterministic, and a view keeps all of its windows", fix=fix
    )
    rest = None if not kept else kept[0] if len(kept) == 1 else Logic(where.at, "AND", tuple(kept))
    select = replace(select, where=rest)
    write = _write_without(select, conditions, removed, window if not has_window else None)
    if write and select.outline.reasons == ():
        error.write, error.replaces = write, (select.outline.start, select.outline.end)
    return select, [error]


def _write_without(
    select: ViewStatement, conditions: tuple[Node, ...], removed: list[Node], window: str | None
) -> str | None:
    """The statement without these conditions of WHERE."""
    outline = select.outline
    if outline.where is None:
        return None
    kept = [condition for condition in conditions if condition not in removed]
    spans = select.where_spans
    if len(spans) != len(conditions) and kept:
        return None
    source = select.source.text
    texts = [source[start:end] for (start, end), condition in zip(spans, conditions, strict=False) if condition in kept]
    edit = TextEdit(*outline.where, f"WHERE {' AND '.join(texts)}" if texts else "")
    return rewrite(select.source, replace(outline, edits=(*outline.edits, edit)), [window] if window else [])


def _is_clock_condition(node: Node, stream: Stream) -> bool:
    if not isinstance(node, Operation | Test):
        return False
    parts = list(walk(node))
    names_time = any(isinstance(part, Name) and part.name.lower() == stream.time_column.lower() for part in parts)
    return names_time and any(_is_clock(part) for part in parts)


def _is_clock(node: Node) -> bool:
    clock = isinstance(node, Name) or (isinstance(node, Call) and not node.args)
    return clock and getattr(node, "name", "").lower() in UNSTABLE


def _ages(node: Node) -> list[int]:
    """The span of time that a condition subtracts from the clock: an interval, or current_date - 7."""
    if isinstance(node, Interval):
        return [node.ms]
    match node:
        case Operation(op="-", args=(clock, Literal(type=of) as days)) if of == INT and _is_clock(clock):
            return [int(days.text) * DAY_MS]
    return []


def _has_window(select: ViewStatement, stream: Stream) -> bool:
    """Return True if the view has a window: in FROM, in GROUP BY, or in an item of SELECT that GROUP BY names."""
    nodes = (*select.groups, *(item.node for item in select.items if select.groups))
    return select.from_clause.input.window is not None or any(
        is_window_call(node) or is_bucket(node, stream) for node in nodes
    )


def _age(ms: int) -> str:
    for size, unit in ((HOUR_MS, "h"), (MINUTE_MS, "m")):
        if ms % size == 0:
            return f"-{ms // size}{unit}"
    return f"-{max(ms // 1000, 1)}s"


# WHERE


def _read_where(select: ViewStatement, scope: RowScope, reader: ShapeReader) -> Expression | None:
    """The condition of WHERE over the rows of FROM; `reader` has read SELECT, and tells what HAVING would take."""
    where = select.where
    if where is None:
        return None
    conditions = where.args if isinstance(where, Logic) and where.op == "AND" else (where,)
    texts = _texts(select, where, len(conditions))
    mistakes, kept = Mistakes(), []
    for condition, text in zip(conditions, texts, strict=True):
        place = _aggregated(condition, select, scope)
        if place is None:
            kept.append(condition)
        else:
            mistakes.errors.append(_of_having(select, reader, condition, place, text))
    expression = None
    if kept:
        rest = where if len(kept) == len(conditions) else kept[0] if len(kept) == 1 else _all(where, kept)
        with mistakes.collect():
            expression = check_condition(select.source, rest, scope, "WHERE")
    mistakes.check()
    return expression


def _aggregated(condition: Node, select: ViewStatement, scope: RowScope) -> Node | None:
    """The part of a condition that is an aggregate, or the name that SELECT gives to one; None: it is of events."""
    aliases = {item.alias.lower() for item in select.items if item.alias and contains_aggregate(item.node)}
    for part in walk(condition):
        by_name = isinstance(part, Name) and not part.of and part.name.lower() in aliases - scope.fields.keys()
        if by_name or is_aggregate(part):
            return part
    return None


def _of_having(
    select: ViewStatement, reader: ShapeReader, condition: Node, place: Node, text: str | None
) -> DefinitionError:
    fix = "conditions on aggregates and keys belong to HAVING, after GROUP BY"
    try:
        reader.having(select.source, condition)
    except DefinitionError:
        text = None  # HAVING would not take it as it is
    if text:
        fix = f"add it to HAVING: AND {text}" if select.having else f"write it after GROUP BY: HAVING {text}"
    return select.source.error(place.at, "WHERE selects events before they are aggregated", fix=fix)


def _texts(select: ViewStatement, where: Node, count: int) -> list[str | None]:
    """The conditions as they are written, as far as that is known."""
    text = select.source.text
    if count == 1 and select.outline.where:
        start, end = select.outline.where
        return [text[start:end].strip()[len("WHERE") :].strip()]
    spans = where.spans if isinstance(where, Logic) else ()
    return [text[start:end] for start, end in spans] if len(spans) == count else [None] * count


def _all(where: Node, conditions: list[Node]) -> Node:
    return Logic(where.at, "AND", tuple(conditions))
