"""The server of a workspace, in this process, until Ctrl-C. `headrace up` imports it when it runs."""

from __future__ import annotations

import faulthandler
import gc
import os
import signal
import sys
import threading
import time
from functools import partial
from pathlib import Path
from types import FrameType

import pandas  # noqa: F401 - Arrow would import it with its first array, while the first event waits
import typer

from headrace import logs
from headrace.api.server_verbs import ServerVerbs
from headrace.cli.error_output import print_error
from headrace.cli.output import console
from headrace.cli.plan_commands import print_plan
from headrace.cli.waiting import WaitLines
from headrace.errors import DefinitionError, HeadraceError
from headrace.server.runtime import Runtime
from headrace.tools.doctor.workspace_checks import check_private
from headrace.web.application import create_app
from headrace.web.guard import check_exposure
from headrace.web.http_server import HttpListener, bind, url_of
from headrace.workspace.lease import in_turn, refuse_if_held
from headrace.workspace.settings import Workspace

SWITCH_S = 0.0002  # at most this long an answer waits for a thread that computes


def run_server(folder: Path, host: str | None, port: int | None) -> None:
    """Run the server of the workspace in a folder; host and port are those of its settings unless given."""
    sys.setswitchinterval(SWITCH_S)
    workspace = Workspace.open(folder, host=host, port=port)
    settings = workspace.settings
    check_exposure(settings.host, settings.token)
    for finding in check_private(workspace):
        typer.echo(f"Warning: {finding.said}; {finding.fix}", err=True)
    waits = WaitLines().waits
    # Checked before the port, which would be in use too; the lease itself decides.
    in_turn(lambda: refuse_if_held(workspace.lease_file), workspace.lease_file, waits)
    with bind(settings.host, settings.port) as listener:
        workspace.make_data()
        logs.divert_children(workspace.logs / "spark.log")
        logs.configure(settings.log_level, workspace.logs / "headrace.log")
        faulthandler.enable()  # prints a traceback if a library crashes
        runtime = in_turn(lambda: Runtime.open(workspace, url_of(listener)), workspace.lease_file, waits)
        try:
            _apply_definitions(ServerVerbs(runtime))
            server = HttpListener(create_app(runtime), runtime.workspace.settings.max_connections)
            server.on_stop = partial(_begin_stop, runtime)
            _stop_on_signals(server)
            threading.Thread(target=_report_start, args=(runtime, server), name="report-start", daemon=True).start()
            runtime.start()
            server.run(sockets=[listener])
        finally:
            _begin_stop(runtime)
            runtime.stop()
    if runtime.monitor.failed:
        raise runtime.monitor.failed
    typer.echo("Stopped.")


def _apply_definitions(verbs: ServerVerbs) -> None:
    """Apply a plan that only creates; else serve the applied definitions and print the plan."""
    try:
        plan = verbs.plan()
        if plan.only_creates:
            if not plan.empty:
                verbs.apply(plan.fingerprint)
            return
    except DefinitionError as error:
        if not verbs.streams():
            raise  # nothing is applied yet: there is nothing to serve
        print_error(error, as_json=False)
        typer.echo("The definitions have errors; serving the applied ones.", err=True)
        return
    print_plan(plan, stderr=True)
    typer.echo("These changes need `headrace apply`; serving the applied definitions.", err=True)


def _stop_on_signals(server: HttpListener) -> None:
    is_stopping = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal is_stopping
        if is_stopping:
            os._exit(128 + number)  # the second Ctrl-C: exit at once; stored events are safe
        is_stopping = True
        server.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)


def _report_start(runtime: Runtime, server: HttpListener) -> None:
    """Print when HTTP is up and when Spark is ready; stop the server when the runtime must stop."""
    out = console()
    while not server.started and not runtime.stopped.wait(0.02):
        pass
    began = time.monotonic()
    out.print(f"Headrace serves '{runtime.workspace.name}' at {runtime.url} (Ctrl-C stops it)", markup=False)
    out.print("Events are accepted now and processed when Spark has started", markup=False)
    last_message = None
    while not runtime.stopped.wait(0.1):
        message = runtime.monitor.warming_up
        if message and message != last_message:
            out.print(f"{message} …", markup=False)
            last_message = message
        if not message:
            _exempt_from_collection()
            out.print(f"Ready after {time.monotonic() - began:.1f} s: views are being updated", markup=False)
            for line in _hints(runtime):
                out.print(line, markup=False)
            runtime.stopped.wait()
    server.stop()


def _exempt_from_collection() -> None:
    """Exempt all objects of the start from garbage collection: examining them would stop answers for 0.1 s."""
    gc.collect()
    gc.freeze()


def _hints(runtime: Runtime) -> list[str]:
    """Next steps for a new user."""
    verbs = ServerVerbs(runtime)
    where = "" if runtime.workspace.folder == Path.cwd() else f" -w {runtime.workspace.folder}"
    streams, views = verbs.streams(), verbs.views()
    if not streams:
        return ["No definitions yet: `headrace init --from FILE` infers one, `headrace apply` applies it"]
    lines = [f"Open {runtime.url} in a browser, or in another terminal:"]
    taking = next((stream.name for stream in streams if not stream.derived_from), None)
    lines += [f"  headrace send{where} {taking} FILE --wait"] if taking else []
    return lines + [f"  headrace ask{where} {view.name}" for view in views[:1]]


def _begin_stop(runtime: Runtime) -> None:
    """End long work, and all of the server at its deadline."""
    runtime.begin_stop()
    _exit_late_at(time.monotonic() + runtime.workspace.settings.stop_within_s)


def _exit_late_at(deadline: float) -> None:
    """Kill the process at the deadline if it has not stopped: all data is on disk already."""

    def watch() -> None:
        time.sleep(max(0.0, deadline - time.monotonic()))
        print_error(HeadraceError("the server did not stop in time and was killed"), as_json=False)
        os._exit(1)

    threading.Thread(target=watch, name="deadline", daemon=True).start()
