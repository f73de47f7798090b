"""The references in docs/ say what the code does: made from it, and compared here."""

from __future__ import annotations

import pytest

from tests.surfaces.conftest import Served
from tests.surfaces.references import DOCS, references


@pytest.mark.parametrize("name", ["cli.md", "settings.md", "http.md", "metrics.md", "python.md"])
def test_a_reference_is_what_the_code_says(served: Served, name: str) -> None:
    made = references(served.runtime)[name]()
    assert (DOCS / name).read_text() == made, "run `python -m tests.surfaces.references`"
