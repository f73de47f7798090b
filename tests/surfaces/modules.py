"""The modules that a command loads. `python -m tests.surfaces.modules` prints those of a stopped workspace."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from headrace.cli.app import run
from tests.surfaces.conftest import visit, write_events
from tests.surfaces.sql_shop import fill_stopped

PRINT_MODULES = (
    "import sys; from headrace.cli.app import run; code = run(sys.argv[1:]); print(*sys.modules); sys.exit(code)"
)
HEAVY = {
    "pyspark", "py4j", "duckdb", "pyarrow", "numpy", "pandas", "deltalake", "fastapi", "structlog", "httpx2",
    "pydantic",
}  # fmt: skip
# Without a server a command reads the folder itself: how many modules it loads at most, and which of the heavy packages
# it needs. What these cost is in docs/decisions/0084.
WITHOUT_SERVER: dict[tuple[str, ...], tuple[int, set[str]]] = {
    ("sql", "--help"): (265, set()),
    ("plan",): (425, set()),
    ("streams",): (425, {"deltalake"}),
    ("ask", "plain"): (465, {"duckdb"}),
    ("views",): (510, {"duckdb", "deltalake"}),
    ("status",): (510, {"duckdb", "deltalake"}),
    ("send", "visits", "v.ndjson"): (515, {"deltalake", "pyarrow", "numpy"}),
    ("ask", "traffic"): (565, {"duckdb", "pyarrow", "numpy"}),
}
PLAIN = "CREATE MATERIALIZED VIEW plain AS SELECT page, count(*) AS hits, sum(bytes) AS bytes FROM visits GROUP BY page"


def make_stopped(folder: Path) -> None:
    """Make the example with another view, of aggregates without sketches, and fill both."""
    assert run(["init", str(folder)]) == 0
    (folder / "definitions" / "plain.sql").write_text(PLAIN)
    assert run(["apply", "--yes", "-w", str(folder)]) == 0
    fill_stopped(folder, "traffic", "plain")
    write_events(folder / "v.ndjson", visit())


def stopped_modules(command: Sequence[str], folder: Path) -> list[str]:
    """The modules that a command loads in a workspace of `make_stopped`."""
    return imported_modules(*(folder / part if part.endswith(".ndjson") else part for part in command), "-w", folder)


def imported_modules(*arguments: object) -> list[str]:
    """The modules that a command has imported when it ends. Their number is the same on every machine."""
    command = [sys.executable, "-c", PRINT_MODULES, *map(str, arguments)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()[-1].split()


def packages(modules: list[str]) -> Counter[str]:
    """How many modules of each package there are."""
    return Counter(name.partition(".")[0] for name in modules)


def main() -> None:
    """Print how many modules each command loads, and those of heavy packages among them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "shop"
        with redirect_stdout(StringIO()):
            make_stopped(folder)
        for command in WITHOUT_SERVER:
            modules = stopped_modules(command, folder)
            heavy = ", ".join(f"{name} {count}" for name, count in packages(modules).items() if name in HEAVY)
            print(f"{' '.join(command):22}{len(modules):5}  {heavy}")  # noqa: T201 - what it is for


if __name__ == "__main__":
    main()
