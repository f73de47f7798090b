"""Syntax of FROM that is not available: patterns, joins of streams, numbers of rows, functions.

Each refusal has the statements to write, in the names of the user's own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from headrace.errors import DefinitionError
from headrace.language.expressions import read_alias, read_expression, read_names
from headrace.language.literals import read_duration
from headrace.language.source_text import QUOTED, WORD, SourceText, Token, statement_at
from headrace.language.statements.select_rows import JOIN_FORM, WINDOW_TABLES
from headrace.language.syntax import JoinItem, Logic, Name, Node, Operation, TableQuery, walk
from headrace.language.terms import quote, unquote
from headrace.language.token_cursor import TokenCursor

_REFUSED_JOINS = {
    "RIGHT": ("RIGHT JOIN would need a row of each key that no event has", "write LEFT JOIN, with the stream first"),
    "FULL": ("FULL JOIN would need a row of each key that no event has", "write LEFT JOIN, with the stream first"),
    "NATURAL": ("NATURAL JOIN is not supported", f"write {JOIN_FORM}"),
    "CROSS": ("CROSS JOIN to a table would make a row for each of its keys", f"write {JOIN_FORM}"),
}
NAME = r'(?:[A-Za-z_]\w*|`(?:[^`]|``)+`|"(?:[^"]|"")+")'
_CREATE = (
    r"(?:CREATE\s+(?:OR\s+\w+\s+)?(?:TEMPORARY\s+|MATERIALIZED\s+)?(?:STREAM|VIEW|TABLE)|INSERT\s+INTO)"
    rf"\s+(?P<name>{NAME})\s+(?:AS\s+)?"
)
_NUMBER = r"ROW_NUMBER\s*\(\s*\)\s*OVER\s*\(\s*PARTITION\s+BY\s+(?P<keys>.+?)\s+ORDER\s+BY\s+(?P<order>[^()]+?)\s*\)\s*"
_MOST = r"(?P<op><=|<|=)\s*(?P<most>\d+)\s*$"
_FLAGS = re.IGNORECASE | re.DOTALL | re.VERBOSE
_NUMBERED = re.compile(
    rf"""{_CREATE}SELECT\s+(?P<columns>.+?)\s+FROM\s*\(\s*
      SELECT\s+.+?,\s*{_NUMBER}(?:AS\s+)?(?P<number>{NAME})\s+
      FROM\s*(?:(?P<stream>{NAME}|TABLE\s*\(.+?\)\s*\))|\(\s*(?P<inner>SELECT\s.+?\sGROUP\s+BY\s.+?)\)\s*(?:(?:AS\s+)?{NAME})?)\s*
    \)\s*(?:AS\s+)?(?:{NAME}\s+)??WHERE\s+(?P<of>{NAME}\.)?(?P=number)\s*{_MOST}""",
    _FLAGS,
)
_QUALIFIED = re.compile(
    rf"""{_CREATE}SELECT\s+(?P<columns>.+?)\s+FROM\s+(?P<stream>{NAME})\s+QUALIFY\s+{_NUMBER}{_MOST}""", _FLAGS
)

_GAP = re.compile(
    r"\w+\s*\([^()]*\)\s*OVER\s*\([^()]*\bSESSION\s+WITH\s+GAP\s+(?:INTERVAL\s+)?'([^']+)'", re.IGNORECASE
)


# What FROM names


def refuse_source(cursor: TokenCursor, windowed: bool) -> None:
    """Refuse what is no stream where FROM names one."""
    token = cursor.next
    if token.upper == "UNNEST" and cursor.ahead(1).text == "(":
        raise cursor.error(
            token.start, "FROM begins with a stream", fix="write FROM orders CROSS JOIN UNNEST(items) AS t(i)"
        )
    if token.upper in WINDOW_TABLES and cursor.ahead(1).text == "(":
        if not windowed:
            raise numbers_of_rows(cursor.source, token.start) or cursor.error(
                token.start, f"{token.upper} is not supported in a stream or a query inside FROM",
                fix="name the stream here; a window belongs to the view",
            )  # fmt: skip
        return
    if cursor.sees("STREAM") and cursor.ahead(2).text == "(":
        cursor.take()


def refuse_after_source(cursor: TokenCursor, name: Token) -> None:
    """Refuse functions and patterns; their first name has been read."""
    if cursor.sees_symbol("(") and name.upper == "CHANGES":
        raise cursor.error(
            name.start, "a stream of the changes of a view is not available yet",
            fix="meanwhile CREATE SINK … FROM the view WITH (…) sends its changes, and `headrace watch` shows them",
        )  # fmt: skip
    if cursor.sees_symbol("("):  # read_files('/data', …) of Spark and the like
        raise cursor.error(
            name.start, f"{name.text}(…) is not supported in FROM, which names a stream, a view or a table",
            fix="declare the fields in CREATE STREAM; `headrace send STREAM FILE` loads files, and WITH "
            "(connector = 'kafka', topic = '…') reads Kafka",
        )  # fmt: skip
    if cursor.sees("MATCH_RECOGNIZE"):
        raise _pattern(cursor, name.text)


def refuse_watermark(cursor: TokenCursor) -> None:
    """Refuse WATERMARK at DELAY OF INTERVAL 1 MINUTE of Spark, after the stream."""
    if not cursor.sees("WATERMARK"):
        return
    first, at = cursor.index, cursor.ahead(1).text
    while not (cursor.at_end() or cursor.sees("DELAY")):
        cursor.take()
    cursor.accept("DELAY", "OF")
    delay = cursor.index
    if not cursor.at_end():
        read_expression(cursor)
    patience = cursor.text_since(delay) if cursor.index > delay else "INTERVAL 1 MINUTE"
    raise cursor.error(
        cursor.tokens[first].start, "the watermark is declared by the stream",
        fix=f"remove it here, and write WATERMARK FOR {at} AS {at} - {patience} as the last field of CREATE STREAM",
        write=" ", span=cursor.span_since(first),
    )  # fmt: skip


def _pattern(cursor: TokenCursor, stream: str) -> DefinitionError:
    """Return the error of MATCH_RECOGNIZE (…), which is read to its end."""
    at, first = cursor.next.start, cursor.index
    cursor.skip_rest()  # with {3,} and the like
    text = " ".join(cursor.source.text[cursor.tokens[first].start : cursor.last_end].split())
    keys = re.search(rf"PARTITION\s+BY\s+({NAME}(?:\s*,\s*{NAME})*)", text, re.IGNORECASE)
    order = re.search(rf"ORDER\s+BY\s+({NAME})", text, re.IGNORECASE)
    span = re.search(r"WITHIN\s+INTERVAL\s+'?(\d+)'?\s+(\w+)", text, re.IGNORECASE)
    window = f"{span[1]} {span[2].lower()}" if span else "10 minutes"
    items = f"{keys[1]}, " if keys else ""
    groups = f"{items}window({order[1]}, '{window}')" if order else keys[1] if keys else ""
    view = f"CREATE MATERIALIZED VIEW {quote(cursor.declaring or 'matches')} AS SELECT {items}count(*) AS events "
    view += f"FROM {quote(stream)}{f' GROUP BY {groups}' if groups else ''}"
    start, _ = statement_at(cursor.source, at)
    return cursor.error(
        at, "MATCH_RECOGNIZE (PARTITION BY, ORDER BY, PATTERN, DEFINE) is not available yet",
        fix=f"meanwhile aggregate the events of each key and window, and look for the pattern with an aggregate in "
        f"Python (hr.udaf) in place of count(*): write {view}",
        write=view, span=(start, cursor.last_end),
    )  # fmt: skip


# Numbers of rows


def instead_of_numbers(source: SourceText, at: int, call: str) -> DefinitionError:
    """row_number() OVER and the like in the making of a stream: Top-N and de-duplication as Flink writes them."""
    start, end = statement_at(source, at)
    message = f"{call}(…) OVER needs other events, and a stream is made of one at a time"
    form = _NUMBERED.match(source.text[start:end]) or _QUALIFIED.match(source.text[start:end])
    if form is not None and "inner" in form.groupdict() and form["inner"]:
        return _numbers_of_aggregates(source, at, message, form, (start, end))
    if form is None or not all(re.fullmatch(NAME, key) for key in _list(form["keys"])):
        is_number = call.lower() in ("row_number", "rank", "dense_rank")
        gap = session_gap_at(source, at)
        if gap:
            return source.error(
                at, message, fix=f"aggregate in a materialized view with sessions: GROUP BY session_window(…, '{gap}')"
            )
        return source.error(
            at, message if is_number else f"{message}: it is not available yet",
            fix=f"aggregate in a materialized view; CREATE VIEW over it may have {call}(…) OVER and QUALIFY",
        )  # fmt: skip
    name, stream, keys = form["name"], form["stream"], _list(form["keys"])
    most = int(form["most"]) - (form["op"] == "<")
    order = [re.sub(r"(?i)\s+(ASC|DESC)\b.*$", "", each) for each in _list(form["order"])]
    written = [re.sub(rf"^{NAME}\.(?={NAME}$|\*$)", "", each) for each in _list(form["columns"])]
    number = form.groupdict().get("number") or ""
    columns = [each for each in written if each.lower() != number.lower()]
    if most == 1:
        selected = ", ".join([*(key for key in keys if key not in columns and "*" not in columns), *columns])
        table = f"CREATE TABLE {name} PRIMARY KEY ({', '.join(keys)}) AS SELECT {selected} FROM {stream}"
        if re.search(r"(?i)\bDESC\b", form["order"]):
            return source.error(at, f"{message}: the latest row of each key is a table", write=table, span=(start, end))
        unique = f"UNIQUE ({', '.join(keys)}) WITHIN INTERVAL 1 DAY"
        rows = f"CREATE STREAM {name} AS SELECT {selected} FROM {stream}"
        return source.error(
            at, f"{message}: the first event of each key is that of a stream with UNIQUE",
            fix=f"write {unique} among the fields of {stream}, so that repeats do not count, and {rows}; "
            f"or, for the latest row of each key, {table}",
            write=rows, span=(start, end),
        )  # fmt: skip
    plain = all(re.fullmatch(NAME, each) for each in columns)
    selected_columns = columns if plain and columns else list(dict.fromkeys([*keys, *order]))
    grouped = ", ".join(dict.fromkeys([*keys, *order, *selected_columns]))
    rows_name = quote(f"{unquote(name)}_rows")
    qualify = f"ROW_NUMBER() OVER (PARTITION BY {', '.join(keys)} ORDER BY {form['order']}) <= {most}"
    write = (
        f"CREATE MATERIALIZED VIEW {rows_name} AS SELECT {grouped}, count(*) AS events FROM {stream} "
        f"GROUP BY {grouped}; "
        f"CREATE VIEW {name} AS SELECT {', '.join(selected_columns)} FROM {rows_name} QUALIFY {qualify}"
    ).replace("`", '"')
    return source.error(
        at,
        f"{message}: the first {most} rows of each key are of a view over a view, where equal rows are one "
        "(events says how many)",
        write=write, span=(start, end),
    )  # fmt: skip


def numbers_of_rows(source: SourceText, at: int) -> DefinitionError | None:
    """Top-N as Flink writes it: numbers over TUMBLE(…) or a SELECT with GROUP BY; None if it is another statement."""
    start, end = statement_at(source, at)
    return instead_of_numbers(source, at, "ROW_NUMBER") if _NUMBERED.match(source.text[start:end]) else None


def _numbers_of_aggregates(
    source: SourceText, at: int, message: str, form: re.Match[str], span: tuple[int, int]
) -> DefinitionError:
    """The view of the inner SELECT, and the view over it that numbers its rows."""
    rows = quote(f"{unquote(form['name'])}_rows")
    inner, columns = (" ".join(form[part].split()) for part in ("inner", "columns"))
    number = f"ROW_NUMBER() OVER (PARTITION BY {form['keys']} ORDER BY {form['order']})"
    if columns != "*":
        number_name = rf"(?i)(?:{NAME}\.)?\b{re.escape(form['number'])}\b"
        columns = re.sub(number_name, lambda _: f"{number} AS {form['number']}", columns)
    over = f"CREATE VIEW {form['name']} AS SELECT {columns} FROM {rows} QUALIFY {number} {form['op']} {form['most']}"
    write = f"CREATE MATERIALIZED VIEW {rows} AS {inner}; {over.replace('`', chr(34))}"
    return source.error(at, f"{message}: a view over a view has them", write=write, span=span)


def _list(text: str) -> list[str]:
    return [each.strip() for each in text.split(",")]


def session_gap_at(source: SourceText, at: int) -> str | None:
    """The gap of a call with OVER (… SESSION WITH GAP INTERVAL '5 minutes') of RisingWave; None of others."""
    gap = _GAP.match(source.text, at)
    return gap[1] if gap else None


# Joins of streams


def refuse_join(cursor: TokenCursor) -> None:
    """Refuse the kinds of joins that rows do not have."""
    token = cursor.next
    if token.text == ",":
        raise _comma(cursor)
    refusal = _REFUSED_JOINS.get(token.upper)
    if refusal:
        raise cursor.error(token.start, refusal[0], fix=refusal[1])


def read_after_joined(cursor: TokenCursor, item: JoinItem, as_of: Token | None) -> JoinItem:
    """Read WITHIN of ksqlDB, for joins of streams; refuse ASOF JOIN, which begins with the token `as_of`."""
    if as_of is not None:
        raise _as_of_join(cursor, as_of, item)
    if not cursor.sees("WITHIN"):
        return item
    within = cursor.index
    cursor.take()
    if cursor.sees_symbol("("):
        cursor.skip_parentheses()
    else:
        read_duration(cursor)
    if cursor.accept("GRACE", "PERIOD"):
        read_duration(cursor)
    return replace(item, left_out=(cursor.span_since(within),))


def _as_of_join(cursor: TokenCursor, token: Token, item: JoinItem) -> DefinitionError:
    """Return the error of ASOF JOIN quotes q MATCH_CONDITION (t.ts >= q.ts) ON …, and with the condition in ON."""
    left_out, matching = [(token.start, token.end)], None
    if cursor.sees("MATCH_CONDITION"):
        at = cursor.index
        cursor.take()
        matching = read_expression(cursor)
        left_out.append(cursor.span_since(at))
    if item.alias:
        left_out.append((item.name_end, cursor.last_end if matching is None else left_out[-1][0]))
    if cursor.accept("USING"):
        item = replace(item, using=read_names(cursor, "USING"))
    elif cursor.accept("ON"):
        item = replace(item, on=read_expression(cursor))
    time = _time_before(matching or item.on, item.alias or item.name)
    item = replace(item, left_out=tuple(left_out))
    return refuse_stream_join(cursor.source, item, as_of=time or "…")


def _comma(cursor: TokenCursor) -> DefinitionError:
    """Return the error of FROM a, b WHERE a.x = b.x, which is a join; its condition is that of ON."""
    comma, message = cursor.take(), "a comma joins each event to every row"
    if cursor.next.kind in (WORD, QUOTED):
        cursor.take()
        read_alias(cursor, "the table")
    where, text = cursor.next, cursor.source.text
    if where.upper != "WHERE":
        return cursor.error(comma.start, message, fix=f"write {JOIN_FORM}")
    start, end = statement_at(cursor.source, comma.start)
    pieces = (text[start : comma.start].rstrip(), " JOIN", text[comma.end : where.start], "ON", text[where.end : end])
    return cursor.error(comma.start, message, write=" ".join("".join(pieces).split()), span=(start, end))


def refuse_stream_join(
    source: SourceText,
    item: JoinItem,
    *,
    as_of: str | None = None,
    times: Collection[str] = (),
    where: Node | None = None,
) -> DefinitionError:
    """A JOIN of a stream, with the table of its latest rows to join meanwhile; `as_of`: as they were at a time.

    `times` are the fields of the stream that are times, in lower case: a row that was stored before the event
    would rarely meet a condition on them.
    """
    joined = "ASOF JOIN" if as_of else "a join"
    message = f"'{item.name}' is a stream: {joined} of two streams (ON a = b AND time BETWEEN …) is not available yet"
    keys = list(dict.fromkeys([*item.using, *_keys(item)]))
    if not keys:
        return source.error(
            item.at, f"{message}, and this one compares no column with =",
            fix=f"compare a key of '{item.name}' with =; UNION ALL puts the events of both after one another",
        )  # fmt: skip
    start, end = statement_at(source, item.at)
    latest = quote(f"{item.name}_latest")
    table = f"CREATE TABLE {latest} PRIMARY KEY ({', '.join(map(quote, keys))}) AS SELECT * FROM {quote(item.name)}"
    alias = "" if item.alias and not as_of else f" AS {quote(item.alias or item.name)}"
    name_end = item.name_end or item.at + len(item.name)
    join = f"{latest}{f' FOR SYSTEM_TIME AS OF {as_of}' if as_of else ''}{alias}"
    timeless = [cut for node in (item.on, where) for cut in _without_times(source, node, item, times)]
    text, cuts = source.text, sorted([(item.at, name_end, join), *((*span, "") for span in item.left_out), *timeless])
    pieces, offset = [], start
    for cut_start, cut_end, written in cuts:
        pieces += [text[offset:cut_start], written]
        offset = cut_end
    statement = " ".join("".join([*pieces, text[offset:end]]).split())
    left_out = ", so the condition on its time is left out" if timeless else ""
    return source.error(
        item.at,
        f"{message}; joined to a table of its latest rows, an event meets only a row that was stored before it"
        f"{left_out}; to pair events in any order of arrival, aggregate the UNION ALL of both (docs/joins.md)",
        fix=f"meanwhile join its latest row of each key, as it is when an event is stored: write {table}; {statement}",
        write=f"{table}; {statement}", span=(start, end),
    )  # fmt: skip


def _without_times(
    source: SourceText, node: Node | None, item: JoinItem, times: Collection[str]
) -> list[tuple[int, int, str]]:
    """Return what to write in place of ON or WHERE, without conditions on a time of the stream."""
    if node is None:
        return []
    nodes, spans = (node.args, node.spans) if isinstance(node, Logic) and node.op == "AND" else ((node,), (node.span,))
    own = {name.lower() for name in (item.alias, item.name) if name}

    def is_on_time(condition: Node) -> bool:
        names = [part for part in walk(condition) if isinstance(part, Name)]
        of_stream = [name for name in names if (name.of or "").lower() in own]
        is_other = isinstance(condition, TableQuery) or (isinstance(condition, Operation) and condition.op == "=")
        return len(of_stream) < len(names) and not is_other and any(name.name.lower() in times for name in of_stream)

    on_time = [each.at for each in nodes if is_on_time(each)]
    written = [span for span in spans if span is not None]
    kept = [span for span in written if not any(span[0] <= at < span[1] for at in on_time)]
    if len(kept) == len(written):
        return []
    start, end = written[0][0], written[-1][1]
    before = source.text[:start].rstrip()
    if not kept and before.upper().endswith("WHERE"):
        start = len(before) - len("WHERE")
    return [(start, end, " AND ".join(source.text[slice(*span)] for span in kept))]


def _keys(item: JoinItem) -> Sequence[str]:
    """The columns of what is joined that ON compares with =."""
    conditions = item.on.args if isinstance(item.on, Logic) and item.on.op == "AND" else (item.on,)
    own = {name.lower() for name in (item.alias, item.name) if name}
    pairs = (each.args for each in conditions if isinstance(each, Operation) and each.op == "=")
    return [side.name for pair in pairs for side in pair if isinstance(side, Name) and (side.of or "").lower() in own]


def _time_before(node: Node | None, alias: str) -> str | None:
    """The time in `t.ts >= q.ts` that the rows of an ASOF JOIN are at, where q is `alias`; None if it is not there."""
    conditions = node.args if isinstance(node, Logic) and node.op == "AND" else (node,)
    for each in conditions:
        if isinstance(each, Operation) and each.op in (">=", ">", "<=", "<"):
            left, right = each.args if each.op in (">=", ">") else reversed(each.args)
            if isinstance(left, Name) and isinstance(right, Name) and (right.of or "").lower() == alias.lower():
                return f"{quote(left.of)}.{quote(left.name)}" if left.of else quote(left.name)
    return None
