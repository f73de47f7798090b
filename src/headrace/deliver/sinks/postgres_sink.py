"""Writes a sink to a table of PostgreSQL, exactly once: the rows and the sink's cursor are one transaction.

The cursor is a row of the table `headrace_sinks`, in the schema of the sink's table. It is locked before anything is
written, so that a process that was paused cannot write after another one has taken over, and it tells after a lost
connection whether the last COMMIT took effect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import xxhash
from psycopg import Connection, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headrace.define.connectors import POSTGRES, value_of
from headrace.define.model import Mode, Sink
from headrace.deliver.sinks.postgres_errors import explained
from headrace.deliver.sinks.postgres_table import (
    EVENTS,
    KEY,
    ROWS,
    SETTLED_ROWS,
    CopyRows,
    TableName,
    TableShape,
    ensure_table,
    table_number,
)
from headrace.deliver.sinks.sink_writer import DestinationError, SinkBatch
from headrace.faults import fault_point
from headrace.language.durations import parse_duration
from headrace.secrets import reveal, shown

PROGRESS = "headrace_sinks"
BATCH = "headrace_batch"  # a temporary table
STAGE = "headrace_stage_"  # + sink: the rows of a new version, until all of them are there
LOCK_TIMEOUT_MS = 30_000
KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "tcp_user_timeout": 30_000}


@dataclass(frozen=True)
class PostgresTarget:
    """Where a sink writes to, and as what."""

    workspace: str
    sink: str
    url: str  # or a reference to a secret
    table: TableName
    mode: Mode
    password: str | None = None
    connect_timeout_ms: int = 10_000

    @classmethod
    def of(cls, sink: Sink, workspace: str) -> PostgresTarget:
        """By the options of a sink."""
        timeout_ms = parse_duration(value_of(sink.options, POSTGRES, "connect.timeout"))
        table = TableName.parse(sink.get("table") or "", sink.name)
        return cls(workspace, sink.name, sink.get("url") or "", table, sink.mode, sink.get("password"), timeout_ms)


@dataclass(frozen=True)
class RecordedProgress:
    """The sink's row of `headrace_sinks`."""

    cursor: str | None
    staged: bool  # a new version is arriving in the staging table


class PostgresWriter:
    """A table that holds the rows of a view, or the events of a stream."""

    unfinished: bool = False

    def __init__(self, sink: Sink, workspace: str) -> None:
        self._target = PostgresTarget.of(sink, workspace)
        self._connection: Connection[Any] | None = None
        self._cursor: str | None = None
        self._checked: TableShape | None = None  # what the table was checked for

    def resume(self) -> str | None:
        """The cursor in the database; None if the sink has written nothing there, or its table was dropped."""
        with self._explained() as connection, connection.transaction():
            self._ensure_progress(connection)
            progress = self._lock(connection)
            if progress.cursor is not None and table_number(connection, self._target.table) is None:
                progress = RecordedProgress(None, staged=False)
                self._record(connection, progress)
        self._cursor, self.unfinished = progress.cursor, progress.staged
        return self._cursor

    def write(self, batch: SinkBatch) -> None:
        """Write the rows and the cursor; a batch that is there already is not written again."""
        with self._explained() as connection:
            with connection.transaction():
                staged = self._write(connection, batch)
                fault_point("sink.before_commit")
            fault_point("sink.after_commit")
        self._cursor, self.unfinished = batch.cursor, staged

    def forget(self) -> None:
        """Remove the sink's row of `headrace_sinks` and what is staged; its table stays."""
        target = self._target
        with self._explained() as connection, connection.transaction():
            if table_number(connection, self._progress) is not None:
                statement = sql.SQL("DELETE FROM {} WHERE workspace = %s AND sink = %s").format(self._progress.quoted)
                connection.execute(statement, [target.workspace, target.sink])
            connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(self._stage.quoted))

    def close(self) -> None:
        """Close the connection; an open transaction is rolled back."""
        connection, self._connection = self._connection, None
        self._checked = None
        if connection is not None:
            connection.close()

    # One transaction

    def _write(self, connection: Connection[Any], batch: SinkBatch) -> bool:
        """Write, unless it is there already; returns whether a new version is still arriving."""
        progress = self._lock(connection)
        if progress.cursor == batch.cursor:
            return progress.staged  # the connection was lost after the COMMIT, before its reply came
        if progress.cursor != self._cursor:
            raise DestinationError(
                f"sink '{self._target.sink}': another process has written to table {self._target.table}",
                fix="it continues from there; if two workspaces have this name, rename the folder of one",
            )
        # Rows of another definition of the sink, or from before it was created, are replaced.
        first = _identity(progress.cursor) != _identity(batch.cursor)
        own = ROWS if self._target.mode != "append" else SETTLED_ROWS if batch.keys else EVENTS
        rows = CopyRows(batch, TableShape(batch.columns, own))
        self._ensure(connection, rows.shape)
        if self._target.mode == "append":
            self._copy(connection, self._target.table.quoted, rows)
            staged = False
        else:
            staged = self._merge(connection, batch, rows, progress, first=first)
        self._record(connection, RecordedProgress(batch.cursor, staged))
        return staged

    def _merge(
        self, connection: Connection[Any], batch: SinkBatch, rows: CopyRows, progress: RecordedProgress, *, first: bool
    ) -> bool:
        """Upsert and delete; returns whether a new version is still arriving in the staging table."""
        starts = batch.snapshot and (batch.restarted or first) and self._has_rows(connection)
        if starts and not batch.more:
            connection.execute(sql.SQL("DELETE FROM {}").format(self._target.table.quoted))
            self._upsert(connection, self._target.table.quoted, rows)
            return False
        if starts:
            self._make_stage(connection, rows)
        if starts or (progress.staged and batch.snapshot):
            self._upsert(connection, self._stage.quoted, rows)
            if not batch.more:
                self._swap(connection, rows)
            return batch.more
        if progress.staged:
            self._swap(connection, rows)
        self._upsert(connection, self._target.table.quoted, rows)
        return False

    def _upsert(self, connection: Connection[Any], table: sql.Identifier, rows: CopyRows) -> None:
        if rows.deleted:
            connection.execute(
                sql.SQL("DELETE FROM {} WHERE {} = ANY(%s::uuid[])").format(table, sql.Identifier(KEY)), [rows.deleted]
            )
        if not rows.values:
            return
        if not rows.shape.keyed:
            self._copy(connection, table, rows)
            return
        connection.execute(
            sql.SQL("CREATE TEMPORARY TABLE {} ({}) ON COMMIT DROP").format(sql.Identifier(BATCH), rows.declared)
        )
        self._copy(connection, sql.Identifier(BATCH), rows)
        updates = sql.SQL(", ").join(
            sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in rows.names if name != KEY
        )
        connection.execute(
            sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} ON CONFLICT ({}) DO UPDATE SET {}").format(
                table, rows.quoted, rows.quoted, sql.Identifier(BATCH), sql.Identifier(KEY), updates
            )
        )

    def _copy(self, connection: Connection[Any], table: sql.Identifier, rows: CopyRows) -> None:
        statement = sql.SQL("COPY {} ({}) FROM STDIN").format(table, rows.quoted)
        with connection.cursor() as cursor, cursor.copy(statement) as copy:
            for values in rows.values:
                copy.write_row(values)

    # The staging table: a new version replaces the old one in one transaction, however many batches it takes

    @property
    def _stage(self) -> TableName:
        name = f"{self._target.workspace}/{self._target.sink}"
        return TableName(self._target.table.schema, STAGE + xxhash.xxh3_64_hexdigest(name.encode()))

    def _make_stage(self, connection: Connection[Any], rows: CopyRows) -> None:
        connection.execute(sql.SQL("DROP TABLE IF EXISTS {}").format(self._stage.quoted))
        connection.execute(sql.SQL("CREATE TABLE {} ({})").format(self._stage.quoted, rows.declared))
        if rows.shape.keyed:
            connection.execute(
                sql.SQL("ALTER TABLE {} ADD PRIMARY KEY ({})").format(self._stage.quoted, sql.Identifier(KEY))
            )

    def _swap(self, connection: Connection[Any], rows: CopyRows) -> None:
        table, stage = self._target.table.quoted, self._stage.quoted
        connection.execute(sql.SQL("DELETE FROM {}").format(table))
        connection.execute(
            sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {}").format(table, rows.quoted, rows.quoted, stage)
        )
        connection.execute(sql.SQL("DROP TABLE {}").format(stage))

    def _has_rows(self, connection: Connection[Any]) -> bool:
        row = connection.execute(sql.SQL("SELECT 1 FROM {} LIMIT 1").format(self._target.table.quoted)).fetchone()
        return row is not None

    # Progress

    @property
    def _progress(self) -> TableName:
        return TableName(self._target.table.schema, PROGRESS)

    def _ensure_progress(self, connection: Connection[Any]) -> None:
        if table_number(connection, self._progress) is not None:
            return
        # Of two that create a table at once, one would fail in spite of IF NOT EXISTS.
        connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", [PROGRESS])
        connection.execute(
            sql.SQL(
                "CREATE TABLE IF NOT EXISTS {} (workspace text, sink text, target text NOT NULL,"
                " cursor text, staged boolean NOT NULL DEFAULT false, written_at timestamptz NOT NULL DEFAULT now(),"
                " PRIMARY KEY (workspace, sink))"
            ).format(self._progress.quoted)
        )

    def _lock(self, connection: Connection[Any]) -> RecordedProgress:
        """The sink's progress, which no other transaction can change until the end of this one."""
        target = self._target
        connection.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}")
        row = self._read(connection)
        if row is None:
            connection.execute(
                sql.SQL("INSERT INTO {} (workspace, sink, target) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING").format(
                    self._progress.quoted
                ),
                [target.workspace, target.sink, str(target.table)],
            )
            row = self._read(connection)
        return RecordedProgress(*row) if row else RecordedProgress(None, staged=False)

    def _read(self, connection: Connection[Any]) -> tuple[str | None, bool] | None:
        statement = sql.SQL("SELECT cursor, staged FROM {} WHERE workspace = %s AND sink = %s FOR UPDATE").format(
            self._progress.quoted
        )
        return connection.execute(statement, [self._target.workspace, self._target.sink]).fetchone()

    def _record(self, connection: Connection[Any], progress: RecordedProgress) -> None:
        target = self._target
        connection.execute(
            sql.SQL(
                "UPDATE {} SET cursor = %s, staged = %s, target = %s, written_at = now()"
                " WHERE workspace = %s AND sink = %s"
            ).format(self._progress.quoted),
            [progress.cursor, progress.staged, str(target.table), target.workspace, target.sink],
        )

    # Table and connection

    def _ensure(self, connection: Connection[Any], shape: TableShape) -> None:
        if self._checked == shape:
            return
        if shape.keyed:
            self._refuse_shared(connection)
        ensure_table(connection, self._target.table, shape, self._target.sink)
        self._checked = shape

    def _refuse_shared(self, connection: Connection[Any]) -> None:
        target = self._target
        row = connection.execute(
            sql.SQL(
                "SELECT workspace, sink FROM {} WHERE target = %s AND (workspace, sink) <> (%s, %s)"
                " AND cursor IS NOT NULL LIMIT 1"
            ).format(self._progress.quoted),
            [str(target.table), target.workspace, target.sink],
        ).fetchone()
        if row is not None:
            workspace, sink = (each.replace("'", "''") for each in row)
            raise DestinationError(
                f"sink '{target.sink}': table {target.table} belongs to sink '{sink}' of workspace '{workspace}'",
                fix=f"name another table; if that sink is gone, write DELETE FROM {self._progress.text}"
                f" WHERE workspace = '{workspace}' AND sink = '{sink}'",
            )

    @contextmanager
    def _explained(self) -> Iterator[Connection[Any]]:
        """A connection; an error of PostgreSQL becomes one sentence, and the next call connects anew."""
        try:
            yield self._connected()
        except psycopg.Error as error:
            self._drop()
            raise explained(error, self._target.sink, str(self._target.table), self._place()) from None
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        try:
            self.close()
        except psycopg.Error:
            self._connection = None

    def _connected(self) -> Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._checked = None
            # Statements are not prepared: behind a pooler each may meet another session.
            self._connection = psycopg.connect(self._address(), prepare_threshold=None, autocommit=True)
        return self._connection

    def _address(self) -> str:
        """What libpq connects by; the one place where the password is known."""
        target = self._target
        options: dict[str, Any] = {"application_name": f"headrace {target.sink}"}
        options |= {"connect_timeout": max(2, -(-target.connect_timeout_ms // 1000)), **KEEPALIVE}
        url = reveal(target.url)
        try:
            parts = conninfo_to_dict(url)
            if not re.fullmatch(r"[\d,]*", str(parts.get("port") or "")):
                raise psycopg.Error  # of a password with a /, libpq takes the beginning for the port
        except psycopg.Error:  # its text would repeat the URL
            raise DestinationError(
                f"sink '{target.sink}': the option 'url' is not the address of a database",
                found=shown("url", target.url) if url != target.url else None,
                expected="postgresql://user:password@host:5432/database, with %2F for / in a password",
            ) from None
        if target.password is not None:
            options["password"] = reveal(target.password)
        return make_conninfo(url, **{name: value for name, value in options.items() if name not in parts})

    def _place(self) -> str:
        """Host, port and database of the URL, for messages."""
        try:
            parts = conninfo_to_dict(reveal(self._target.url))
        except Exception:
            return "PostgreSQL"
        port = parts.get("port") or 5432
        return f"{parts.get('host') or 'localhost'}:{port}/{parts.get('dbname') or parts.get('user') or ''}"


def _identity(cursor: str | None) -> str | None:
    """What the sink sends, as its cursor begins with: another definition has another one."""
    return cursor.partition(":")[0] if cursor else None
