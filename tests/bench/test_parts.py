"""Every part of the benchmark runs, at a tiny size: its results and its page are written."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench.__main__ import PARTS, main
from bench.process import CONTENDERS, FLINK, FLINK_LOG
from bench.record import Results
from bench.services.broker import NO_KAFKA

MISSED = 1  # a limit, which tiny sizes miss


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("part", PARTS)
def test_a_part_runs(part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [("--results", tmp_path / "results.json"), ("--docs", tmp_path), ("--state", tmp_path / "run.json")]
    options = [str(text) for pair in paths for text in pair]
    code = main(["full", "--tiny", "--only", part, *options])
    messages = capsys.readouterr().err
    if NO_KAFKA in messages:
        pytest.skip(messages)
    assert code in (0, MISSED), messages
    results = Results(tmp_path / "results.json")
    assert list(results.parts) == [part]
    page = (tmp_path / "benchmarks.md").read_text()
    assert all(figure.name in page for figure in results.figures(part))
    if part == "compare":
        names = {row["name"] for row in results.data(part)["table"]}
        missing = {contender.name for contender in CONTENDERS} - names
        assert missing == (set() if FLINK.is_installed else {FLINK.name, FLINK_LOG.name})
        assert all(f"{name} is not installed" in messages for name in missing)
    if part.startswith("growth"):
        assert list((tmp_path / "benchmarks").glob("*.svg"))
