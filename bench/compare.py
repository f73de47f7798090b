"""Headrace and the contenders over the same files, in turns: ratios, rates and CPU time."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import duckdb

from bench.limits import LEAST_RATIOS, rate_against
from bench.ours.events import ONE_VIEW, STREAM, lines
from bench.ours.figures import Figure
from bench.ours.progress import Progress
from bench.ours.turn import ROWS, Files, take_turn
from bench.process import CONTENDERS, DUCKDB, Contender, ContenderProcess
from bench.record import Part
from bench.sizes import FullSizes
from headrace.errors import HeadraceError
from headrace.spark.session import java_command

OURS = "Headrace"
EXPECTED = f"SELECT page, epoch(pane)::BIGINT AS pane, hits, bytes, largest FROM ({ROWS})"
DIFFERENCE = """SELECT count(*) FROM (
  (SELECT * FROM read_csv($rows) EXCEPT ALL SELECT * FROM expected)
  UNION ALL (SELECT * FROM expected EXCEPT ALL SELECT * FROM read_csv($rows)))"""


@dataclass(frozen=True)
class Turn:
    """What one contender took in one round."""

    seconds: float
    cpu_s: float
    version: str


def compare(sizes: FullSizes, progress: Progress) -> Part:
    """All contenders that are installed; each turn starts a process, warms it up, times it and ends it."""
    contenders = [contender for contender in CONTENDERS if contender.is_installed]
    for contender in CONTENDERS:
        if contender not in contenders:
            progress.tell(f"skipped: {contender.name} is not installed; scripts/contenders installs it")
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        progress.tell(f"{sizes.events:,} events in {sizes.files} files")
        warm = _write_files(Path(name) / "warm", sizes.warm_events, sizes.files, seed=9)
        files = _write_files(Path(name) / "files", sizes.events, sizes.files, seed=1)
        rounds = [_round(number, contenders, warm, files, progress) for number in range(sizes.rounds)]
    return Part(_figures(rounds, sizes), _data(rounds, sizes))


def _write_files(folder: Path, events: int, count: int, seed: int) -> Files:
    """The events of one seed, cut into files."""
    folder.mkdir()
    paths = tuple(folder / f"part-{number}.ndjson" for number in range(count))
    at = 0
    for batch in lines(events, seed):
        while batch:
            number = at * count // events
            end = -(-(number + 1) * events // count)  # the first event of the next file
            part, batch = batch[: end - at], batch[end - at :]
            at += len(part)
            with paths[number].open("a") as out:
                out.write("\n".join(part) + "\n")
    return Files(paths, events)


def _round(number: int, contenders: list[Contender], warm: Files, files: Files, progress: Progress) -> dict[str, Turn]:
    """One turn each. Each round begins with another one, so that none has a fixed place."""
    order: list[Contender | None] = [None, *contenders]  # None is Headrace itself
    at = number % len(order)
    turns: dict[str, Turn] = {}
    for contender in (*order[at:], *order[:at]):
        name = contender.name if contender else OURS

        def measure(contender: Contender | None = contender) -> dict[str, Any]:
            turn = _their_turn(contender, warm, files) if contender else _our_turn(warm, files)
            return vars(turn)

        turn = turns[name] = Turn(**progress.keep(f"round {number + 1}, {name}", measure))
        progress.tell(
            f"round {number + 1}, {name}: {files.events / turn.seconds:,.0f} events/s, {turn.cpu_s:.1f} s of CPU"
        )
    return turns


def _our_turn(warm: Files, files: Files) -> Turn:
    (timing,) = take_turn(STREAM + ONE_VIEW, [warm], [files])
    return Turn(timing.seconds, timing.cpu_s, f"Headrace {version('headrace')}")


def _their_turn(contender: Contender, warm: Files, files: Files) -> Turn:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folders = [Path(name) / part for part in ("process", "warm", "run")]
        for folder in folders:
            folder.mkdir()
        with ContenderProcess(contender, folders[0]) as process:
            process.run(list(warm.paths), folders[1])
            seconds, cpu_s = process.run(list(files.paths), folders[2])
            if contender != DUCKDB:
                check_contender(contender, folders[2] / "rows.csv", files.paths)
            return Turn(seconds, cpu_s, process.version)


def check_contender(contender: Contender, rows: Path, files: Sequence[Path]) -> None:
    """The rows of a contender must be those of DuckDB over the same files, each once."""
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE expected AS {EXPECTED}", {"files": [str(path) for path in files]})
        ((different,),) = connection.execute(DIFFERENCE, {"rows": str(rows)}).fetchall()
    if different:
        raise HeadraceError(f"{contender.name} and DuckDB differ in {different:,} rows over the same files")


def _figures(rounds: list[dict[str, Turn]], sizes: FullSizes) -> list[Figure]:
    figures = []
    for name in rounds[0]:
        if name != OURS:
            ratios = [turns[name].seconds / turns[OURS].seconds for turns in rounds]
            spread = f"{min(ratios):.2f} to {max(ratios):.2f} in {len(ratios)} rounds"
            figures.append(Figure(rate_against(name), median(ratios), "x", spread, LEAST_RATIOS.get(name)))
    return figures


def _data(rounds: list[dict[str, Turn]], sizes: FullSizes) -> dict[str, Any]:
    """A row per contender for the table, and all rounds."""
    table = []
    for name in (OURS, *(contender.name for contender in CONTENDERS)):
        turns = [turns[name] for turns in rounds if name in turns]
        if turns:
            rates = [sizes.events / turn.seconds for turn in turns]
            table.append(
                {
                    "name": name,
                    "version": turns[0].version,
                    "rate": median(rates),
                    "least": min(rates),
                    "most": max(rates),
                    "cpu_per_million": median(turn.cpu_s for turn in turns) / sizes.events * 1e6,
                }
            )
    return {
        "versions": [_java(), *(f"{name} {version(name)}" for name in ("pyspark", "pyarrow", "duckdb", "deltalake"))],
        "table": table,
        "rounds": [{name: vars(turn) for name, turn in turns.items()} for turns in rounds],
    }


def _java() -> str:
    """The version of Java."""
    ended = subprocess.run([java_command(), "-version"], capture_output=True, text=True, check=False)
    match = re.search(r'version "([^"]+)"', ended.stderr)
    return f"Java {match[1]}" if match else "Java"
