"""A table of a connected workspace: rows to upsert, to delete and to replace, and questions by key."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from headrace.client.notebook import ConnectedView
from headrace.define.model import JSON
from headrace.language.token_cursor import parse_type
from headrace.errors import IngestError, NotReadyError, RequestError, SqlError, not_a_table
from headrace.ingest.changes import deletions
from headrace.ingest.formats.layout import ANY, Layout, format_of
from headrace.serve.values import key_value

if TYPE_CHECKING:
    from headrace.ingest.receiver import IngestReply
    from headrace.serve.answer import Answer
    from headrace.server.state import TableStatus
    from headrace.sql.answer import SqlAnswer

UP_TO_DATE_S, PAUSE_S = 30.0, 0.1  # how long to wait for rows to have all changes


class ConnectedTable(ConnectedView):
    """A table of a connected workspace. Each change is kept, so that it can be asked as of an earlier commit."""

    def __repr__(self) -> str:
        return f"table {self.name}"

    @property
    def table_status(self) -> TableStatus:
        """Its definition and its state."""
        tables = self._connection.verbs.tables()
        for table in tables:
            if table.name == self.name:
                return table
        streams = [stream.name for stream in self._connection.verbs.streams()]
        raise not_a_table(self.name, [table.name for table in tables], streams)

    def upsert(self, rows: Any, *, key: str | None = None) -> IngestReply:
        """Insert rows, or replace those with the same primary key: mappings, a pandas DataFrame or an Arrow table.

        A row replaces the whole row: columns that it leaves out become NULL. `key` is an idempotency key.
        """
        self._writable()
        return self._connection.send(self.name, rows, key=key)

    def delete(self, keys: Any, *, key: str | None = None) -> IngestReply:
        """Delete the rows with these primary keys: mappings, plain values, a pandas DataFrame or an Arrow table."""
        status = self._writable()
        rows = _as_rows(keys)
        changes = deletions(self.name, status.key, status.latest_by, rows, may_repeat=key is not None)
        return self._connection.send(self.name, changes, key=key)

    def replace(self, rows: Any, *, key: str | None = None) -> IngestReply:
        """Make these rows the whole table: they are upserted, and rows with other keys are deleted, in one request.

        `rows` may also be the `Path` of a file. What is deleted is decided by the rows that an answer has now.
        """
        status = self._writable()
        sent = list(read_rows(rows, ANY, status) if isinstance(rows, Path) else _as_rows(rows))
        types = {column.name: parse_type(column.type) for column in status.columns}
        deletions(self.name, status.key, None, sent)  # refuses a row without its key
        kept = {tuple(key_value(name, types[name], row[name]) for name in status.key) for row in sent}
        present = [{name: row[name] for name in status.key} for row in self._keys(status.key)]
        others = [row for row in present if tuple(row.values()) not in kept]
        changes = deletions(self.name, status.key, status.latest_by, others)
        return self._connection.send(self.name, [*sent, *changes], key=key)

    def _keys(self, key: Sequence[str]) -> list[dict[str, Any]]:
        """The keys of all rows, with every change that was accepted before."""
        columns = ", ".join('"' + name.replace('"', '""') + '"' for name in key)
        query = f'SELECT {columns} FROM "{self.name}"'  # a name of a table has no quotes
        deadline = time.monotonic() + UP_TO_DATE_S
        while True:
            answer: Answer | SqlAnswer
            try:
                answer = self._connection.sql(query)  # pages of a large table take long
            except SqlError:
                answer = self.ask()  # there are more keys than one result holds
            if answer.freshness_ms == 0:
                return answer.rows()
            if time.monotonic() > deadline:
                raise NotReadyError(
                    f"table '{self.name}' has accepted changes that are not in its rows yet",
                    found=answer.freshness_reason or f"{answer.freshness_ms} ms behind",
                    fix="nothing was changed; try again when `headrace tables` says that it is up to date",
                )
            time.sleep(PAUSE_S)

    def _writable(self) -> TableStatus:
        status = self.table_status
        if status.derived_from:
            raise RequestError(
                f"table '{self.name}' is made from {', '.join(status.derived_from)}: no rows can be sent to it",
                fix=f"send events to {' or '.join(status.derived_from)}",
            )
        return status


def _as_rows(rows: Any) -> Iterable[Any]:
    """Mappings or values, of whatever holds some."""
    from headrace.ingest.tabular import as_table  # loads Arrow

    table = as_table(rows)
    if table is not None:
        return table.to_pylist()
    several = isinstance(rows, Iterable) and not isinstance(rows, Mapping | str | bytes)
    return rows if several else [rows]


def read_rows(path: Path, layout: Layout, status: TableStatus) -> Iterator[dict[str, Any]]:
    """The rows of a file, in any format and compression of events."""
    from headrace.ingest.formats.compression import unpack  # loads Arrow
    from headrace.ingest.formats.lines import read_lines  # loads Arrow
    from headrace.ingest.formats.source import LOOK_BYTES, ByteSource  # loads Arrow

    types, number = {column.name: column.type for column in status.columns}, 0
    try:
        with path.open("rb") as file:
            source = unpack(ByteSource(file))
            form = layout.format or format_of(path.name, source.look(LOOK_BYTES), JSON, types)
            for piece in read_lines(source, replace(layout, format=form), types):
                for line in filter(bytes.strip, piece.splitlines()):
                    number += 1
                    yield _object(line, number, path)
    except OSError as error:
        raise IngestError(f"'{path}' cannot be read: {error.strerror}", fix="nothing was changed") from error


def _object(line: bytes, number: int, path: Path) -> dict[str, Any]:
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        row = None
    if not isinstance(row, dict):
        raise IngestError(
            f"row {number} of '{path}' is not an object", found=repr(line[:60]), fix="nothing was changed"
        )
    return row
