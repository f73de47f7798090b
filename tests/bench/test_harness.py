"""The harness without servers: runs that continue, ratios that are checked, the page, plots and Nexmark's events."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from bench.check import check_sizes, differences
from bench.compare import _write_files, check_contender
from bench.growth import Curve, curves
from bench.nexmark.generate import batches, last_auction, last_person, write_files
from bench.nexmark.queries import OTHERS, QUERIES, definitions
from bench.ours.events import STREAM, Shape, lines, views
from bench.ours.figures import Figure
from bench.ours.turn import Files
from bench.ours.usage import cpu_seconds
from bench.page import write_page
from bench.plot import plot
from bench.process import SPARK
from bench.record import RESULTS, ROOT, Part, Results, Run
from bench.sizes import TINY, FullSizes

from headrace.define.catalog import parse
from headrace.errors import HeadraceError
from tests import wording


def silent(_: str) -> None:
    """Progress that nobody reads."""


def figure(name: str, value: float) -> Figure:
    return Figure(name, value, "x", "once")


def with_figures(path: Path, part: str, *figures: Figure) -> Results:
    results = Results(path)
    results.put(part, Part(list(figures), {}), json.loads(json.dumps(vars(FullSizes()), default=vars)), 1.0)
    return results


def test_an_interrupted_run_continues(tmp_path: Path) -> None:
    def run(restart: bool = False, sizes: FullSizes = TINY) -> Run:
        return Run(silent, tmp_path / "run.json", sizes, restart=restart)

    first = run()
    assert first.begin("compare")
    assert first.keep("round 1", lambda: 3.5) == 3.5
    first.finish("late")
    second = run()
    assert second.begin("compare")
    assert not second.begin("late")
    second.begin("compare")
    assert second.keep("round 1", lambda: pytest.fail("measured twice")) == 3.5
    assert run(sizes=FullSizes()).keep("round 1", lambda: 4.0) == 4.0
    assert run(restart=True).begin("late")
    second.end()
    assert run().begin("late")


def test_results_are_read_as_they_were_written(tmp_path: Path) -> None:
    content = Figure("latency", 1.5, "s", "1 to 2", 2.0, higher_is_better=False)
    with_figures(tmp_path / "results.json", "late", content)
    assert Results(tmp_path / "results.json").figures("late") == [content]


def test_a_ratio_that_fell_by_more_than_the_tolerance_is_worse(tmp_path: Path) -> None:
    before = with_figures(tmp_path / "before.json", "compare", figure("a", 3.0), figure("b", 3.0), figure("c", 3.0))
    after = with_figures(tmp_path / "after.json", "compare", figure("a", 2.3), figure("b", 2.2))
    lines = list(differences(before, after, 0.25, ["compare"]))
    assert [is_worse for _, is_worse in lines] == [False, True, False]
    wording.check(lines[1][0], "2.20", "3.00", 27, 25)
    wording.check(lines[2][0])


def test_a_ratio_that_misses_its_limit_is_worse(tmp_path: Path) -> None:
    before = with_figures(tmp_path / "before.json", "compare", figure("a", 3.0))
    fresh = [Figure(name, value, "x", "", 3.0) for name, value in (("a", 2.9), ("b", 2.9), ("c", 3.0))]
    lines = list(differences(before, with_figures(tmp_path / "after.json", "compare", *fresh), 0.25, ["compare"]))
    assert [is_worse for _, is_worse in lines] == [True, True, False]
    wording.check(lines[0][0], "2.90", "3.00", 25)


@pytest.mark.skipif(not RESULTS.exists(), reason="make bench-full has not written bench/results.json")
def test_the_committed_results_have_the_limits_that_are_decided() -> None:
    results = Results(RESULTS)
    bars = {figure.name: figure.bar for part in ("compare", "kafka") for figure in results.figures(part)}
    assert bars["rate against Structured Streaming with a log"] == bars["rate against PyFlink with a log"] == 3
    assert bars["rate against plain Structured Streaming"] == 1.5
    assert bars["rate against PyFlink"] == 2
    assert bars["topic to served answer, against the journal"] == 50
    assert bars["rate against PyFlink with Flink's Kafka connector"] == 1.5


def test_a_check_has_the_size_of_the_committed_results(tmp_path: Path) -> None:
    results = with_figures(tmp_path / "results.json", "compare", figure("a", 3.0))
    assert check_sizes(results).events == FullSizes().events
    assert check_sizes(results).rounds < FullSizes().rounds


def test_the_page_of_no_results_names_what_is_missing(tmp_path: Path) -> None:
    write_page(Results(tmp_path / "none.json"), tmp_path)
    page = (tmp_path / "benchmarks.md").read_text()
    wording.check_line(page, 'make bench-full ARGS="--only compare"')
    wording.check_line(page)


@pytest.mark.skipif(not RESULTS.exists(), reason="make bench-full has not written bench/results.json")
def test_the_page_is_that_of_the_results(tmp_path: Path) -> None:
    write_page(Results(RESULTS), tmp_path)
    for file in (tmp_path / "benchmarks.md", *(tmp_path / "benchmarks").iterdir()):
        assert file.read_text() == (ROOT / "docs" / file.relative_to(tmp_path)).read_text(), file.name


def test_the_growth_with_views_comes_from_the_rates(tmp_path: Path) -> None:
    rates = [("1 view", 400_000), ("5 views", 200_000), ("20 views", 100_000)]
    figures = [Figure(f"file to served answer, {views}", rate, "events/s", "") for views, rate in rates]
    (curve,) = curves(with_figures(tmp_path / "results.json", "throughput", *figures))
    assert (curve.sizes, curve.costs) == ([1, 5, 20], [2.5, 5, 10])


def test_an_exponent_is_fitted() -> None:
    curve = Curve("events", "events", "seconds", [1, 2, 4], [3, 6 * 2**0.5, 24], [])
    assert math.isclose(curve.exponent, 1.5)
    wording.check(curve.sentence, 4, "8.00", "1.50")


def test_a_plot_is_well_formed() -> None:
    root = ElementTree.fromstring(plot("a < b", "keys", "seconds", [1_000, 1_000_000], [2.0, 2.0]))
    assert root.tag.endswith("svg")
    assert "1 M" in "".join(root.itertext())


def test_cpu_time_includes_processes_that_have_ended() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    before_s = cpu_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", burn], check=True)
    assert cpu_seconds(os.getpid()) - before_s >= 0.25


def test_a_hundred_views_are_valid_and_different() -> None:
    catalog = parse(STREAM + views(100))
    assert len(catalog.views) == 100
    assert list(parse(STREAM + views(1)).views) == ["traffic"]


def test_events_have_their_shape() -> None:
    (late,) = lines(20_000, 1, Shape(late=0.05))
    (usual,) = lines(20_000, 1)
    assert 800 < sum(a != b for a, b in zip(late, usual, strict=True)) < 1_200
    (wide,) = lines(100, 1, Shape(bytes=1_000))
    assert {len(line) for line in wide} == {1_000}
    assert {len(json.loads(line)) for line in wide} == {6}


def test_files_have_all_events_in_order(tmp_path: Path) -> None:
    files = _write_files(tmp_path / "files", 250_001, 3, seed=1)
    assert "".join(path.read_text() for path in files.paths).splitlines() == [
        line for batch in lines(250_001, 1) for line in batch
    ]


def test_rows_of_a_contender_that_differ_are_an_error(tmp_path: Path) -> None:
    event = '{"visitor":"u1","page":"/p/1","status":200,"bytes":7,"at":"2026-01-01T00:00:30.000Z"}\n'
    (tmp_path / "visits.ndjson").write_text(event * 2)
    files, rows = Files((tmp_path / "visits.ndjson",), 2), tmp_path / "rows.csv"
    rows.write_text("page,pane,hits,bytes,largest\n/p/1,1767225600,2,14,7\n")
    check_contender(SPARK, rows, files.paths)
    rows.write_text("page,pane,hits,bytes,largest\n/p/1,1767225600,1,7,7\n")
    with wording.raises(HeadraceError, 2):
        check_contender(SPARK, rows, files.paths)


def test_nexmark_events_follow_its_proportions(tmp_path: Path) -> None:
    counts = {kind: count for kind, (_, count) in write_files(tmp_path, 10_000).items()}
    assert counts == {"persons": 200, "auctions": 600, "bids": 9_200}
    bids = [json.loads(line) for line in (tmp_path / "bids.ndjson").read_text().splitlines()]
    assert {bid["auction"] % 100 == 0 for bid in bids} == {True, False}


def test_nexmark_ids_grow_with_the_events() -> None:
    numbers = np.array([0, 1, 3, 4, 49, 50, 51])
    assert last_person(numbers).tolist() == [0, 0, 0, 0, 0, 1, 1]
    assert last_auction(numbers).tolist() == [-1, 0, 2, 2, 2, 2, 3]


def test_nexmark_has_hot_auctions_and_bidders() -> None:
    late = list(batches(100_000))[1].bids  # enough auctions exist
    auctions, bidders = Counter(late["auction"].tolist()), Counter(late["bidder"].tolist())
    hot = sum(count for auction, count in auctions.items() if auction % 100 == 0) / sum(auctions.values())
    hot_bidders = sum(count for bidder, count in bidders.items() if bidder % 100 == 1) / sum(bidders.values())
    assert 0.48 < hot < 0.53
    assert 0.73 < hot_bidders < 0.78
    assert min(late["price"]) >= 100
    assert max(late["price"]) <= 100_000_000


def test_every_nexmark_query_has_a_view_or_a_reason() -> None:
    assert sorted([*(query.number for query in QUERIES), *OTHERS]) == list(range(23))
    assert len(parse(definitions()).views) == len(QUERIES)
