"""A child without the check of SQL: runs any SQL after it has sandboxed itself.

`python -m tests.surfaces.unchecked_child`: a JSON list of statements on standard input, a JSON line for each on
standard output: its rows, or its error as it is and as a user would see it. Then what its Python can still do.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable

import orjson

from headrace.serve.sql.child import _describe_error, _open_database, forbid_opening, limit_from_start, limit_query

TIMEOUT_S = 60
BY_PYTHON: list[Callable[[], object]] = [
    lambda: os.open("/dev/null", os.O_RDONLY),
    lambda: os.listdir("/"),
    lambda: socket.socket(),
    lambda: subprocess.run(["true"], check=False),
    lambda: os.open("here.txt", os.O_CREAT | os.O_WRONLY),
    lambda: os.environ["PATH"],
]


def main() -> None:
    statements = orjson.loads(sys.stdin.buffer.read())
    os.environ.clear()
    limit_from_start()
    connection = _open_database()
    connection.execute("CREATE TABLE kept AS SELECT 'home' AS page, 1 AS hits").fetchall()
    limit_query(512, TIMEOUT_S)
    connection.execute("SET lock_configuration = true").fetchall()
    forbid_opening(TIMEOUT_S, 1)
    for statement in statements:
        cursor = connection.cursor()
        cursor.execute("CREATE OR REPLACE TABLE traffic AS FROM kept").fetchall()
        try:
            reply = {"rows": str(cursor.execute(statement).fetchall())}
        except Exception as error:
            reply = {"error": str(error), "message": _describe_error(error, statement)["message"]}
        cursor.close()
        os.write(1, orjson.dumps(reply) + b"\n")
    for attempt in BY_PYTHON:
        try:
            reply = {"rows": str(attempt())}
        except (OSError, KeyError) as error:
            reply = {"error": type(error).__name__}
        os.write(1, orjson.dumps(reply) + b"\n")


if __name__ == "__main__":
    main()
