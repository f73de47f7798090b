"""The quick start of the README, without a server: `init` infers the definition and prints the same commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests import wording

ROOT = Path(__file__).parents[2]


def test_quick_start(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    first, second, third = re.findall(r"^```bash\n(.*?)^```$", text[text.index("## Quick start") :], re.M | re.S)[:3]
    make = "\n".join(line for line in first.splitlines() if not line.startswith(("export PATH", "headrace up")))
    output = run(make, tmp_path)
    wording.check_line(output, 5)
    send, ask, _, sql = second.splitlines()
    assert f"  {send}\n  {ask}\n" in output
    declared = (tmp_path / "shop" / "definitions" / "orders.sql").read_text()
    assert all(name in declared for name in re.findall(r"[a-z]+_[a-z_]+", sql))
    assert "5 events sent in" in run(f"headrace apply --yes && {send.removesuffix(' --wait')}", tmp_path / "shop")
    event = re.search(r"-d '(.*)'", third)
    assert event is not None
    (tmp_path / "shop" / "one.json").write_text(event[1])
    assert "1 event sent in" in run("headrace send orders one.json", tmp_path / "shop")


def run(commands: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    result = subprocess.run(
        ["bash", "-ec", commands],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, (commands, result.stdout, result.stderr)
    return result.stdout
