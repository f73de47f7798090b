"""A real Chromium for tests, which records errors and requests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
LISTEN = "addEventListener('securitypolicyviolation', (e) => console.error('policy ' + e.violatedDirective));"


@contextmanager
def chromium() -> Iterator[Any]:
    """The browser, with its own user folder."""
    if CHROMIUM is None:
        pytest.skip("Chromium was not found; scripts/browser installs it where it may")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@dataclass
class Tab:
    """A page, its errors and its requests."""

    page: Any
    faults: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def check(self) -> None:
        """There were no errors, and requests went to this machine only."""
        assert self.faults == []
        assert {urlsplit(url).hostname for url in self.requests} == {"127.0.0.1"}


def open_tab(browser: Any, **settings: Any) -> Tab:
    """A new page in a context of its own."""
    page = browser.new_context(**settings).new_page()
    page.set_default_timeout(60_000)
    tab = Tab(page)
    page.add_init_script(LISTEN)
    page.on(
        "console", lambda message: tab.faults.append(message.text) if message.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: tab.faults.append(str(error)))
    page.on("dialog", lambda dialog: (tab.faults.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on("request", lambda request: tab.requests.append(request.url))
    return tab
