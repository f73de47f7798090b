"""The output of a command, which is started again when it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from headrace.errors import HeadraceError, IngestError
from headrace.ingest.sources.channels import BackOff, Channel, Intake

NOT_FOUND = 127  # of a shell
NOT_RUNNABLE = 126
END_S = 5.0  # for a command to end after SIGTERM


class CommandOutput:
    """Standard output of a process."""

    def __init__(self, process: subprocess.Popen[bytes], label: str) -> None:
        assert process.stdout is not None
        self._pipe = process.stdout
        self.label = label
        os.set_blocking(self._pipe.fileno(), False)

    def fileno(self) -> int:
        """The descriptor that a selector waits for."""
        return self._pipe.fileno()

    def read(self, size: int) -> bytes:
        """Some bytes; none at the end."""
        return os.read(self._pipe.fileno(), size)

    def close(self) -> None:
        """Close the channel, whose lines are stored."""
        self._pipe.close()

    abort = close


class Command:
    """A command of the shell, whose output is read by lines."""

    def __init__(self, command: str, say: Callable[[str], None], *, once: bool) -> None:
        self._command, self._say, self._once = command, say, once
        self._back_off = BackOff()
        self._intake: Intake | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._output_ended = False
        self._started_at = 0.0
        self._starts = 0
        self.is_finished = False
        self.error: HeadraceError | None = None
        self.promise = (
            f"reading the output of '{command}'. It cannot be read again: after a restart only what the command then "
            "prints is sent"
        )

    def open(self, intake: Intake) -> None:
        """Start the command."""
        if not self._command.strip():
            raise IngestError("the command is empty", expected="a command, such as 'tail -F app.log'")
        self._intake = intake
        self._start()

    def ended(self, channel: Channel) -> None:
        """The command has closed its output: its exit code follows."""
        self._output_ended = True

    def check(self) -> None:
        """Start it again when it is time."""
        if self._process and self._output_ended:
            code = self._process.poll()
            if code is not None:
                self._process = None
                self._has_ended(code)
        elif self._process is None and not self.is_finished and self._back_off.is_over:
            self._start()

    def close(self) -> None:
        """End the command, and all that it has started."""
        self.is_finished = True
        process, self._process = self._process, None
        if process is None:
            return
        _signal(process, signal.SIGTERM)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            _signal(process, signal.SIGKILL)
            process.wait()

    def _start(self) -> None:
        assert self._intake is not None
        options: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "start_new_session": True}
        self._process = subprocess.Popen(self._command, shell=True, **options)
        self._started_at, self._output_ended = time.monotonic(), False
        self._starts += 1
        self._intake.add(CommandOutput(self._process, f"command '{self._command}'"))

    def _has_ended(self, code: int) -> None:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        if code in (NOT_FOUND, NOT_RUNNABLE) and self._starts == 1:
            what = "was not found" if code == NOT_FOUND else "cannot be run"
            self.error = IngestError(f"the command '{self._command}' {what}", found=f"exit code {code} of the shell")
        elif self._once and code:
            self.error = IngestError(f"the command '{self._command}' {how}")
        if self._once or self.error:
            self.is_finished = True
            return
        ran_s = time.monotonic() - self._started_at
        self._say(f"the command {how} after {ran_s:.0f} s; it is restarted {self._back_off.start(ran_s)}")


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):  # it has ended
        os.killpg(process.pid, number)
