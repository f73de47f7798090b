"""The tests on the page about testing pass."""

from __future__ import annotations

import re
from pathlib import Path

from headrace.cli.init_command import EXAMPLE
from headrace.tools.testing.direct_engine import QuickEngine
from headrace.tools.testing.run_tests import Runner
from headrace.tools.testing.written_tests import read_text

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
TESTS = "\n".join(re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))


def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    (tmp_path / "shop.sql").write_text(EXAMPLE)
    tests, errors = read_text(TESTS)
    assert not errors
    engine = QuickEngine()
    results = [Runner(tmp_path, engine).run(test, tmp_path) for test in tests]
    engine.close()
    assert [(r.test.name, r.error, r.differences) for r in results if r.state != "passed"] == []
    assert len(results) > 5
