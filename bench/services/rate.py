"""From a topic that was filled before to an answered view, beside the journal and other engines' connectors."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from bench.compare import OURS, Turn, check_contender
from bench.limits import LEAST_RATIOS, LEAST_SHARE, rate_against
from bench.ours.events import ONE_VIEW, STREAM, write_file
from bench.ours.figures import Figure, of_runs
from bench.ours.measure import start_empty_server
from bench.ours.progress import Progress
from bench.ours.turn import Files, check_rows, time_files
from bench.ours.usage import cpu_seconds
from bench.process import FLINK_KAFKA, SPARK_KAFKA, Contender, ContenderProcess
from bench.record import Part
from bench.services.broker import Broker, start_broker, stream
from bench.sizes import FullSizes
from headrace.api.connect import Connection, connect
from headrace.errors import HeadraceError
from headrace.tools.demo.shop_server import ShopServer

MOST_S = 900.0
FIELDS = "visitor STRING NOT NULL, page STRING, status INT, bytes BIGINT, at TIMESTAMP NOT NULL"
NAME = "topic to served answer"
OTHERS = (SPARK_KAFKA, FLINK_KAFKA)


def kafka_rate(sizes: FullSizes, progress: Progress) -> Part:
    """The journal and Kafka on one server by turns, then the connectors of other engines over the same topic."""
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name, start_broker() as broker:
        warm, files = Path(name) / "warm.ndjson", Path(name) / "visits.ndjson"
        write_file(warm, sizes.warm_events, seed=9)
        write_file(files, sizes.events)
        for topic, path in (("warm", warm), ("visits", files)):
            progress.tell(f"filling topic '{topic}'")
            broker.make_topic(topic)
            broker.fill(topic, [path])
        ours = progress.keep("Headrace", lambda: _our_turns(sizes, broker, warm, files, progress))
        others = {}
        for contender in OTHERS:
            if _can_run(contender, progress):
                others[contender.name] = progress.keep(contender.name, partial(_their_turn, contender, broker, files))
    return _part(sizes, ours, others)


def _our_turns(
    sizes: FullSizes, broker: Broker, warm: Path, file: Path, progress: Progress
) -> dict[str, list[dict[str, float]]]:
    """Seconds and CPU seconds of each round: of the journal, and of Kafka."""
    turns: dict[str, list[dict[str, float]]] = {"journal": [], "kafka": []}
    with start_empty_server(STREAM + ONE_VIEW) as server, connect(str(server.folder)) as connection:
        time_files(server, Files((warm,), sizes.warm_events))
        _time_topic(server, connection, broker, "warm", 0, sizes.warm_events)
        for number in range(1, sizes.rounds + 1):
            timing = time_files(server, Files((file,), sizes.events))
            turns["journal"].append({"seconds": timing.seconds, "cpu_s": timing.cpu_s})
            turns["kafka"].append(_time_topic(server, connection, broker, "visits", number, sizes.events))
            check_rows(connection, f"traffic_{number}", [file])
            rates = [f"{name} {sizes.events / turn[-1]['seconds']:,.0f} events/s" for name, turn in turns.items()]
            progress.tell(f"round {number}: {', '.join(rates)}")
    return turns


def _time_topic(
    server: ShopServer, connection: Connection, broker: Broker, topic: str, number: int, events: int
) -> dict[str, float]:
    """Apply a stream over a topic with a view, and wait until its answer has all events."""
    definition = stream(f"topic_{number}", topic, broker, FIELDS)
    definition += ONE_VIEW.replace("traffic", f"traffic_{number}").replace("FROM visits", f"FROM topic_{number}")
    (server.folder / "definitions" / f"topic_{number}.sql").write_text(definition)
    before_s = cpu_seconds(server.pid)
    start = time.monotonic()
    connection.apply()
    _wait_until(lambda: _count_events(connection, f"topic_{number}") >= events, f"stream 'topic_{number}'", start)
    # Only then, since each of these questions reads all rows of the view.
    _wait_until(lambda: _hits(connection, f"traffic_{number}") >= events, f"view 'traffic_{number}'", start)
    connection.ask(f"traffic_{number}", key={"page": "/p/1"}, window="1h")
    return {"seconds": time.monotonic() - start, "cpu_s": cpu_seconds(server.pid) - before_s}


def _wait_until(is_complete: Callable[[], bool], owner: str, start: float) -> None:
    while not is_complete():
        if time.monotonic() - start > MOST_S:
            raise HeadraceError(f"{owner} did not have all events of the topic within {MOST_S:.0f} s")
        time.sleep(0.02)


def _count_events(connection: Connection, stream: str) -> int:
    return sum(status.events or 0 for status in connection.verbs.streams() if status.name == stream)


def _hits(connection: Connection, view: str) -> int:
    """How many events a stream has, and its view, too; 0 while the view is being made."""
    try:
        answer = connection.ask(view, by=(), window="1h")
    except HeadraceError as error:
        if error.code == "not_found":
            raise
        return 0
    at = [name for name, _ in answer.columns].index("hits")
    return sum(row[at] for row in answer.values)


def _can_run(contender: Contender, progress: Progress) -> bool:
    if not contender.is_installed:
        progress.tell(f"skipped: {contender.name} is not installed; `scripts/contenders kafka` installs it")
    return contender.is_installed


def _their_turn(contender: Contender, broker: Broker, file: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as name:
        folders = [Path(name) / part for part in ("process", "warm", "run")]
        for folder in folders:
            folder.mkdir()
        with ContenderProcess(contender, folders[0]) as process:
            process.run([], folders[1], servers=broker.servers, topic="warm")
            seconds, cpu_s = process.run([], folders[2], servers=broker.servers, topic="visits")
            check_contender(contender, folders[2] / "rows.csv", [file])
            return vars(Turn(seconds, cpu_s, process.version))


def _part(sizes: FullSizes, ours: dict[str, Any], others: dict[str, Any]) -> Part:
    rates = {name: [sizes.events / turn["seconds"] for turn in turns] for name, turns in ours.items()}
    shares = [100 * kafka / journal for kafka, journal in zip(rates["kafka"], rates["journal"], strict=True)]
    spread = f"{min(shares):.0f} to {max(shares):.0f} % in {len(shares)} pairs"
    figures = [
        of_runs(NAME, rates["kafka"], "events/s"),
        of_runs("file to served answer, by the journal of the same server", rates["journal"], "events/s"),
        Figure(f"{NAME}, against the journal", median(shares), "%", spread, LEAST_SHARE),
    ]
    for name, turn in others.items():
        ratio = turn["seconds"] / median(one["seconds"] for one in ours["kafka"])
        rate = f"{sizes.events / turn['seconds']:,.0f} events/s"
        figures.append(Figure(rate_against(name), ratio, "x", rate, LEAST_RATIOS.get(name)))
    return Part(figures, {"ours": ours, "others": others, "sizes": asdict(sizes), "name": OURS})
