"""Results of the benchmark: the committed file, and the state of a run that can be continued after an interruption."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.ours.figures import Figure
from bench.ours.progress import Progress
from bench.ours.run import machine
from headrace.disk import replace_file

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results.json"
STATE = ROOT / ".bench" / "run.json"


@dataclass(frozen=True)
class Part:
    """The result of a part: figures with limits, and the data behind its tables and plots."""

    figures: list[Figure]
    data: dict[str, Any]


class Results:
    """The results of the last run of each part, a file of JSON."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.parts: dict[str, dict[str, Any]] = json.loads(path.read_text())["parts"] if path.exists() else {}

    def put(self, name: str, part: Part, sizes: dict[str, Any], took_s: float) -> None:
        """Replace the result of a part."""
        self.parts[name] = {
            "taken": f"{datetime.now(UTC):%Y-%m-%d}",
            "machine": machine(),
            "took_s": round(took_s),
            "sizes": sizes,
            "figures": [figure.as_dict() for figure in part.figures],
            "data": part.data,
        }
        replace_file(
            self._path, (json.dumps({"parts": self.parts}, indent=1, ensure_ascii=False) + "\n").encode(), "the results"
        )

    def figures(self, name: str) -> list[Figure]:
        """The figures of a part; none if it was not run."""
        return [Figure.of(content) for content in self.parts.get(name, {}).get("figures", ())]

    def data(self, name: str) -> dict[str, Any]:
        """The data of a part; empty if it was not run."""
        return dict(self.parts.get(name, {}).get("data", {}))


class Run(Progress):
    """Keeps every measurement in a file until the run is complete, so that the next one continues it."""

    def __init__(self, tell: Callable[[str], None], path: Path, sizes: Any, *, restart: bool) -> None:
        super().__init__(tell)
        self._path = path
        self._part = ""
        identity = {"sizes": json.loads(json.dumps(asdict(sizes))), "code": _code()}
        state = json.loads(path.read_text()) if path.exists() and not restart else None
        if state and state["identity"] == identity:
            tell(f"continuing a run with {len(state['values'])} measurements; --restart begins a new one")
        else:
            state = {"identity": identity, "values": {}, "finished": []}
        self._state: dict[str, Any] = state

    def begin(self, part: str) -> bool:
        """Measurements from now on belong to this part; whether it is not finished yet."""
        self._part = part
        return part not in self._state["finished"]

    def keep(self, name: str, measure: Callable[[], Any]) -> Any:
        values: dict[str, Any] = self._state["values"]
        key = f"{self._part}: {name}"
        if key not in values:
            values[key] = measure()
            self._save()
        return values[key]

    def finish(self, part: str) -> None:
        """A finished part is not measured again in this run."""
        self._state["finished"].append(part)
        self._save()

    def end(self) -> None:
        """The run is complete: the next one begins anew."""
        self._path.unlink(missing_ok=True)

    def _save(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(self._path, json.dumps(self._state).encode(), "the state of the run")


def _code() -> str:
    """What is checked out: measurements of different code are not mixed."""
    command = ["git", "describe", "--always", "--dirty"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return ended.stdout.strip()
