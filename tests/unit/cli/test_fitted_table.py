"""Tables on screens of any width: no word is cut, and what is left out is named."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.fitted_table import FittedTable, WordConsole
from tests import wording

WORDS = st.text(st.sampled_from("abcdefgh_/=:,0123456789"), min_size=1, max_size=30)
TEXTS = st.lists(WORDS, max_size=12).map(" ".join)


def shown(table: FittedTable, width: int) -> list[str]:
    out = io.StringIO()
    WordConsole(file=out, width=width).print(table)
    return [line.rstrip() for line in out.getvalue().splitlines()]


@given(st.data(), st.integers(40, 200))
def test_words_stay_whole_and_lines_fit(data: st.DataObject, width: int) -> None:
    titles = [f"column {number}" for number in range(data.draw(st.integers(1, 9)))]
    rows = data.draw(st.lists(st.lists(TEXTS, min_size=len(titles), max_size=len(titles)), min_size=1, max_size=4))
    optional = data.draw(st.lists(st.sampled_from(titles), unique=True, max_size=len(titles) - 1))
    lines = shown(FittedTable(titles, rows, titles[::2], optional), width)
    assert all(len(line) <= width for line in lines)
    words = {word for line in lines for word in line.split()}
    for place, title in enumerate(titles):
        if title not in optional:
            assert {word for row in rows for word in row[place].split()} <= words, title


def test_a_wide_screen_has_all_columns() -> None:
    table = FittedTable(["view", "rows", "lane"], [["hits", "1,000", "fused"]], ["rows"], ["lane"])
    assert shown(table, 40) == ["view    rows   lane", "─" * 20, "hits   1,000   fused"]


def test_a_narrow_screen_leaves_out_empty_columns_then_optional_ones_and_names_these() -> None:
    table = FittedTable(
        ["view", "problem", "newest event", "lane"],
        [["visits_per_page", "–", "2026-11-18 12:46:39", "fused"]],
        optional=["lane"],
    )
    assert shown(table, 60)[0].split() == ["view", "problem", "newest", "event", "lane"]
    assert shown(table, 45)[0].split() == ["view", "newest", "event", "lane"]
    assert shown(table, 40)[0].split() == ["view", "newest", "event"]
    wording.check(shown(table, 40)[-1], "--wide")


def test_rows_that_do_not_fit_become_lines_of_title_and_value() -> None:
    page = "/products/trousers-with-a-long-name"
    record = [f"page  {page}", "hits  1,000"]
    assert shown(FittedTable(["page", "hits", "note"], [[page, "1,000", ""]] * 2), 41) == [*record, "", *record]
    url = "https://example.org/" + "a" * 100
    assert shown(FittedTable(["page", "hits"], [[url, "1"]]), 40) == [f"page  {url}", "hits  1"]


def test_a_long_word_of_a_column_that_may_fold_is_cut() -> None:
    event = '{"visitor":"' + "a" * 60 + '"}'
    lines = shown(FittedTable(["n", "event"], [["1", event]], fold=["event"]), 40)
    assert lines[0] == "n      1"
    assert (lines[1][:7], {line[:7] for line in lines[2:]}) == ("event  ", {" " * 7})
    assert "".join(line[7:] for line in lines[1:]) == event
    assert {len(line) for line in lines[1:-1]} == {40}
    assert len(lines[-1]) <= 40


def test_text_is_wrapped_at_spaces_below_its_indentation() -> None:
    out = io.StringIO()
    url = "https://example.org/" + "a" * 30
    WordConsole(file=out, width=24).print(f"    the definition is at {url} [red] :smile:")
    assert out.getvalue().splitlines() == [
        "    the definition is at",
        f"    {url}",
        "    [red] :smile:",
    ]
