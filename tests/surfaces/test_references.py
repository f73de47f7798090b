"""The references in docs/ are generated from the code, and compared here."""

from __future__ import annotations

import pytest

from tests.surfaces.conftest import Served
from tests.surfaces.references import DOCS, references


@pytest.mark.parametrize("name", ["cli.md", "settings.md", "http.md", "metrics.md", "python.md", "sinks.md"])
def test_a_reference_matches_the_code(served: Served, name: str) -> None:
    text = references(served.runtime)[name]()
    assert (DOCS / name).read_text() == text, "run `python -m tests.surfaces.references`"
