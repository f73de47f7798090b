"""All tests, in lanes side by side: `make test`, or `python -m tests.lanes [arguments of pytest]`.

`python -m tests.lanes fast` runs those of `make test-fast`: without servers, and without what is marked as long.
A test with a server of its own leaves a machine half idle. So the tests are cut into parts, a pytest each, and a lane
that is free takes the next part. What a part prints is shown whole when it has ended.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from xml.etree import ElementTree

ROOT = Path(__file__).parent
LANES = int(os.environ.get("LANES", "2"))
TOGETHER = (
    ("unit", "contracts", "laws", "docs"),
    ("surfaces",),
    ("spark", "equivalence"),
)  # each shares a session or much set-up
WARM = (  # servers on one Java
    "faults/test_kill.py",
    "faults/test_kill_derived.py",
    "faults/test_damaged_files.py",
    "faults/test_damaged_views.py",
    "faults/test_disk_full.py",
    "faults/test_replay.py",
    "faults/test_sources.py",
    "faults/test_takeover.py",
    "surfaces/test_edits.py",
    "surfaces/test_kept_workspace.py",
    "surfaces/test_unique.py",
)
ALONE = ("docs/test_tutorial.py", "surfaces/test_demo.py", "surfaces/test_up.py")
# Fast ones, then long ones, so that the lanes end alike.
SOONEST = ("unit", "warm", "spark", "services", "surfaces", "faults", "docs/test_tutorial")
FAST = ("laws", "contracts", "docs", "unit")
SHARES = 4  # of the unit tests, so that the lanes end alike
NO_TESTS = 5  # pytest's exit code where its arguments leave nothing to run
SLOWEST = 15
SAY_EVERY_S = 30.0


@dataclass
class Part:
    """Some tests that one process runs, and its result."""

    name: str
    paths: tuple[str, ...]
    ignored: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = None
    began_s: float = 0.0
    took_s: float = 0.0
    counts: dict[str, int] = field(default_factory=dict)
    times: list[tuple[float, str]] = field(default_factory=list)
    skips: list[str] = field(default_factory=list)

    @property
    def stem(self) -> str:
        """Short, since sockets and sandboxes limit a path's length."""
        return re.sub(r"\W+", "-", self.name)

    @property
    def failed(self) -> bool:
        return self.process is None or self.process.returncode not in (0, NO_TESTS)


def make_parts() -> list[Part]:
    """Every test is in one part: folders are found, not listed."""
    folders = sorted({file.relative_to(ROOT).parts[0] for file in ROOT.glob("*/**/test_*.py")})
    together = [*TOGETHER, *((folder,) for folder in folders if not any(folder in group for group in TOGETHER))]
    parts = [Part("warm", WARM), *(Part(path.removesuffix(".py"), (path,)) for path in ALONE)]
    apart = (*WARM, *ALONE)
    for group in together:
        files = {str(file.relative_to(ROOT)) for folder in group for file in (ROOT / folder).glob("**/test_*.py")}
        if files - {*apart}:
            parts.append(Part(" ".join(group), group, tuple(path for path in apart if path in files)))

    def rank(part: Part) -> int:
        return next((i for i, name in enumerate(SOONEST) if part.name.split()[0] == name), len(SOONEST))

    return sorted(parts, key=rank)


def make_fast_parts() -> list[Part]:
    """The tests without servers, those of each folder in so many parts."""
    parts = []
    for folder in FAST:
        files = sorted(str(file.relative_to(ROOT)) for file in (ROOT / folder).glob("**/test_*.py"))
        shares = SHARES if folder == "unit" else 1
        parts += [Part(f"{folder} {share + 1}", tuple(files[share::shares])) for share in range(shares)]
    return parts


class Lanes:
    """Runs parts, several at a time."""

    def __init__(self, parts: list[Part], arguments: list[str]) -> None:
        self.waiting = list(parts)
        self.running: list[Part] = []
        self.arguments = arguments
        self.folder = Path(tempfile.mkdtemp(prefix="lanes-"))
        self.live = sys.stdout.isatty()
        self.began_s = self.said_s = time.monotonic()

    def run(self) -> None:
        try:
            while self.waiting or self.running:
                while self.waiting and len(self.running) < LANES:
                    self._start(self.waiting.pop(0))
                time.sleep(0.2)
                for part in [part for part in self.running if part.process and part.process.poll() is not None]:
                    self._finish(part)
                self._say_progress()
        finally:
            self._end()

    def _start(self, part: Part) -> None:
        command = [sys.executable, "-m", "pytest", *(str(ROOT / path) for path in part.paths)]
        command += [f"--ignore={ROOT / path}" for path in part.ignored]
        command += ["-p", "no:cacheprovider", f"--basetemp={self.folder / part.stem}"]
        command += [f"--junitxml={self._report(part)}", f"--color={'yes' if self.live else 'no'}", *self.arguments]
        with self._output(part).open("wb") as out:
            # A separate session: an interrupt reaches each part once, and it ends its servers.
            part.process = subprocess.Popen(
                command, cwd=ROOT.parent, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        part.began_s = time.monotonic()
        self.running.append(part)

    def _finish(self, part: Part) -> None:
        self.running.remove(part)
        part.took_s = time.monotonic() - part.began_s
        if self._report(part).exists():
            (suite,) = ElementTree.parse(self._report(part)).getroot()
            part.counts = {name: int(suite.get(name, 0)) for name in ("tests", "failures", "errors", "skipped")}
            part.times = [(float(case.get("time", 0)), _name(case)) for case in suite]
            part.skips = [skip.get("message", "") for skip in suite.iter("skipped")]
        say(f"\n{'=' * 20} {part.name}: {'FAILED' if part.failed else 'passed'} in {part.took_s:.0f} s {'=' * 20}\n")
        say(self._output(part).read_text(errors="replace"))
        if not part.failed:
            shutil.rmtree(self.folder / part.stem, ignore_errors=True)

    def _say_progress(self) -> None:
        now_s = time.monotonic()
        if now_s - self.said_s < (1.0 if self.live else SAY_EVERY_S):
            return
        self.said_s = now_s
        parts = " | ".join(f"{part.name} {self._reached(part)}" for part in self.running)
        line = f"[{now_s - self.began_s:4.0f} s] {parts} | {len(self.waiting)} parts to come"
        say(f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}" if self.live else f"{line}\n")

    def _reached(self, part: Part) -> str:
        percentages = re.findall(rb"\[ *(\d+%)\]", self._output(part).read_bytes())
        return percentages[-1].decode() if percentages else "..."

    def _output(self, part: Part) -> Path:
        return self.folder / f"{part.stem}.txt"

    def _report(self, part: Part) -> Path:
        return self.folder / f"{part.stem}.xml"

    def _end(self) -> None:
        """Let what still runs end its servers, then itself."""
        for part in self.running:
            if part.process:
                part.process.send_signal(signal.SIGINT)
        for part in self.running:
            if part.process:
                part.process.wait()


def _name(case: ElementTree.Element) -> str:
    return f"{case.get('classname')}::{case.get('name')}"[:110]


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def sum_up(parts: list[Part], took_s: float) -> None:
    """What each part took and found, the slowest tests of all, and what was skipped and why."""
    say(f"\n{'seconds':>8} {'tests':>6} {'failed':>6} {'skipped':>7}  part\n")
    for part in parts:
        count = part.counts
        bad = count.get("failures", 0) + count.get("errors", 0)
        ended = "" if count and bool(bad) == part.failed else f"  ended with {part.process and part.process.returncode}"
        say(f"{part.took_s:8.0f} {count.get('tests', 0):6} {bad:6} {count.get('skipped', 0):7}  {part.name}{ended}\n")
    say("\nslowest tests, in seconds\n")
    for took, name in sorted((pair for part in parts for pair in part.times), reverse=True)[:SLOWEST]:
        say(f"{took:8.1f} {name}\n")
    reasons = Counter(reason for part in parts for reason in part.skips)
    if reasons:
        say("\nskipped tests, and why\n")
    for reason, count in reasons.most_common():
        say(f"{count:8} {reason}\n")
    failed = ", ".join(part.name for part in parts if part.failed)
    tests = sum(part.counts.get("tests", 0) for part in parts)
    say(f"\n{tests} tests in {took_s:.0f} s, {LANES} lanes: {f'FAILED: {failed}' if failed else 'all passed'}\n")


def _stop(*_: Any) -> NoReturn:
    raise KeyboardInterrupt


def main(arguments: list[str]) -> int:
    signal.signal(signal.SIGTERM, _stop)
    parts = make_parts()
    if arguments[:1] == ["fast"]:
        parts, arguments = make_fast_parts(), ["-m", "not long", *arguments[1:]]
    lanes = Lanes(parts, arguments)
    try:
        lanes.run()
    except KeyboardInterrupt:
        say(f"\nstopped; what was printed is in {lanes.folder}\n")
        return 130
    sum_up(parts, time.monotonic() - lanes.began_s)
    if any(part.failed for part in parts):
        say(f"what was printed, and the folders of failed tests, are in {lanes.folder}\n")
        return 1
    shutil.rmtree(lanes.folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
