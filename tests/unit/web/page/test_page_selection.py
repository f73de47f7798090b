"""The parameters in the URL of a view's page: URLs round-trip, mistakes are refused, ranges become windows."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qsl, urlsplit

import pytest

from headrace.errors import QuestionError
from headrace.server.status import ColumnStatus, ViewStatus
from headrace.web.page.page_selection import PageSelection, find_steps, read_range, to_ms
from tests import wording
from tests.status import view_status

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOSTILE = "<script>alert('1')</script>\"&=#?\\N"


NEWEST = "2026-03-01T12:00:30Z"


def view(window_ms: int | None = MINUTE) -> ViewStatus:
    return view_status(
        name="traffic",
        keys=("page", "status"),
        columns=(
            ColumnStatus("hits", "count", "BIGINT"),
            ColumnStatus("last", "max", "STRING"),
            ColumnStatus("bytes", "sum", "DECIMAL(38,0)"),
        ),
        window_ms=window_ms,
        every_ms=window_ms,
        newest_event=NEWEST,
    )


def test_a_url_is_read_back_as_it_was_written() -> None:
    selection = PageSelection(
        "traffic",
        keys=(("page", HOSTILE), ("page", "/home"), ("status", r"\N")),
        start="-6h",
        end="2026-03-01T12:00:00+01:00",
        column="bytes",
        by=("status", "page"),
        sort="-last",
    )
    path = urlsplit(selection.path("rows"))
    assert (path.path, path.fragment) == ("/views/traffic", "rows")
    assert PageSelection.read(view(), parse_qsl(path.query)) == selection
    assert PageSelection("traffic").path() == "/views/traffic"
    empty = [("key.page", ""), ("start", ""), ("end", " "), ("column", ""), ("by", ""), ("sort", "")]
    assert PageSelection.read(view(), empty) == PageSelection("traffic")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("sorrt", "hits", "the page of a view has no parameter 'sorrt'; expected key.<name>, start, end, column, by, "),
        ("sort", "hit", "has no column to sort by 'hit'; expected 'page', 'status', 'hits', 'last', 'bytes', 'window_"),
        ("sort", "--hits", "has no column to sort by '-hits'"),
        ("sort", HOSTILE, "has no column to sort by '<script>"),
        ("column", "last", "has no column of numbers 'last'; expected 'hits', 'bytes'"),
        ("by", "pages", "has no key 'pages'; expected 'page', 'status'; did you mean 'page'?"),
        ("by", "page,page", "by names a key twice"),
        ("key.user", "ann", "has no key 'user'"),
        ("start", "yesterday", "start is not a time; found 'yesterday'"),
        ("end", "-99999999d", "longer than 100 years"),
        ("end", "oldest", "end is not a time"),
    ],
)
def test_an_invalid_parameter_is_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(QuestionError) as error:
        PageSelection.read(view(), [(name, text)])
    assert message in str(error.value)


def test_a_parameter_is_given_once_and_a_range_needs_a_window() -> None:
    with wording.raises(QuestionError, "sort"):
        PageSelection.read(view(), [("sort", "hits"), ("sort", "-hits")])
    with wording.raises(QuestionError):
        PageSelection.read(view(None), [("start", "-1h")])
    with wording.raises(QuestionError, "window_start"):
        PageSelection.read(view(None), [("sort", "window_start")])


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        ("", "", (None, NOON + timedelta(minutes=1))),
        ("oldest", "now", (None, NOON + timedelta(minutes=1))),
        ("-90s", "", (NOON - timedelta(minutes=1), NOON + timedelta(minutes=1))),
        ("2026-03-01T11:00:59", "2026-03-01T11:30:01", (NOON - timedelta(hours=1), NOON - timedelta(minutes=29))),
        ("0001-01-01", "9999-12-31T23:59:59.999", (datetime(1, 1, 1, tzinfo=UTC), NOON + timedelta(minutes=1))),
    ],
)
def test_a_range_is_widened_to_panes_and_ends_with_the_newest_event(
    start: str, end: str, expected: tuple[datetime | None, datetime]
) -> None:
    range_ = read_range((MINUTE, MINUTE), NEWEST, PageSelection("traffic", start=start, end=end))
    assert range_.start_ms == (to_ms(expected[0]) if expected[0] else None)
    assert range_.end_ms == to_ms(expected[1])


@pytest.mark.parametrize(("start", "end"), [("now", ""), ("9999-12-31", ""), ("-1h", "-2h"), ("-1m", "0001-01-01")])
def test_an_empty_range_is_refused(start: str, end: str) -> None:
    with wording.raises(QuestionError):
        read_range((MINUTE, MINUTE), NEWEST, PageSelection("traffic", start=start, end=end))


@pytest.mark.parametrize(
    ("window", "every", "span", "expected"),
    [
        (MINUTE, MINUTE, 180 * MINUTE, (MINUTE, MINUTE)),
        (MINUTE, MINUTE, 181 * MINUTE, (2 * MINUTE, 2 * MINUTE)),
        (MINUTE, MINUTE, DAY, (10 * MINUTE, 10 * MINUTE)),
        (5 * MINUTE, MINUTE, 300 * MINUTE, (5 * MINUTE, 2 * MINUTE)),  # longer steps, the same windows
        (5 * MINUTE, MINUTE, 7 * DAY, (HOUR, HOUR)),
        (7 * MINUTE, 7 * MINUTE, DAY, (14 * MINUTE, 14 * MINUTE)),  # no round step is a multiple of the window
    ],
)
def test_a_long_range_has_longer_windows(window: int, every: int, span: int, expected: tuple[int, int]) -> None:
    end = to_ms(NOON)
    steps = find_steps((window, every), end - span, end, 180)
    assert (steps.size_ms, steps.step_ms) == expected
    assert steps.places <= 180


def test_every_window_of_a_range_has_its_place() -> None:
    generator = random.Random(12)
    for _ in range(300):
        every = generator.choice([1, 2, 3, 5, 60]) * MINUTE
        window = every * generator.choice([1, 1, 2, 5])
        end = to_ms(NOON) // every * every + generator.randrange(-9, 9) * every
        start = end - generator.randrange(1, 5000) * every
        steps = find_steps((window, every), start, end, 180)
        assert 1 <= steps.places <= 181
        ends = [steps.end_ms - steps.step_ms * at for at in range(steps.places)]
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        places = [steps.place(epoch + timedelta(milliseconds=ms)) for ms in ends]
        assert places == list(range(steps.places))[::-1]
        assert all((ms - steps.size_ms) % steps.step_ms == 0 for ms in ends)  # aligned as the view's own windows
        assert ends[-1] <= start + steps.step_ms + steps.size_ms
        assert ends[0] > end - steps.step_ms
