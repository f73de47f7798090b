"""Draws docs/page.png, the page of a server after the demo's traffic: `make picture`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from headrace.tools.demo.shop_server import COMMAND, ShopServer
from tests.surfaces.browser import chromium, open_tab

PICTURE = Path(__file__).parents[2] / "docs" / "page.png"
SIZE = {"width": 1100, "height": 860}


def main() -> None:
    """Run the demo, serve its workspace again and take a screenshot."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "shop"
        demo = ["demo", "--seconds", "10", "--rate", "2000", "--keep", str(folder)]
        subprocess.run([sys.executable, "-c", COMMAND, *demo], check=True)
        server = ShopServer(folder)
        try:
            server.wait_until_ready()
            with chromium() as browser:
                page = open_tab(browser, viewport=SIZE, color_scheme="light").page
                page.goto(server.url)
                page.screenshot(path=PICTURE)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
