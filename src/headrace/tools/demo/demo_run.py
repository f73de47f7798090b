"""`headrace demo`: a shop's traffic through the real server, shown live, then checked row by row."""

from __future__ import annotations

import io
import re
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.live import Live

from headrace.errors import HeadraceError, UnavailableError, WorkspaceError
from headrace.spark.session import java_command
from headrace.tools.demo.final_check import RunReport, check_run
from headrace.tools.demo.live_edit import LiveEdit, late_visit, send_late
from headrace.tools.demo.run_figures import Figures, StreamFigures
from headrace.tools.demo.screen import plain_line, plain_step, print_failure, print_result, render_page
from headrace.tools.demo.shop_server import ServerReader, ShopServer, make_workspace, shop_definitions, shop_tests
from headrace.tools.demo.traffic import STREAMS, TICK_S, Traffic
from headrace.tools.demo.traffic_sender import TrafficSender

UPDATE_EVERY_S = 0.5
LINE_S = 2.0
COMPLETE_S = 60.0
JOIN_S = 5.0
EDIT_AT = 0.25  # the share of the flow after which the view is edited
INTERRUPTED = 130

Show = Callable[[], None]
WIDTH = 118
# Installed fonts only, so that the picture loads nothing from the network.
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono'"


def run(
    console: Console,
    *,
    seconds: float = 22.0,
    rate: int = 4_000,
    seed: int = 7,
    keep: Path | None = None,
    json: bool = False,
    picture: Path | None = None,
) -> int:
    """Run the demo; the exit code. `keep` names a new folder for the workspace, else it is temporary."""
    traffic = Traffic(seed=seed, seconds=seconds, rate=rate)
    figures = Figures(seed=seed, flow_s=traffic.ticks * TICK_S)
    java_command()  # fails before anything is created if Java is missing
    folder = _make_folder(keep)
    server = None
    code = 1
    try:
        make_workspace(folder, shop_definitions(), shop_tests())
        with _signals_as_interrupt(), _display(console, figures, quiet=json) as show:
            server = ShopServer(folder)
            report = _flow_and_check(server, traffic, figures, show)
        code = 0 if report.ok else 1
        print_result(console, report, figures, json=json)
        if picture is not None:
            record(report, figures, picture)
    except HeadraceError as error:
        code = error.exit_code
        print_failure(console, error, folder, json=json)
    except KeyboardInterrupt:
        code = INTERRUPTED
        console.print("interrupted; nothing was checked", style="yellow")
    finally:
        if server is not None:
            server.stop()
        keep_folder = keep is not None or code not in (0, INTERRUPTED)
        if not keep_folder:
            shutil.rmtree(folder, ignore_errors=True)
    if keep_folder and server is not None and not json:
        console.print(f"the workspace is in {folder}, the server log in {server.log}", soft_wrap=True)
    return code


def _flow_and_check(server: ShopServer, traffic: Traffic, figures: Figures, show: Show) -> RunReport:
    server.wait_until_ready(show)
    figures.url = server.url
    reader = ServerReader(server.url)
    go, stopping = threading.Event(), threading.Event()
    senders = [TrafficSender(server.url, name, traffic.batches(name), go=go, stopping=stopping) for name in STREAMS]
    figures.streams = [StreamFigures(sender.stream, sender.tally) for sender in senders]
    edit_begins = threading.Event()
    edit = LiveEdit(server.url, server.folder / "definitions" / "shop.sql", begin=edit_begins, stopping=stopping)
    figures.edit = edit
    try:
        _note(figures, "sending the first events", show)
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.first_reply.wait()
        _raise_first(senders)
        _wait(server, figures, reader, show)
        _note(figures, "sending events", show)
        figures.flowing_since = time.monotonic()
        edit.start()
        go.set()
        while any(sender.is_alive() for sender in senders) or (edit.is_alive() and not edit.swapped):
            _update(server, figures, reader, show)
            _raise_first([*senders, edit])
            if figures.flowed >= EDIT_AT:
                edit_begins.set()
            if figures.flowed == 1 and edit.is_alive():
                figures.phase = "events are sent, waiting for the edit"
            time.sleep(UPDATE_EVERY_S)
        _raise_first([*senders, edit])
        _note(figures, "waiting for the views", show)
        figures.caught_up_s = _wait(server, figures, reader, show)
        _note(figures, "one event three hours late", show)
        _send_late(figures, reader)
        while edit.is_alive():  # on a slow machine the late event is the first one to compare
            _update(server, figures, reader, show)
            time.sleep(UPDATE_EVERY_S)
        _raise_first([edit])
        report = check_run(figures, reader, lambda phase: _note(figures, phase, show))
    finally:
        stopping.set()
        go.set()
        edit_begins.set()
        for thread in (*senders, edit):
            if thread.ident is not None:
                thread.join(JOIN_S)
        reader.close()
    _note(figures, "stopping the server", show)
    start = time.monotonic()
    stopped = server.stop()
    report.add_stop(stopped, time.monotonic() - start)
    _note(figures, "done", show)
    return report


def _update(server: ShopServer, figures: Figures, reader: ServerReader, show: Show) -> None:
    try:
        figures.update(reader)
    except HeadraceError:
        server.check()  # a better message if the server has ended
        raise
    show()


def _wait(server: ShopServer, figures: Figures, reader: ServerReader, show: Show) -> float:
    """Wait until every view has every event; returns the time that it took."""
    start = time.monotonic()
    for stream in figures.streams:
        while stream.tally.token and not reader.has(stream.tally.token):
            _update(server, figures, reader, show)
            if time.monotonic() > start + COMPLETE_S:
                raise UnavailableError(
                    f"the views of stream '{stream.name}' did not have every event within {COMPLETE_S:.0f} s"
                )
    took = time.monotonic() - start
    _update(server, figures, reader, show)
    return took


def _send_late(figures: Figures, reader: ServerReader) -> None:
    """Send the last event of the run, which is three hours late."""
    tally = next(stream.tally for stream in figures.streams if stream.name == "visits")
    visit = late_visit(max(truth.at_us for truth in tally.truths))
    figures.late, token = send_late(reader, visit)
    tally.add(visit, token)


def _note(figures: Figures, phase: str, show: Show) -> None:
    figures.phase = phase
    show()


def _raise_first(threads: Sequence[TrafficSender | LiveEdit]) -> None:
    for thread in threads:
        if thread.error is not None:
            raise thread.error


@contextmanager
def _display(console: Console, figures: Figures, *, quiet: bool) -> Iterator[Show]:
    """A function that shows the figures: a live page, or without a terminal a line from time to time."""
    if quiet:
        yield lambda: None
    elif console.is_terminal:
        with Live(get_renderable=lambda: render_page(figures), console=console, refresh_per_second=4):
            yield lambda: None
    else:
        last, phase, steps = -LINE_S, "", 0

        def print_line() -> None:
            nonlocal last, phase, steps
            finished_steps = figures.edit.finished_steps if figures.edit else []
            lines = [plain_step(figures, step) for step in finished_steps[steps:]]
            if time.monotonic() - last >= LINE_S or figures.phase != phase:
                last, phase = time.monotonic(), figures.phase
                lines.append(plain_line(figures))
            steps = len(finished_steps)
            for line in lines:
                console.print(line, soft_wrap=True, highlight=False, markup=False)

        yield print_line


@contextmanager
def _signals_as_interrupt() -> Iterator[None]:
    """Handle SIGTERM and SIGHUP like Ctrl-C, so that the server is stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.default_int_handler) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _make_folder(keep: Path | None) -> Path:
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="headrace-demo-"))
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise WorkspaceError(f"folder '{keep}' is not empty", fix="choose a new folder; nothing was changed")
    keep.mkdir(parents=True, exist_ok=True)
    return keep.resolve()


def record(report: RunReport, figures: Figures, target: Path) -> None:
    """Write the final screen of a run as SVG."""
    console = Console(record=True, file=io.StringIO(), width=WIDTH, force_terminal=True, color_system="truecolor")
    console.print(render_page(figures))
    console.print()
    print_result(console, report, figures, json=False)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title="headrace demo"), flags=re.DOTALL)
    target.write_text(svg.replace("Fira Code", FONT), encoding="utf-8")
