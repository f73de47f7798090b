"""Steps over files of one commit or of many: they tile the log, and each is about as large as it may be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.lake.table_files import LakeFile
from headrace.maintain.speed_step import step_end


def files_of(spans: list[tuple[int, int]]) -> list[LakeFile]:
    """Neighbouring files of so many commits and rows a commit."""
    files: list[LakeFile] = []
    first = 0
    for commits, rows in spans:
        files.append(LakeFile(f"{first}", 1, commits * rows, False, first, first + commits - 1))
        first += commits
    return files


@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 50)), min_size=1, max_size=12),
    st.integers(1, 300),
    st.integers(0, 30),
)
def test_steps_tile_the_log_and_keep_to_their_size(spans: list[tuple[int, int]], most: int, start: int) -> None:
    files = files_of(spans)
    end = files[-1].last_commit + 1
    rows = [rows for commits, rows in spans for _ in range(commits)]
    at = min(start, end - 1)
    while at < end:
        left = [file for file in files if file.last_commit >= at]
        to = step_end(left, at, end, most)
        assert at < to <= end
        assert sum(rows[at:to]) <= most or to == at + 1
        assert to == end or sum(rows[at : to + 1]) > most
        at = to


def test_two_files_of_one_commit_stay_together() -> None:
    files = [LakeFile("a", 1, 5, False, 0, 0), LakeFile("b", 1, 5, False, 1, 1), LakeFile("c", 1, 5, False, 1, 1)]
    assert step_end(files, 0, 2, 12) == 1
    assert step_end(files[1:], 1, 2, 7) == 2
    assert step_end([], 3, 9, 1) == 9  # commits without live events


def test_a_step_ends_at_its_commit_even_if_the_file_has_later_ones() -> None:
    compacted = [LakeFile("a", 1, 400, False, 0, 39)]
    assert step_end(compacted, 20, 31, 130) == 31  # there is room for 13 commits, but a build ends at its horizon
    assert step_end(compacted, 20, 31, 50) == 25
