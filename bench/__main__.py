"""`python -m bench ours`, `full`, `check` and `page`: measure, compare with the committed results, write the page."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from bench.check import CHECKED, check_sizes, differences
from bench.compare import compare
from bench.growth import commits_growth, events_growth, keys_growth, width_growth
from bench.nexmark.run import nexmark
from bench.ours.progress import Progress
from bench.ours.run import PARTS as OURS
from bench.ours.run import print_figures, select_parts, teller
from bench.page import SERVICES, write_page
from bench.record import RESULTS, ROOT, STATE, Part, Results, Run
from bench.services.fresh import kafka_freshness
from bench.services.rate import kafka_rate
from bench.services.subscribers import subscribers
from bench.sizes import TINY, FullSizes, Sizes
from headrace.errors import HeadraceError, UnavailableError
from headrace.logs import configure

Measure = Callable[[FullSizes, Progress], Part]


def _ours(part: str, sizes: FullSizes, progress: Progress) -> Part:
    """A part of the benchmark of Headrace alone."""
    return Part(OURS[part](sizes.ours, progress), {})


PARTS: Mapping[str, Measure] = {
    "compare": compare,
    **{part: partial(_ours, part) for part in OURS},
    "nexmark": nexmark,
    "growth-events": events_growth,
    "growth-keys": keys_growth,
    "growth-commits": commits_growth,
    "growth-width": width_growth,
    "kafka": kafka_rate,
    "kafka-freshness": kafka_freshness,
    "subscribers": subscribers,
}
LONG = (
    "many-views",
    "unique",
    "lake",
    "builds",
    "steady",
    "edits",
)  # these are measured if --only names them: they take a quarter of an hour


def main(arguments: list[str]) -> int:
    """Run a command; the exit code: 1 if a figure misses its limit or is worse, 2 after an error."""
    options = _parser().parse_args(arguments)
    configure("warning")
    try:
        if options.command == "page":
            write_page(Results(options.results), options.docs)
            return 0
        if options.command == "ours":
            sizes = replace(Sizes(), events=options.events, seconds=options.seconds)
            return print_figures(sizes, options.only, as_json=options.json)
        return _check(options) if options.command == "check" else _full(options)
    except HeadraceError as error:
        sys.stderr.write(f"bench: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("bench: interrupted; the same command continues this run\n")
        return 130


def measure(parts: list[str], sizes: FullSizes, run: Run, results: Results, optional: Collection[str] = ()) -> None:
    """Measure parts and put each into the results as it ends; an optional one is skipped if its service is missing."""
    for part in parts:
        if not run.begin(part):
            run.tell(f"{part}: measured before the interruption")
            continue
        run.tell(f"part {part}")
        start = time.monotonic()
        try:
            measured = PARTS[part](sizes, run)
        except UnavailableError as error:
            if part not in optional:
                raise
            run.tell(f"skipped: {part}: {error}")
            continue
        results.put(part, measured, asdict(sizes), time.monotonic() - start)
        run.finish(part)
    run.end()


def _full(options: argparse.Namespace) -> int:
    """Measure, and write the results and the page."""
    sizes = _sizes(options, TINY if options.tiny else FullSizes())
    parts = select_parts(options.only, PARTS)
    if not options.only:
        parts = [part for part in parts if part not in (*LONG, *SERVICES)]
    tell = teller()
    results = Results(options.results)
    measure(parts, sizes, Run(tell, options.state, sizes, restart=options.restart), results)
    write_page(results, options.docs)
    figures = [figure for part in parts for figure in results.figures(part)]
    for figure in figures:
        if figure.passes is False:
            tell(f"misses its limit: {figure.name}: {figure.text}, {figure.bar_text}")
    return 1 if any(figure.passes is False for figure in figures) else 0


def _check(options: argparse.Namespace) -> int:
    """Compare the ratios of a shorter run with the committed ones."""
    tell, committed = teller(), Results(options.results)
    parts = [part for part in select_parts(options.only, CHECKED) if committed.figures(part)]
    if not parts:
        raise HeadraceError(f"{options.results} has no results to compare with", fix="`make bench-full` writes them")
    sizes = _sizes(options, TINY if options.tiny else check_sizes(committed))
    path = options.state.with_name("check-results.json")
    path.unlink(missing_ok=True)
    fresh = Results(path)
    state = options.state.with_name("check.json")
    optional = () if options.only else SERVICES
    measure(parts, sizes, Run(tell, state, sizes, restart=options.restart), fresh, optional)
    worse = 0
    for line, is_worse in differences(committed, fresh, options.tolerance, parts):
        worse += is_worse
        sys.stdout.write(f"{'worse' if is_worse else 'ok   '}  {line}\n")
    return 1 if worse else 0


def _sizes(options: argparse.Namespace, base: FullSizes) -> FullSizes:
    """The sizes, with those that an option sets."""
    ours = base.ours
    if options.own_events:
        ours = replace(ours, events=options.own_events)
    if options.own_rounds:
        ours = replace(ours, rounds=options.own_rounds)
    if options.seconds:
        ours = replace(ours, seconds=options.seconds)
    return replace(base, events=options.events or base.events, rounds=options.rounds or base.rounds, ours=ours)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    text = "measure Headrace alone, and print the figures; all parts take half an hour"
    ours = commands.add_parser("ours", help=text, description=text)
    ours.add_argument("--only", action="append", metavar="PART", help=f"part to measure: {', '.join(OURS)}")
    ours.add_argument("--events", type=_at_least(20_000, int), default=Sizes.events, help="events of one file")
    text = "how long events are sent to measure freshness"
    ours.add_argument("--seconds", type=_at_least(5, float), default=Sizes.seconds, help=text)
    ours.add_argument("--json", action="store_true", help="print JSON")
    for name, text in (
        ("full", "measure, and write the results and the page"),
        ("check", "compare the ratios of a shorter run with the committed results"),
        ("page", "write the page from the results"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--results", type=Path, default=RESULTS, help="file of the results")
        command.add_argument("--docs", type=Path, default=ROOT / "docs", help="folder of the page and its plots")
        if name == "page":
            continue
        command.add_argument("--only", action="append", metavar="PART", help=f"part to measure: {', '.join(PARTS)}")
        command.add_argument("--tiny", action="store_true", help="sizes that only show that everything works")
        command.add_argument("--events", type=int, help="events of the comparison")
        command.add_argument("--rounds", type=int, help="rounds of the comparison")
        command.add_argument("--own-events", type=int, help="events of a file in the other parts")
        command.add_argument("--own-rounds", type=int, help="rounds of the other parts")
        command.add_argument("--seconds", type=float, help="how long events are sent to measure freshness")
        command.add_argument("--restart", action="store_true", help="do not continue an interrupted run")
        command.add_argument("--state", type=Path, default=STATE, help="file of the state of an unfinished run")
        if name == "check":
            command.add_argument("--tolerance", type=float, default=0.25, help="by how much a ratio may be worse")
    return parser


def _at_least(least: int, read: Callable[[str], Any]) -> Callable[[str], Any]:
    """Reads a number that is not smaller."""

    def number(text: str) -> Any:
        value = read(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least:,}")
        return value

    return number


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # servers and contenders are then ended, too
    sys.exit(main(sys.argv[1:]))
