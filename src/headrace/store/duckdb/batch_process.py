"""Work of the batch layer in a process of its own: sketches hold its lock, not the server's, and memory is its own.

Started as `python -m headrace.store.duckdb.batch_process`: a job as one line of JSON on standard input, which stays
open for as long as somebody waits for the result; one line of JSON on standard output.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from headrace import errors
from headrace.define.fingerprint import from_json, to_json
from headrace.define.model import View
from headrace.errors import HeadraceError, UnavailableError
from headrace.spark.failures import one_line
from headrace.store.duckdb.batch_table import MEMORY_MB, Made, put_in_place, write_unfinished
from headrace.store.duckdb.layer_audit import compare
from headrace.store.duckdb.table_view_audit import compare_with_rows
from headrace.store.store_contract import Comparison, Drift

NICE = 10  # below the server and its Spark workers
LOOK_S = 0.05  # how often it is asked whether to stop


def make_in_child(
    view: View,
    target: Path,
    *,
    partials: Sequence[Path],
    earlier: Sequence[Path],
    memory_mb: int = MEMORY_MB,
    threads: int = 1,
    stopping: Callable[[], bool] = lambda: False,
) -> Made:
    """`make_batch_table` in a process of its own. UnavailableError, with nothing changed, when it is stopped."""
    job = {
        "view": to_json(view),
        "target": str(target),
        "partials": [str(path) for path in partials],
        "earlier": [str(path) for path in earlier],
        "memory_mb": memory_mb,
        "threads": threads,
    }
    content = Made(**_ask(job, f"view '{view.name}': batch table '{target}' cannot be made", stopping))
    put_in_place(view, target)  # here, and not by a process that may outlive the caller
    return content


def compare_in_child(
    view: View,
    speed: Path,
    partials: Sequence[Path],
    *,
    corrections: bool = True,
    memory_mb: int = MEMORY_MB,
    threads: int = 1,
    stopping: Callable[[], bool] = lambda: False,
) -> Comparison:
    """`compare` in a process of its own. UnavailableError when it is stopped."""
    job = {
        "view": to_json(view),
        "speed": str(speed),
        "partials": [str(path) for path in partials],
        "corrections": corrections,
        "memory_mb": memory_mb,
        "threads": threads,
    }
    return _comparison(_ask(job, f"view '{view.name}': its two layers cannot be compared", stopping))


def compare_with_rows_in_child(
    view: View,
    folder: Path,
    *,
    memory_mb: int = MEMORY_MB,
    threads: int = 1,
    stopping: Callable[[], bool] = lambda: False,
) -> Comparison:
    """`compare_with_rows` in a process of its own. UnavailableError when it is stopped."""
    job = {"view": to_json(view), "folder": str(folder), "memory_mb": memory_mb, "threads": threads}
    return _comparison(_ask(job, f"view '{view.name}' cannot be computed again", stopping))


def _comparison(reply: Mapping[str, Any]) -> Comparison:
    return Comparison(reply["rows"], reply["events"], tuple(Drift(**drift) for drift in reply["drift"]))


def _ask(job: Mapping[str, Any], what: str, stopping: Callable[[], bool]) -> dict[str, Any]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-s", "-m", "headrace.store.duckdb.batch_process"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the caller
    )
    try:
        out, stderr = _wait(process, orjson.dumps(job) + b"\n", what, stopping)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    try:
        result: dict[str, Any] = orjson.loads(out)
    except ValueError as error:
        last = stderr.decode(errors="replace").strip().splitlines()[-1:]
        reason = last[0] if last else f"its process ended with {process.returncode}"
        raise UnavailableError(what, found=reason, fix="nothing was changed; Headrace retries automatically") from error
    if "error" in result:
        kind = getattr(errors, result.pop("error"))
        raise kind(**result)
    return result


def _wait(process: subprocess.Popen[bytes], job: bytes, what: str, stopping: Callable[[], bool]) -> tuple[bytes, bytes]:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.write(job)
    process.stdin.flush()
    outputs: dict[str, bytes] = {}
    pipes = {"out": process.stdout, "err": process.stderr}
    readers = [
        threading.Thread(target=lambda name=name, pipe=pipe: outputs.update({name: pipe.read()}), daemon=True)
        for name, pipe in pipes.items()
    ]
    for reader in readers:
        reader.start()
    while process.poll() is None:
        if stopping():
            raise UnavailableError(what, found="the server is stopping", fix="nothing was changed")
        readers[0].join(LOOK_S)
    for reader in readers:
        reader.join()
    return outputs["out"], outputs["err"]


def main() -> None:
    """Do one job and report its result."""
    os.nice(NICE)
    job = orjson.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_who_asked, daemon=True).start()
    try:
        result = asdict(_work(job))
    except HeadraceError as error:
        fields = {name: getattr(error, name) for name in ("message", "found", "expected", "fix")}
        result = {"error": type(error).__name__, **fields}
    except Exception as error:
        result = {"error": "HeadraceError", "message": f"{type(error).__name__}: {one_line(error)}"}
    sys.stdout.buffer.write(orjson.dumps(result))
    sys.stdout.buffer.flush()
    os._exit(0)  # with no teardown: the other thread still reads


def _end_with_who_asked() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


def _work(job: dict[str, Any]) -> Made | Comparison:
    view = from_json(job["view"])
    assert isinstance(view, View), "only views have batch tables"
    bounds = {"memory_mb": job["memory_mb"], "threads": job["threads"]}
    if "folder" in job:
        return compare_with_rows(view, Path(job["folder"]), **bounds)
    partials = [Path(path) for path in job["partials"]]
    if "speed" in job:
        return compare(view, Path(job["speed"]), partials, corrections=job["corrections"], **bounds)
    earlier = [Path(path) for path in job["earlier"]]
    return write_unfinished(view, Path(job["target"]), partials=partials, earlier=earlier, **bounds)


if __name__ == "__main__":
    main()
