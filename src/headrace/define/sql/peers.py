"""Statements and clauses of other systems: they are read, and refused with the whole statement to write instead."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.define.answer_shape import read_limit
from headrace.define.expression.functions import UNSTABLE
from headrace.define.expression.hints import NO_SESSIONS
from headrace.define.sql.clauses import StatementReader
from headrace.define.sql.later import session_gap_at
from headrace.define.sql.windows import is_bucket, is_window_call
from headrace.define.view_columns import contains_aggregate
from headrace.errors import DefinitionError
from headrace.language.durations import DAY_MS, HOUR_MS, MINUTE_MS, format_duration
from headrace.language.source_text import END, NUMBER, SourceText
from headrace.language.syntax import Call, Interval, Literal, Logic, Name, Node, Operation, Test, walk
from headrace.language.terms import quote
from headrace.types import INT, STRING

if TYPE_CHECKING:
    from headrace.define.model import Stream
    from headrace.define.sql.select import ViewStatement

_RANKS = ("row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile")
_NEIGHBORS = ("lag", "lead")
_KSQL_WINDOWS = ("TUMBLING", "HOPPING", "SESSION")
_EMITS = {
    "CHANGES": "EMIT CHANGES is not needed: a {kind} is always up to date",
    "FINAL": "EMIT FINAL is not needed: each row says whether it is settled",
    "ON": "EMIT ON WINDOW CLOSE is not needed: each row says whether it is settled",
}
_TOPIC = re.compile(r"\b(?:kafka_)?topic\b['\"]?\s*=\s*('[^']*')", re.IGNORECASE)
_EXPECTATION = re.compile(
    r"\bEXPECT\s*(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))\s*ON\s+VIOLATION\s+DROP\s+ROW\b", re.IGNORECASE
)
_PROPERTIES = (  # what follows the name of a view
    "TO", "ENGINE", "POPULATE", "COMMENT", "IN", "ON", "REFRESH", "CLUSTER BY", "PARTITIONED", "TBLPROPERTIES", "USING",
)  # fmt: skip
CLAUSES = ("WINDOW", "EMIT", "FINAL", "PREWHERE", "SAMPLE")


@dataclass(frozen=True)
class TextEdit:
    """A part of the statement, by its offsets, and what to write there."""

    start: int
    end: int
    text: str = ""


@dataclass(frozen=True)
class Peer:
    """What a statement has of other systems, and where its parts begin and end."""

    start: int = 0
    end: int = 0
    reasons: tuple[str, ...] = ()
    edits: tuple[TextEdit, ...] = ()
    window: tuple[str, ...] = ()  # the size, and the slide if it has one, of WINDOW TUMBLING and HOPPING
    groups_at: int = 0  # the end of GROUP BY, or where it belongs
    has_groups: bool = False
    where: tuple[int, int] | None = None  # the offsets of WHERE and its condition
    items: tuple[str, ...] = ()  # of SELECT, as written, without names
    items_end: int = 0
    distinct: bool = False
    grace: str | None = None  # GRACE PERIOD of ksqlDB
    window_names: tuple[str, ...] = ()  # in lower case, w of GROUP BY window(…) AS w


NO_PEER = Peer()


class PeerReader(StatementReader):
    """A parser that reads what other systems have around a SELECT."""

    peer = NO_PEER
    kind = "view"  # what the statement declares: "view" or "stream"

    def instead(self, reason: str, start: int, end: int, text: str = "") -> None:
        """Refuse a part of the statement, with what to write there; reading continues."""
        edits = (*self.peer.edits, TextEdit(start, end, text))
        self.peer = replace(self.peer, reasons=(*self.peer.reasons, reason), edits=edits)

    @property
    def last_end(self) -> int:
        """The offset after the token that was read last."""
        return self.tokens[self.index - 1].end

    def read_properties(self) -> None:
        """Read what other systems have between the name of a view and AS: WITH (…), TO t, ENGINE = … POPULATE."""
        if self.sees_symbol("(") and self.ahead(1).upper == "CONSTRAINT":
            self._read_expectations()
        at, word = self.next.start, "CLUSTER BY" if self.sees("CLUSTER", "BY") else self.next.upper
        if word not in _PROPERTIES and not (
            word == "WITH" and (self.ahead(1).text == "(" or self.ahead(1).upper == "REFRESH")
        ):
            return
        while not (self.at_end() or self.sees("AS") or self.sees("SCHEDULE")):
            if self.sees_symbol("("):
                self.skip_parentheses()
            else:
                self.take()
        topic = _TOPIC.search(self.source.text[at : self.last_end])
        into = f"; CREATE SINK … FROM it WITH (connector = 'kafka', topic = {topic[1]}) fills a topic" if topic else ""
        self.instead(f"a {self.kind} has no {word}{into}", at, self.last_end)

    def _read_expectations(self) -> None:
        """Read (CONSTRAINT good EXPECT (a > 1) ON VIOLATION DROP ROW) of Databricks."""
        at, start = self.next.start, self.index
        self.skip_parentheses()
        condition = " AND ".join(_EXPECTATION.findall(self.text_since(start)))
        clause = "WHERE" if self.kind == "stream" else "WHERE or HAVING"
        reason = f"a {self.kind} has no CONSTRAINT: {clause} leaves out the rows that violate it"
        self.instead(reason, at, self.next.start)
        rest = itertools.takewhile(lambda token: token.kind != END and token.text != ";", self.tokens[self.index :])
        words = [token.upper for token in rest]
        if condition and self.kind == "stream" and "WHERE" not in words and words.count("SELECT") == 1:
            end = self._end_of_statement()
            self.peer = replace(self.peer, edits=(*self.peer.edits, TextEdit(end, end, f" WHERE {condition}")))

    def read_fetch(self) -> int | None:
        """FETCH FIRST 10 ROWS ONLY, the LIMIT of standard SQL."""
        if not (self.accept("FETCH", "FIRST") or self.accept("FETCH", "NEXT")):
            return None
        limit = read_limit(self) if self.next.kind == NUMBER else 1
        for word in (("ROWS",), ("ROW",), ("ONLY",)):
            self.accept(*word)
        return limit

    def read_no_data(self) -> None:
        """Read WITH [NO] DATA of PostgreSQL after the query."""
        at = self.next.start
        if self.accept("WITH", "NO", "DATA") or self.accept("WITH", "DATA"):
            self.instead("WITH DATA is not needed: a view is always up to date", at, self.last_end)

    def read_quantifier(self) -> None:
        """Read DISTINCT, ALL or TOP 10 after SELECT."""
        at = self.next.start
        if self.accept("DISTINCT"):
            if self.sees("ON"):
                raise self.error(
                    at,
                    "SELECT DISTINCT ON is not supported in a view",
                    fix="GROUP BY these keys and select last(x) for the latest x of each by event time; "
                    "CREATE TABLE … PRIMARY KEY (…) AS SELECT … has the latest rows",
                )
            self.peer = replace(self.peer, distinct=True)
            self.instead("SELECT DISTINCT is not supported in a view: GROUP BY gives each key once", at, self.last_end)
        elif self.sees("TOP") and self.ahead(1).kind == "number":
            self.take()
            count = self.take().text
            end = self._end_of_statement()
            self.instead(f"TOP {count} is LIMIT {count} here, after ORDER BY", at, self.last_end)
            self.peer = replace(self.peer, edits=(*self.peer.edits, TextEdit(end, end, f" LIMIT {count}")))
        else:
            self.accept("ALL")

    def _end_of_statement(self) -> int:
        index = self.index
        while not (self.tokens[index].kind == END or (self.tokens[index].text == ";")):
            index += 1
        return self.tokens[index - 1].end

    def read_final(self) -> None:
        """Read FINAL, SAMPLE 0.1 and PREWHERE of ClickHouse after the stream."""
        token = self.next
        if self.accept("FINAL"):
            self.instead("FINAL is not needed: a stream keeps every event", token.start, token.end)
        elif self.accept("SAMPLE"):
            share = self._share()
            if self.accept("OFFSET"):
                self._share()
            parts = [float(part) for part in share.split("/") if re.fullmatch(r"\d*\.?\d+", part)]
            ratio = parts[0] / parts[1] if len(parts) == 2 and parts[1] else parts[0] if parts else 2
            percent = ratio * 100 if 0 < ratio <= 1 else 10
            sample = f"TABLESAMPLE ({percent:g} PERCENT)"
            self.instead(f"SAMPLE {share} is {sample} here", token.start, self.last_end, sample)
        if self.sees("PREWHERE"):
            token = self.tokens[self.index]
            self.instead("PREWHERE is WHERE here", token.start, token.end, "WHERE")
            self.tokens[self.index] = replace(token, text="WHERE")

    def _share(self) -> str:
        """0.1 or 1/10."""
        share = self.take().text
        return f"{share}/{self.take().text}" if self.accept_symbol("/") else share

    def read_window_clause(self) -> None:
        """Read what other systems have after the stream, as WINDOW TUMBLING (SIZE 1 MINUTE) of ksqlDB."""
        self.read_final()
        kind = self.ahead(1).upper
        if not self.sees("WINDOW") or kind not in _KSQL_WINDOWS:
            return
        at = self.take().start
        self.take()
        self.expect_symbol("(", f"WINDOW {kind}")
        spans: dict[str, str] = {}
        while not spans or self.accept_symbol(","):
            word = self.take().upper if self.next.kind == "word" else ""
            self.accept("BY")
            self.accept("PERIOD")
            spans[word] = format_duration(self.read_duration())
        self.expect_symbol(")", f"the size of WINDOW {kind}")
        window = tuple(spans[word] for word in ("SIZE", "ADVANCE", "") if word in spans)  # SESSION (30 MINUTES)
        reason = f"WINDOW {kind} is written window(…) in GROUP BY here"
        if kind == "SESSION":
            reason = f"{NO_SESSIONS}: meanwhile write windows of a fixed size"
        self.instead(reason, at, self.last_end)
        self.peer = replace(self.peer, window=window, grace=spans.get("GRACE"))

    def read_emit(self) -> None:
        """Read EMIT CHANGES, EMIT FINAL, EMIT ON WINDOW CLOSE."""
        if not self.sees("EMIT"):
            return
        at = self.take().start
        reason = _EMITS.get(self.next.upper)
        if reason is None:
            raise self.unexpected("CHANGES or FINAL after EMIT")
        while not self.at_end():
            self.take()
        self.instead(reason.format(kind=self.kind), at, self.last_end)


def _named_as_here(select: ViewStatement) -> ViewStatement:
    """WINDOWSTART and WINDOWEND of ksqlDB, and w.start of GROUP BY window(…) AS w, as window_start and window_end."""
    names = {"windowstart": "window_start", "windowend": "window_end"}
    names |= {f"{name}.{bound}": f"window_{bound}" for name in select.peer.window_names for bound in ("start", "end")}
    edits, items = [], []
    for item in select.items:
        node = item.node
        name = f"{node.of}.{node.name}" if isinstance(node, Name) and node.of else getattr(node, "name", "")
        if isinstance(node, Name) and name.lower() in names and node.span:
            ours = names[name.lower()]
            edits.append(TextEdit(*node.span, ours))
            item = replace(item, node=replace(node, name=ours, of=None))
        items.append(item)
    peer = replace(select.peer, edits=(*select.peer.edits, *edits))
    return replace(select, items=tuple(items), peer=peer) if edits and select.peer.reasons else select


def resolve(select: ViewStatement, stream: Stream) -> tuple[ViewStatement, list[DefinitionError]]:
    """The statement as its stream understands it, and the mistakes of what it has of other systems."""
    time = quote(stream.time_column)
    select, errors = _without_over(_named_as_here(select), time)
    select, clock_errors = _without_clock(select, stream)
    peer = select.peer
    if not peer.reasons:
        return select, errors + clock_errors
    insert: list[str] = []
    if peer.distinct and not peer.has_groups and not any(_calls(item.node) for item in select.items):
        insert += peer.items
        peer = replace(peer, edits=(*peer.edits, TextEdit(peer.items_end, peer.items_end, ", count(*) AS n")))
        items = tuple(item for item in select.items)
        count = Call(select.at, "count", ())
        select = replace(
            select,
            groups=tuple(item.node for item in items),
            items=(*items, replace(items[0], node=count, alias="n")),
        )
    if peer.window:
        durations = ", ".join(f"'{span}'" for span in peer.window)
        insert.append(f"window({time}, {durations})")
        spans = tuple(Literal(select.at, span, STRING) for span in peer.window)
        window = Call(select.at, "window", (Name(select.at, stream.time_column), *spans))
        select = replace(select, groups=(*select.groups, window))
    if peer.grace:
        patience = f"WATERMARK FOR {time} AS {time} - INTERVAL {peer.grace.upper()}"
        reason = f"GRACE PERIOD is the patience of the stream '{stream.name}': {patience} in its CREATE STREAM"
        peer = replace(peer, reasons=(*peer.reasons, reason))
    write = rewrite(select.source, peer, insert)
    error = select.source.error(peer.start, "; ".join(peer.reasons), write=write, end=peer.end)
    return select, [*errors, *clock_errors, error]


def rewrite(source: SourceText, peer: Peer, groups: list[str]) -> str:
    """A statement with its edits, and more items of GROUP BY."""
    edits = list(peer.edits)
    if groups:
        separator = ", " if peer.has_groups else " GROUP BY "
        edits.append(TextEdit(peer.groups_at, peer.groups_at, separator + ", ".join(groups)))
    pieces, offset = [], peer.start
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        pieces += [source.text[offset : edit.start], edit.text]
        offset = max(offset, edit.end)
    text = "".join([*pieces, source.text[offset : peer.end]])
    return " ".join(line.strip() for line in text.splitlines()).replace("  ", " ").strip()


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
            window = f"window({time}, '{session_gap_at(select.source, over.at) or '1 minute'}')"
            keys = ", ".join((*(over.written.over or ()), window))
            fix = f"write {over.name}({', '.join(over.written.arguments)}) without OVER, and GROUP BY {keys}"
        message = f"{over.name}(…) OVER is not supported: a view aggregates events, it does not number rows"
        message += f"; {NO_SESSIONS}" if session_gap_at(select.source, over.at) else ""
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
    fix = f"remove this condition{group} and give the time in the question: {question}"
    error = select.source.error(
        removed[0].at, f"{clock.name} is not deterministic, and a view keeps all of its windows", fix=fix
    )
    rest = None if not kept else kept[0] if len(kept) == 1 else Logic(where.at, "AND", tuple(kept))
    select = replace(select, where=rest)
    write = _write_without(select, conditions, removed, window if not has_window else None)
    if write and select.peer.reasons == ():
        error.write, error.replaces = write, (select.peer.start, select.peer.end)
    return select, [error]


def _write_without(
    select: ViewStatement, conditions: tuple[Node, ...], removed: list[Node], window: str | None
) -> str | None:
    """The statement without these conditions of WHERE."""
    peer = select.peer
    if peer.where is None:
        return None
    kept = [condition for condition in conditions if condition not in removed]
    spans = select.where_spans
    if len(spans) != len(conditions) and kept:
        return None
    source = select.source.text
    texts = [source[start:end] for (start, end), condition in zip(spans, conditions, strict=False) if condition in kept]
    edit = TextEdit(*peer.where, f"WHERE {' AND '.join(texts)}" if texts else "")
    return rewrite(select.source, replace(peer, edits=(*peer.edits, edit)), [window] if window else [])


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
    """Whether the view has a window: in FROM, in GROUP BY, or in an item of SELECT that GROUP BY names."""
    nodes = (*select.groups, *(item.node for item in select.items if select.groups))
    return select.table_window is not None or any(is_window_call(node) or is_bucket(node, stream) for node in nodes)


def _age(ms: int) -> str:
    for size, unit in ((HOUR_MS, "h"), (MINUTE_MS, "m")):
        if ms % size == 0:
            return f"-{ms // size}{unit}"
    return f"-{max(ms // 1000, 1)}s"
