"""Every link in the documentation leads to an existing file, and to a heading if it names one."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def headings(path: Path) -> set[str]:
    """The headings of a page as links name them."""
    titles = HEADING.findall(path.read_text())
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in titles}


def test_links_resolve() -> None:
    wrong, count = [], 0
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]:
        for target, heading in LINK.findall(page.read_text()):
            if "://" in target:
                continue
            count += 1
            path = page.parent / target if target else page
            if not path.exists() or (heading and heading not in headings(path)):
                wrong.append(f"{page.relative_to(ROOT)}: {target}#{heading}")
    assert not wrong
    assert count > 20
