"""What is not available in FROM: sessions, patterns, joins of streams, numbers of rows, functions that read files.

Each refusal has the statements to write, in the names of the user's own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from headrace.define.expression.hints import NO_SESSIONS
from headrace.errors import DefinitionError
from headrace.language.source_text import END, QUOTED, WORD, SourceText, Token, tokenize
from headrace.language.syntax import Logic, Name, Node, Operation, TableQuery, walk
from headrace.language.terms import quote, unquote

if TYPE_CHECKING:
    from headrace.define.sql.from_clause import FromReader
    from headrace.define.sql.query_tree import JoinItem

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


def statement_at(source: SourceText, at: int) -> tuple[int, int]:
    """Where the statement around an offset begins and ends, without its semicolon."""
    start = end = 0
    fresh = True
    for token in tokenize(source, []):
        if token.kind == END or (token.text == ";" and token.kind == "symbol"):
            if token.start >= at:
                break
            fresh = True
            continue
        start, fresh = (token.start, False) if fresh else (start, fresh)
        end = token.end
    return start, end


# Sources


def refuse_function(reader: FromReader, function: Token) -> DefinitionError:
    """read_files('/data', …) of Spark and the like."""
    return reader.error(
        function.start, f"{function.text}(…) is not supported in FROM, which names a stream, a view or a table",
        fix="declare the fields in CREATE STREAM; `headrace send STREAM FILE` loads files, and WITH "
        "(connector = 'kafka', topic = '…') reads Kafka",
    )  # fmt: skip


def refuse_watermark(reader: FromReader) -> DefinitionError:
    """WATERMARK at DELAY OF INTERVAL 1 MINUTE of Spark, after the stream."""
    first, at = reader.index, reader.ahead(1).text
    while not (reader.at_end() or reader.sees("DELAY")):
        reader.take()
    reader.accept("DELAY", "OF")
    delay = reader.index
    if not reader.at_end():
        reader.expression()
    patience = reader.text_since(delay) if reader.index > delay else "INTERVAL 1 MINUTE"
    return reader.error(
        reader.tokens[first].start, "the watermark is declared by the stream",
        fix=f"remove it here, and write WATERMARK FOR {at} AS {at} - {patience} as the last field of CREATE STREAM",
        write=" ", span=reader.span_since(first),
    )  # fmt: skip


# Patterns


def refuse_pattern(reader: FromReader, stream: str) -> DefinitionError:
    """MATCH_RECOGNIZE (…), which is read to its end."""
    at, first = reader.next.start, reader.index
    reader.skip_rest()  # with {3,} and the like
    text = " ".join(reader.source.text[reader.tokens[first].start : reader.last_end].split())
    keys = re.search(rf"PARTITION\s+BY\s+({NAME}(?:\s*,\s*{NAME})*)", text, re.IGNORECASE)
    order = re.search(rf"ORDER\s+BY\s+({NAME})", text, re.IGNORECASE)
    span = re.search(r"WITHIN\s+INTERVAL\s+'?(\d+)'?\s+(\w+)", text, re.IGNORECASE)
    window = f"{span[1]} {span[2].lower()}" if span else "10 minutes"
    items = f"{keys[1]}, " if keys else ""
    groups = f"{items}window({order[1]}, '{window}')" if order else keys[1] if keys else ""
    view = f"CREATE MATERIALIZED VIEW {quote(reader.declaring or 'matches')} AS SELECT {items}count(*) AS events "
    view += f"FROM {quote(stream)}{f' GROUP BY {groups}' if groups else ''}"
    return reader.error(
        at, "MATCH_RECOGNIZE (PARTITION BY, ORDER BY, PATTERN, DEFINE) is not available yet",
        fix=f"meanwhile aggregate the events of each key and window, and look for the pattern with an aggregate in "
        f"Python (hr.udaf) in place of count(*): write {view}",
        write=view, span=(reader.peer.start, reader.last_end),
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
            fix = (
                f"meanwhile aggregate in a materialized view, with windows of a fixed size: GROUP BY window(…, '{gap}')"
            )
            return source.error(at, f"{message}; {NO_SESSIONS}", fix=fix)
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


def instead_of_comma(reader: FromReader) -> DefinitionError:
    """FROM a, b WHERE a.x = b.x, which is a join; its condition is that of ON."""
    comma, message = reader.take(), "a comma joins each event to every row"
    if reader.next.kind in (WORD, QUOTED):
        reader.take()
        reader.read_alias("the table")
    where, text = reader.next, reader.source.text
    if where.upper != "WHERE":
        return reader.error(comma.start, message, fix="write JOIN users u ON c.user_id = u.id")
    start, end = statement_at(reader.source, comma.start)
    pieces = (text[start : comma.start].rstrip(), " JOIN", text[comma.end : where.start], "ON", text[where.end : end])
    return reader.error(comma.start, message, write=" ".join("".join(pieces).split()), span=(start, end))


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
    """What to write in place of ON or WHERE, without conditions on a time of the stream and a column of another."""
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


def time_before(node: Node | None, alias: str) -> str | None:
    """The time in `t.ts >= q.ts` that the rows of an ASOF JOIN are at, where q is `alias`; None if it is not there."""
    conditions = node.args if isinstance(node, Logic) and node.op == "AND" else (node,)
    for each in conditions:
        if isinstance(each, Operation) and each.op in (">=", ">", "<=", "<"):
            left, right = each.args if each.op in (">=", ">") else reversed(each.args)
            if isinstance(left, Name) and isinstance(right, Name) and (right.of or "").lower() == alias.lower():
                return f"{quote(left.of)}.{quote(left.name)}" if left.of else quote(left.name)
    return None
