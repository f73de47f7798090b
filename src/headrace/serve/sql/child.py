"""The process that runs a user's SELECT: receives the views over its socket, limits and sandboxes itself, answers,
exits.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from headrace.define.query_rules import QueryError, check, clarify, rewrite, select_columns
from headrace.duckdb_connections import open_duckdb
from headrace.errors import did_you_mean
from headrace.serve.sql.as_of_queries import extract_as_of, quoted
from headrace.serve.sql.child_wire import END, FORGET, JSON, RUN, SCHEMA, BrokenFrameError, Wire
from headrace.serve.sql.load_views import Loaded, load_view, read_view, register
from headrace.serve.sql.query_reads import find_reads, table_columns

NICENESS = 10
SPARE_S = 1.0  # after the deadline at which the parent kills it, in case the parent no longer runs


def _lower(which: int, to: int) -> None:
    hard = resource.getrlimit(which)[1]
    lowest = to if hard == resource.RLIM_INFINITY else min(to, hard)
    resource.setrlimit(which, (lowest, lowest))


def limit_from_start() -> None:
    """No core dumps, no writes to files, and a lower priority than the server."""
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, 0)
    os.nice(NICENESS)


def limit_query(memory_mb: int, timeout_s: float) -> None:
    """Limit the memory beyond what the process already uses, and the time by a signal that ends the process."""
    _lower(resource.RLIMIT_AS, _mapped_bytes() + (memory_mb << 20))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, timeout_s + SPARE_S)


def clear_time_limit() -> None:
    """Cancel the time limit, since no query is running."""
    signal.setitimer(signal.ITIMER_REAL, 0)


def forbid_opening(timeout_s: float, threads: int) -> None:
    """From now on no file, socket or process can be opened. Open ones stay usable."""
    _lower(resource.RLIMIT_CPU, int(time.process_time() + (timeout_s + SPARE_S) * threads) + 1)
    _lower(resource.RLIMIT_NPROC, 0)
    _lower(resource.RLIMIT_NOFILE, 0)


def _mapped_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 1 << 30  # not Linux: the mapped memory is unknown


LARGEST_FRAME = 1 << 30
ROWS_AT_ONCE = 2_048
BEGINNINGS = ("SELECT", "WITH", "FROM", "VALUES")  # first words of queries
COUNTING_S = 0.2  # time limit for counting rows that are not sent
SANDBOX: dict[str, Any] = {
    "enable_external_access": "false",
    "python_enable_replacements": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
    "allow_persistent_secrets": "false",
    "temp_directory": "",
    "max_temp_directory_size": "0B",
}
_OUT_OF_MEMORY = re.compile(r"Out of Memory|bad_alloc|malloc of size|realloc of size", re.IGNORECASE)
_SETTING = re.compile(r",? or SET \w+ ?= ?\w+[^.]*")  # advice that does not apply: settings are locked
_PATH = re.compile(r"(?:[A-Za-z]:|~|\.{1,2})?(?:[/\\][^\s/\\'\":;,()]+){2,}[/\\]?")


def main() -> None:
    """Serve queries until one has run, or the server closes the connection."""
    os.environ.clear()
    limit_from_start()
    wire = Wire(socket.socket(fileno=0), LARGEST_FRAME)
    connection = _open_database()
    wire.send_json({"ready": True})
    with contextlib.suppress(BrokenFrameError, ConnectionError):
        while not _serve(wire, connection, wire.expect(JSON).json()):
            clear_time_limit()


def _serve(wire: Wire, connection: duckdb.DuckDBPyConnection, request: dict[str, Any]) -> bool:
    """Whether the query ran. After a refused query nothing has changed, and the next one can be served."""
    try:
        limit_query(request["memory_mb"], request["timeout_s"])
        query, as_of_tables = extract_as_of(request["query"])
        tables = check(connection, query)
    except Exception as error:
        reply = _failure(error, request["query"])
        can_continue = "error" in reply
        wire.send_json({**reply, "again": can_continue})
        return not can_continue
    wire.send_json({"tables": tables.names, "own": tables.own, "as_of": [asdict(table) for table in as_of_tables]})
    reply = wire.expect(JSON).json()
    if reply == FORGET:
        return False
    try:
        _run(wire, connection, {**request, "query": query}, reply)
    except (BrokenFrameError, ConnectionError):
        raise
    except Exception as error:
        wire.send_json(_failure(error, request["query"]))
    return True


def _open_database() -> duckdb.DuckDBPyConnection:
    """An empty database in memory; a first query has loaded what DuckDB and Arrow load lazily."""
    threads = max(1, (os.cpu_count() or 1) // 2)
    connection = open_duckdb(threads=threads, **SANDBOX)
    connection.execute(
        "CREATE TABLE warm AS SELECT now() AS moment, 'x' AS text, 1.5::DECIMAL(38,0) AS number"
    ).fetchall()
    check(connection, "SELECT * FROM warm")
    warm = "SELECT date_trunc('hour', moment), upper(text), sum(number) FROM warm GROUP BY ALL ORDER BY 1"
    connection.sql(warm).to_arrow_reader(10).read_all().to_pylist()
    connection.execute("DROP TABLE warm").fetchall()
    return connection


def _run(wire: Wire, connection: duckdb.DuckDBPyConnection, request: dict[str, Any], reply: dict[str, Any]) -> None:
    threads = int(connection.execute("SELECT current_setting('threads')").fetchall()[0][0])
    connection.execute(f"SET memory_limit = '{int(request['memory_mb']) * 4 // 5}MB'").fetchall()
    merging = rewrite(connection, request["query"])
    logical = [(view, rewrite(connection, view["sql"])) for view in reply["logical"]]
    queries = {view["name"]: select_columns(text or view["sql"], view["columns"]) for view, text in logical}
    sketches = merging is not None or any(text is not None for _, text in logical)
    views = {view.name: view for view in map(read_view, reply["views"])}
    reads = find_reads(connection, merging or request["query"], list(views.values()), queries, sketches=sketches)
    if sketches:
        register(connection)
    wire.send_json({"reads": {name: asdict(of) for name, of in reads.items()}})
    loaded = {}
    while (reply := wire.expect(JSON).json()) != RUN:
        name = reply["view"]["name"]
        columns = table_columns(views[name], sketches=sketches)
        loaded[name] = load_view(connection, reply, _pieces(wire), sketches=sketches, columns=columns)
    for name, text in queries.items():
        _create_logical(connection, name, text)
    connection.execute("SET lock_configuration = true").fetchall()
    forbid_opening(request["timeout_s"], threads)
    try:
        _answer(wire, connection, request if merging is None else {**request, "query": merging}, loaded)
    except duckdb.BinderException as error:
        clearer = clarify(error) if merging is not None else None
        if clearer is None:
            raise
        raise clearer from error


def _create_logical(connection: duckdb.DuckDBPyConnection, name: str, query: str) -> None:
    """Create a logical view. It was checked when it was applied, against definitions whose builds may still run."""
    try:
        connection.execute(f"CREATE VIEW {quoted(name)} AS {query}").fetchall()
    except (duckdb.BinderException, duckdb.CatalogException) as error:
        raise QueryError(
            f"logical view '{name}' cannot be evaluated over the versions that serve now",
            found=_describe_error(error, query)["message"],
            fix="retry when the builds of the views that it reads are ready: `headrace views` shows them",
        ) from error


def _pieces(wire: Wire) -> Iterator[pa.RecordBatch]:
    schema = wire.expect(SCHEMA).schema()
    yield pa.RecordBatch.from_pylist([], schema)
    while (frame := wire.receive()).kind != END:
        yield frame.rows(schema)


def _answer(
    wire: Wire, connection: duckdb.DuckDBPyConnection, request: dict[str, Any], loaded: dict[str, Loaded]
) -> None:
    """Send the rows up to the limits of rows and bytes; without a limit of rows, all of them or an error."""
    limit, most_bytes = request["limit"], request["most_bytes"]
    result = connection.sql(request["query"])
    types = [str(of) for of in result.types]
    reader = result.to_arrow_reader(ROWS_AT_ONCE if limit is None else min(ROWS_AT_ONCE, limit + 1))
    wire.send_json({"types": types})
    wire.send_schema(reader.schema)
    row_count, remaining_bytes, truncated = 0, most_bytes, False
    more: int | None = 0
    for piece in reader:
        fitting = _fitting(piece, piece.num_rows if limit is None else limit - row_count, remaining_bytes)
        cut = fitting.num_rows < piece.num_rows
        if cut and limit is None:
            raise QueryError(
                "the answer is too large",
                found=f"{row_count:,} rows, and more to come",
                expected=f"at most {most_bytes >> 20} MB in all",
                fix="select less of it, or give a limit",
            )
        if cut and not fitting.num_rows and not row_count:
            raise QueryError(
                "a row of the result is too large",
                expected=f"at most {most_bytes >> 20} MB in all",
                fix="select less of it",
            )
        if fitting.num_rows:
            wire.send_rows(fitting)
        row_count, remaining_bytes = row_count + fitting.num_rows, remaining_bytes - fitting.nbytes
        if cut:
            truncated, more = True, _count(reader, piece.num_rows - fitting.num_rows)
            break
    wire.send_end()
    views = {name: asdict(table) for name, table in loaded.items()}
    wire.send_json({"truncated": truncated, "more_rows": more, "views": views})


def _count(reader: pa.RecordBatchReader, first: int) -> int | None:
    """How many rows are left out: `first` and all that the reader still has; None if counting takes long."""
    count, deadline = first, time.monotonic() + COUNTING_S
    for piece in reader:
        count += piece.num_rows
        if time.monotonic() > deadline:
            return None
    return count


def _fitting(piece: pa.RecordBatch, rows: int, size: int) -> pa.RecordBatch:
    """The first rows that stay within both bounds."""
    fits, over = 0, min(piece.num_rows, rows) + 1
    if piece.slice(0, over - 1).nbytes <= size:
        return piece.slice(0, over - 1)
    while over - fits > 1:
        middle = (fits + over) // 2
        fits, over = (middle, over) if piece.slice(0, middle).nbytes <= size else (fits, middle)
    return piece.slice(0, fits)


def _failure(error: Exception, query: str) -> dict[str, Any]:
    """The reply for a failure: of DuckDB, or of Arrow while rows are being sent, which may raise anything."""
    if isinstance(error, QueryError):
        return {"error": error.fields}
    if isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(str(error)):
        return {"limit": "memory"}
    return {"error": _describe_error(error, query)}


def _describe_error(error: Exception, query: str) -> dict[str, Any]:
    """DuckDB's message as one sentence, without paths that are not in the query."""
    text = str(error).split("Stack Trace")[0]
    line = re.search(r"^LINE (\d+):", text, re.MULTILINE)
    sentence = " ".join(text.split("\n\nLINE ")[0].split())[:600]
    sentence = re.sub(r"^(\w+ )+Error: ", "", sentence)
    sentence = _SETTING.sub("", sentence)
    sentence = _PATH.sub(lambda path: path[0] if path[0] in query else "…", sentence)
    has_lines = line and "\n" in query.strip()
    begin = query.split(maxsplit=1)[:1]
    is_misspelt = begin and f'syntax error at or near "{begin[0]}"' in sentence
    return {
        "message": sentence,
        "found": f"line {line[1]} of the query" if line and has_lines else None,
        "fix": did_you_mean(begin[0], BEGINNINGS) if is_misspelt else None,
    }


if __name__ == "__main__":
    main()
