"""A run's last page and result as an SVG picture, for documents."""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console

from headrace.demo.check import Report
from headrace.demo.figures import Figures
from headrace.demo.page import render_page
from headrace.demo.result import print_result

WIDTH = 118
# A picture loads nothing from elsewhere: the reader's own fixed-width font will do.
FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono'"


def record(report: Report, figures: Figures, target: Path) -> None:
    """Write what a terminal shows at the end of a run."""
    console = Console(record=True, file=io.StringIO(), width=WIDTH, force_terminal=True, color_system="truecolor")
    console.print(render_page(figures))
    console.print()
    print_result(console, report, figures, json=False)
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title="headrace demo"), flags=re.DOTALL)
    target.write_text(drawn.replace("Fira Code", FONT), encoding="utf-8")
