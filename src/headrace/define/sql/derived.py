"""CREATE STREAM … AS SELECT: how it is read, and the derived stream that it is when its streams are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.define.definition_rules import located
from headrace.define.model import Stream, Table
from headrace.define.sql.from_clause import FromReader
from headrace.define.sql.peers import NO_PEER, Peer, rewrite
from headrace.define.sql.query_tree import RowQuery, StreamRead, joined_in_query, streams_of_query
from headrace.define.sql.row_query import NO_TABLES, Inputs, rows_of_query
from headrace.define.sql.streams import StreamReader
from headrace.errors import DefinitionError
from headrace.language.source_text import Mistakes, SourceText, Token


@dataclass(frozen=True)
class DerivedStatement:
    """CREATE STREAM … AS SELECT as it was written."""

    source: SourceText
    at: int
    name: str
    query: RowQuery
    watermark: tuple[Token, int] | None = None  # the event time, and the patience in milliseconds
    mistakes: tuple[DefinitionError, ...] = ()
    peer: Peer = NO_PEER

    @property
    def reads(self) -> tuple[StreamRead, ...]:
        """The streams that it names."""
        return tuple(dict.fromkeys(streams_of_query(self.query)))

    @property
    def joined(self) -> tuple[StreamRead, ...]:
        """The tables that it joins."""
        return tuple(dict.fromkeys(joined_in_query(self.query)))


def build_derived(
    statement: DerivedStatement, streams: Mapping[str, Stream], tables: Mapping[str, Table] = NO_TABLES
) -> Stream:
    """The derived stream; raises all mistakes of the statement at once. `streams` are by name in lower case."""
    source, peer, mistakes = statement.source, statement.peer, Mistakes(statement.mistakes)
    if peer.reasons:
        write = rewrite(source, peer, [])
        mistakes.errors.append(source.error(peer.start, "; ".join(peer.reasons), write=write, end=peer.end))
    with mistakes.collect():
        rows = rows_of_query(statement.query, Inputs(source, streams, tables=tables))
        rows = replace(rows, owner=f"stream '{statement.name}'")
        if statement.watermark:
            time, patience_ms = statement.watermark
            with located(source, time.start):
                rows = rows.watermark(time.text, patience_ms)
    mistakes.check()
    return rows.stream(statement.name)


class DerivedReader(StreamReader, FromReader):
    """Reads what follows CREATE STREAM, whether the stream is declared or derived."""

    def stream_or_derived(self, created: Token) -> Stream | DerivedStatement:
        """The stream, up to the end of its statement; `created` is the word STREAM."""
        if not self._is_derived():
            return self.stream()
        self.kind = "stream"
        name = self.read_declared_name("stream")
        is_constraint = self.ahead(1).upper == "CONSTRAINT"
        watermark = self._only_watermark(name) if self.sees_symbol("(") and not is_constraint else None
        self.read_properties()
        self.expect("AS", f"CREATE STREAM {name.text}")
        self.creates = created
        query = self.read_query()
        self.creates = None
        self._skip_partition()
        self.read_emit()
        self.kind = "view"
        peer = replace(self.peer, end=self.last_end)
        errors = tuple(self.mistakes.errors)
        return DerivedStatement(self.source, name.start, name.text, query, watermark, errors, peer)

    def _is_derived(self) -> bool:
        """Whether AS follows the name, and what may stand between them."""
        index = self.index
        while not self.at_end() and not self.sees("AS") and not self.sees("INCLUDE"):  # that one may have an AS, too
            if self.sees_symbol("("):
                self.skip_parentheses()
            else:
                self.take()
        derived = self.sees("AS")
        self.index = index
        return derived

    def _only_watermark(self, name: Token) -> tuple[Token, int]:
        self.take()
        self._refuse_unique(name)
        if not self.sees("WATERMARK", "FOR"):
            raise self.error(
                self.next.start, f"the columns of stream '{name.text}' are those of its query",
                found=self.next.describe(), expected="WATERMARK FOR at AS at - INTERVAL 1 MINUTE, or nothing",
                fix="name columns in SELECT, with AS, and cast them there",
            )  # fmt: skip
        watermark = self.read_watermark()
        if self.accept_symbol(","):
            self._refuse_unique(name)
            raise self.unexpected("')' after the WATERMARK of a derived stream")
        if not self.sees_symbol(")"):
            raise self.unexpected("')' after the WATERMARK of a derived stream")
        self.take()
        return watermark

    def _refuse_unique(self, name: Token) -> None:
        if self.sees("UNIQUE"):
            raise self.error(
                self.next.start, f"stream '{name.text}' is made from others: it has no UNIQUE of its own",
                fix="write it into the CREATE STREAM of the stream that events are sent to",
            )  # fmt: skip

    def _skip_partition(self) -> None:
        """PARTITION BY of ksqlDB."""
        at = self.next.start
        if self.accept("PARTITION", "BY"):
            self.expression()
            self.instead("PARTITION BY is not needed: a stream has no partitions", at, self.last_end)
