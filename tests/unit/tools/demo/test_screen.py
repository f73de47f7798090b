"""The page and the plain lines, from figures alone."""

import io
from pathlib import Path

from rich.console import Console

from headrace.errors import UnavailableError
from headrace.tools.demo.final_check import Account, RunReport, ViewCheck
from headrace.tools.demo.run_figures import Figures
from headrace.tools.demo.screen import plain_line, print_failure, print_result, render_page
from tests import wording
from tests.unit.tools.demo.screen import figures, render


def test_the_page_shows_flow_and_views():
    page = render(render_page(figures()))
    for text in ("9,876", "321", "44", "76", "0.87 s", "▁█▄", "2,000 events/s", "/p/🎁", "NULL", "1,234.50", "settled"):
        assert text in page


def test_the_page_fits_a_common_terminal():
    lines = render(render_page(figures()), width=100).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 100


def test_the_page_can_be_shown_before_anything_is_known():
    wording.check(render(render_page(Figures(seed=7, flow_s=20))))


def test_a_plain_line_has_the_same_numbers():
    wording.check(plain_line(figures()), "9,876", "9,744", "0.9", 321, 210)


def test_the_result_names_what_differs():
    view = ViewCheck("traffic", rows=3, cells=12, mismatches=1, first=["view 'traffic' page='/' is missing"])
    console = Console(file=io.StringIO(), width=120)
    print_result(console, RunReport([view], [Account("a claim", False, "1 of 2")]), figures(), json=False)
    output = console.file.getvalue()
    wording.check_line(output, "traffic", "/")
    wording.check_line(output, 1, 2)
    wording.check_line(output, "9,876")


def test_the_result_of_a_good_run():
    console = Console(file=io.StringIO(), width=120)
    views = [ViewCheck("pulse", rows=3, cells=9, estimates=3, within_stated=3, largest_error=0.0123)]
    print_result(console, RunReport(views, []), figures(), json=False)
    wording.check_line(console.file.getvalue())
    assert "1.2%" in console.file.getvalue()


def test_a_failure_is_one_sentence():
    console = Console(file=io.StringIO(), width=40)
    print_failure(console, UnavailableError("the server ended", fix="see the log"), Path("w"), json=False)
    wording.check(console.file.getvalue())
