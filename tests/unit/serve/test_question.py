"""Questions: the meaning of bounds, windows and keys, and the message for each mistake."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from headrace.define.model import Window
from headrace.errors import ConflictError, NotFoundError, QuestionError
from headrace.serve.answer import Answer
from headrace.serve.evaluate import answer, count_more, find_serving, read
from headrace.serve.explanation import CellQuestion
from headrace.serve.freshness import Fresh, up_to_date
from headrace.serve.question import Question
from headrace.serve.question_times import Bound, parse_bound
from headrace.serve.read_plan import find_cell, plan
from headrace.store.duckdb.duckdb_store import DuckStore
from headrace.store.store_contract import Step
from headrace.transport.position import Position
from headrace.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, decimal
from tests import wording
from tests.unit.store.partial_files import make_view, simple_event, write_partials

MINUTE = 60_000
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEYS = (STRING, BOOLEAN, INT, BIGINT, DOUBLE, decimal(5, 2), DATE, TIMESTAMP)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckStore]:
    folder: Path = tmp_path_factory.mktemp("serve")
    opened = DuckStore.open(folder / "store", fence=1)
    pages, five = make_view("pages"), make_view("five", window=Window(5 * MINUTE, 5 * MINUTE))
    total, typed, quiet = make_view("total", window=None), make_view("typed", keys=KEYS), make_view("quiet")
    for view in (pages, five, total, typed, quiet):
        opened.register(view, "f", {"events": 2 * MINUTE})
    events = [simple_event(key, at * MINUTE, at) for at in range(10) for key in ("/a", "/b", None, "\\N")]
    step = Step("events", 0, 1, Position.at(0), 9 * MINUTE * 1000 + 5, 0)
    steps = {(view.name, 1): [write_partials(folder / view.name, view, events)] for view in (pages, five, total)}
    opened.apply(step, steps)
    yield opened
    opened.close()


def ask(store: DuckStore, view: str = "pages", **parameters: Any) -> Answer:
    return answer(store, Question.of(view, **parameters), lambda version: Fresh(12), NOW)


def windows(result: Answer) -> list[tuple[int, int, int]]:
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    minute = timedelta(minutes=1)
    return [
        ((r["window_start"] - epoch) // minute, (r["window_end"] - epoch) // minute, r["count_all"])
        for r in result.rows()
    ]


def test_tumbling_windows_are_aligned_to_the_epoch_without_start(store: DuckStore) -> None:
    assert windows(ask(store, by=(), every="4m")) == [(0, 4, 16), (4, 8, 16), (8, 12, 8)]


def test_windows_are_aligned_to_start(store: DuckStore) -> None:
    result = ask(store, by=(), start="1970-01-01T00:01:00Z", end="1970-01-01T00:10:00Z", window="4m")
    assert windows(result) == [(1, 5, 16), (5, 9, 16)], "the last would end after `end`"


def test_sliding_windows_begin_before_the_first_event(store: DuckStore) -> None:
    result = ask(store, by=(), key={"k0": "/a"}, window="3m", every="1m", end="1970-01-01T00:04:00Z")
    assert windows(result) == [(-2, 1, 1), (-1, 2, 2), (0, 3, 3), (1, 4, 3)]


def test_sliding_windows_that_end_after_start_are_answered(store: DuckStore) -> None:
    result = ask(store, by=(), key={"k0": "/a"}, window="3m", every="1m", start="-2m", end="now")
    assert windows(result) == [(6, 9, 3), (7, 10, 3)]


def test_windows_with_gaps_leave_events_out(store: DuckStore) -> None:
    assert windows(ask(store, by=(), key={"k0": "/a"}, window="1m", every="5m")) == [(0, 1, 1), (5, 6, 1)]


def test_the_newest_windows_come_first_if_asked_for(store: DuckStore) -> None:
    result = ask(store, by=(), order="newest", limit=2)
    assert windows(result) == [(9, 10, 4), (8, 9, 4)]
    assert result.more_rows == 8
    assert windows(ask(store, by=(), order="newest", limit=2, cursor=result.next_cursor)) == [(7, 8, 4), (6, 7, 4)]
    keys = [(row["k0"], row["window_start"].minute) for row in ask(store, order="newest", limit=5).rows()]
    assert keys == [(None, 9), ("/a", 9), ("/b", 9), ("\\N", 9), (None, 8)], "keys are in order within a window"


def test_sliding_windows_come_newest_first_too(store: DuckStore) -> None:
    parameters: dict[str, Any] = {"by": (), "window": "3m", "every": "2m", "key": {"k0": "/a"}}
    oldest = windows(ask(store, **parameters))
    first = ask(store, **parameters, order="newest", limit=2)
    rest = ask(store, **parameters, order="newest", cursor=first.next_cursor)
    assert first.more_rows is None, "there are more, and windows that overlap are not counted"
    assert windows(first) + windows(rest) == oldest[::-1]


def test_one_window_over_all_time(store: DuckStore) -> None:
    (row,) = ask(store, by=(), window="all").rows()
    assert (row["window_start"], row["window_end"], row["count_all"], row["settled"]) == (None, None, 40, False)
    result = ask(store, key={"k0": "/a"}, window="ALL", start="1970-01-01T00:02:00Z", end="1970-01-01T00:05:00Z")
    assert windows(result) == [(2, 5, 3)]
    assert [row["settled"] for row in result.rows()] == [True]
    assert result.windows == {
        "start": "1970-01-01T00:02:00Z",
        "end": "1970-01-01T00:05:00Z",
        "counted_from": None,
        "window_ms": None,
        "every_ms": None,
    }
    assert len(ask(store, "total", window="all").rows()) == 4, "a view without window has no other"


def test_an_answer_says_how_many_rows_follow(store: DuckStore) -> None:
    result = ask(store, limit=3)
    assert result.more_rows == 37
    assert ask(store, limit=30, cursor=result.next_cursor).more_rows == 7
    assert ask(store, limit=40).more_rows == 0


def test_rows_that_would_take_long_to_count_are_not_counted(store: DuckStore) -> None:
    with store.snapshot() as snapshot:
        version = find_serving(snapshot, "pages")
        read_plan = plan(Question.of("pages"), version)
        rows = read(snapshot, version, read_plan, 4)
        assert count_more(snapshot, version, read_plan, rows[2], most_counted=36) is None
        assert count_more(snapshot, version, read_plan, rows[3], most_counted=36) == 36


def test_relative_times_count_from_the_end_of_the_newest_pane_and_the_answer_says_so(store: DuckStore) -> None:
    result = ask(store, by=(), start="-2m")
    assert windows(result) == [(8, 9, 4), (9, 10, 4)]
    assert result.windows is not None
    assert result.windows["counted_from"] == "1970-01-01T00:10:00Z"
    assert result.windows["start"] == "1970-01-01T00:08:00Z"


def test_a_relative_question_before_any_event_is_empty(store: DuckStore) -> None:
    result = ask(store, "quiet", start="-1h", end="now")
    assert (result.rows(), result.newest_event, result.commits) == ([], None, {"events": 0})


def test_a_view_without_window_gives_one_row_per_key(store: DuckStore) -> None:
    rows = ask(store, "total").rows()
    assert [(r["k0"], r["count_all"]) for r in rows] == [(None, 10), ("/a", 10), ("/b", 10), ("\\N", 10)]
    assert {(r["window_start"], r["window_end"], r["settled"]) for r in rows} == {(None, None, False)}


def test_a_row_is_settled_once_newest_is_past_its_end_by_the_patience(store: DuckStore) -> None:
    result = ask(store, by=())
    assert [row["settled"] for row in result.rows()] == [True] * 7 + [False] * 3


def test_null_and_its_escape_in_text(store: DuckStore) -> None:
    def keys(*parameters: tuple[str, str]) -> list[Any]:
        question = Question.from_text("pages", [*parameters, ("every", "1h")])
        return [row["k0"] for row in answer(store, question, up_to_date, NOW).rows()]

    assert keys(("key.k0", r"\N")) == [None]
    assert keys(("key.k0", r"\\N")) == [r"\N"]
    assert keys(("key.k0", "/b"), ("key.k0", "/a")) == ["/a", "/b"]
    assert keys(("key.k0", "")) == []


def test_text_parameters_equal_python_values() -> None:
    text = [("key.a", "1"), ("by", "a,b"), ("start", "-90m"), ("window", "1 hour"), ("every", "5m"), ("limit", "7")]
    spans = {"window": timedelta(hours=1), "every": timedelta(minutes=5)}
    python = Question.of("v", {"a": ["1"]}, by=["a", "b"], start=timedelta(minutes=-90), **spans, limit=7)
    assert Question.from_text("v", text) == python
    assert Question.from_text("v", [("by", "")]).by == ()
    assert Question.from_text("v", []).by is None


@pytest.mark.parametrize(
    "value",
    [
        "1970-01-01T01:00:00Z",
        "1970-01-01T01:00",
        "1970-01-01 02:00:00+01:00",
        datetime(1970, 1, 1, 1),  # noqa: DTZ001 - without a zone it is UTC
        datetime(1970, 1, 1, 3, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_times_are_utc_unless_they_have_a_zone(value: Any) -> None:
    assert parse_bound("start", value) == Bound(3_600_000)


def test_dates_are_midnight_in_utc() -> None:
    assert parse_bound("start", date(1970, 1, 2)) == parse_bound("start", "1970-01-02") == Bound(86_400_000)


@pytest.mark.parametrize(
    ("key", "right", "wrong"),
    [
        ("k0", ["text"], [5, b"x"]),
        ("k1", [True, "false", "TRUE"], ["yes", 1]),
        ("k2", [5, "-5"], ["5.0", 2**31, 1.0, True]),
        ("k3", [2**63 - 1, "12"], [2**63, "x"]),
        ("k4", [1.5, "1e3", "NaN", 2, Decimal("1.5")], ["x", True]),
        ("k5", [Decimal("999.99"), "1.5", 3, 0.25], ["1000", "0.001", "x", "NaN", True]),
        ("k6", [date(2026, 1, 1), "2026-01-01"], [NOW, "2026-13-01"]),
        ("k7", [NOW, "2026-01-01T00:00:00Z"], ["noon", date(2026, 1, 1)]),
    ],
)
def test_key_values_are_typed_by_the_key(store: DuckStore, key: str, right: list[Any], wrong: list[Any]) -> None:
    for value in [*right, None]:
        ask(store, "typed", key={key: value})
    for value in wrong:
        with wording.raises(QuestionError, key):
            ask(store, "typed", key={key: value})


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"start": "noon"}, "start is not a time; found 'noon'; expected ISO 8601"),
        ({"start": 1_700_000_000}, "start is not a time; found 1700000000.*write '2023-11-14T22:13:20Z'"),
        ({"end": "1700000000000"}, "end is not a time.*write '2023-11-14T22:13:20Z'"),
        ({"start": datetime(2026, 1, 1, microsecond=1, tzinfo=UTC)}, "start is not a whole millisecond"),
        ({"start": "2026-01-01T00:00:30Z"}, "nearest that work are '2026-01-01T00:00:00Z' and '2026-01-01T00:01:00Z'"),
        ({"start": "-90s"}, "found -90 seconds.*nearest that work are '-2 minutes' and '-1 minute'"),
        ({"end": "-30s"}, "nearest that work are '-1 minute' and 'now'"),
        ({"start": "-1m", "end": "-1m"}, "end must lie after start; found start .*expected closed-open"),
        (
            {"window": "90s"},
            "window is not a multiple of the view's pane; found '90 seconds'.*'1 minute' and '2 minutes'",
        ),
        ({"every": "1s"}, "every is not a multiple.*nearest that work: '1 minute'$"),
        ({"every": "soon"}, "every: .*'soon' is not a duration"),
        ({"start": "-1 fortnight"}, "start: .*unknown unit"),
        ({"window": 5}, "window is a duration; found 5; expected text such as '5 minutes'"),
        ({"window": "0s"}, "window must be greater than 0"),
        ({"key": {"k00": "x"}}, "view 'pages' has no key 'k00'; expected 'k0'; did you mean 'k0'"),
        ({"key": {"count_all": 3}}, "no key 'count_all'.*is an aggregate, which having filters: --having"),
        ({"key": [3]}, "key takes key = value pairs; found 3"),
        ({"key": {"k0": []}}, "a key is given with no value"),
        (
            {"key": {"k0": [str(i) for i in range(10_001)]}},
            "too many keys at once; expected at most 10000; ask in parts",
        ),
        ({"by": "k00"}, "has no key 'k00'.*did you mean 'k0'"),
        ({"by": "k0,k0"}, "by names a key twice; found k0, k0"),
        ({"limit": 0}, "limit is out of range; found 0; expected 1 to 10000"),
        ({"limit": "many"}, "limit is out of range; found 'many'"),
        ({"limit": 10_001}, "limit is out of range"),
        ({"cursor": "rubbish!"}, "the cursor cannot be read; found 'rubbish!'.*omit it"),
        ({"version_as_of": ""}, "version_as_of is not a number of commits; found ''"),
        ({"version_as_of": "a=1,b"}, "version_as_of is not a number of commits; found ''"),
        ({"version_as_of": "a=1,a=2"}, "version_as_of takes each stream once; found 'a' twice"),
        ({"version_as_of": {}}, "version_as_of takes each stream once; found no stream"),
        ({"version_as_of": {"a": 1.5}}, "version_as_of is not a number of commits; found 1.5"),
        ({"timestamp_as_of": ""}, "timestamp_as_of is not a time; found ''"),
        ({"timestamp_as_of": "-1 parsec"}, "timestamp_as_of: .*unknown unit; found 'parsec'"),
        ({"order": "up"}, "the order of windows is not known; found 'up'; expected 'oldest' or 'newest'"),
        ({"window": "all", "every": "5m"}, "window 'all' is one window; found every '5m'; leave out every"),
        ({"view": "total", "start": "-1h"}, "view 'total' has no window, so it takes no start.*declare"),
        ({"view": "total", "window": "1h"}, "takes no window"),
    ],
)
def test_each_mistake_has_its_message(store: DuckStore, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(QuestionError, match=message):
        ask(store, **parameters)


def test_a_relative_commit_time_counts_from_now() -> None:
    hour = timedelta(hours=1)
    before = datetime.now(UTC)
    as_of = Question.of("hits", timestamp_as_of="-1h").as_of
    assert as_of is not None
    assert as_of.time is not None
    assert before - hour <= as_of.time <= datetime.now(UTC) - hour


@pytest.mark.parametrize(
    "parameters",
    [
        {"start": "1970-01-01T00:00:30Z"},
        {"start": "-90s"},
        {"end": "-30s"},
        {"end": "-1s"},
        {"window": "90s"},
        {"every": "1s"},
        {"start": 300},
        {"end": "540000"},
        {"key": {"k00": "/a"}},
        {"by": "k00"},
    ],
)
def test_what_a_message_suggests_is_answered(store: DuckStore, parameters: dict[str, Any]) -> None:
    """Each value after 'the nearest that work', 'write' or 'did you mean'."""
    with pytest.raises(QuestionError) as caught:
        ask(store, **parameters)
    ((name, value),) = parameters.items()
    suggested = re.findall("'([^']+)'", re.split("nearest that work|write|did you mean", str(caught.value))[-1])
    assert suggested
    for text in suggested:
        ask(store, **{name: {text: next(iter(value.values()))} if isinstance(value, dict) else text})


def test_an_unknown_key_is_refused_with_a_list_of_the_keys(store: DuckStore) -> None:
    with wording.raises(QuestionError, "zzz", "k0"):
        ask(store, key={"zzz": 1})


def test_a_cursor_of_another_question_is_refused(store: DuckStore) -> None:
    cursor = ask(store, limit=1).next_cursor
    assert ask(store, limit=5, cursor=cursor).values[0][0] == "/a"
    with wording.raises(QuestionError):
        ask(store, limit=1, cursor=cursor, every="2m")


def test_a_cursor_from_before_an_edit_is_refused(tmp_path: Path) -> None:
    store = DuckStore.open(tmp_path / "store", fence=1)
    view = make_view("edited")
    store.register(view, "before", {"events": 0})
    store.apply(
        Step("events", 0, 1, Position.at(0), 5, 0),
        {("edited", 1): [write_partials(tmp_path / "p", view, [simple_event(key, 0) for key in "ab"])]},
    )
    cursor = ask(store, "edited", limit=1).next_cursor
    store.adopt(view, "before", {"events": 1000}, 1)
    assert len(ask(store, "edited", cursor=cursor).rows()) == 1, (
        "a cursor is valid for a new version of the same definition"
    )
    store.adopt(view, "after", {"events": 0}, 2)
    with wording.raises(ConflictError, "edited"):
        ask(store, "edited", cursor=cursor)
    store.close()


def test_an_unknown_view_is_refused_with_a_suggestion(store: DuckStore) -> None:
    with wording.raises(NotFoundError, "pages", "headrace views"):
        ask(store, "page")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("windw", ("windw", "window")),
        ("page", ("page",)),
    ],
)
def test_an_unknown_parameter_is_refused(name: str, values: tuple[str, ...]) -> None:
    with wording.raises(QuestionError, *values):
        Question.from_text("pages", [(name, "x")])


def test_a_parameter_given_twice_is_refused() -> None:
    with wording.raises(QuestionError, "limit"):
        Question.from_text("pages", [("limit", "1"), ("limit", "2")])


@pytest.mark.parametrize("window", ["1m", "36500d"])
def test_bounds_at_the_first_and_last_year(store: DuckStore, window: str) -> None:
    first, last = "0001-01-01T00:00:00Z", "9999-12-31T23:59:00Z"
    for bounds in ({"start": first}, {"end": last}, {"start": first, "end": last}, {"start": last}):
        result = ask(store, by=(), window=window, every="1m" if window == "1m" else "365d", **bounds)
        result.as_dict()
        assert bool(result.rows()) == ("0001" in bounds.get("start", "0001"))


def test_a_cell_whose_window_would_end_after_all_years_is_refused(store: DuckStore) -> None:
    with store.snapshot() as snapshot:
        version = snapshot.serving("pages")
        assert version is not None
        late = CellQuestion.of("pages", key={"k0": "/a"}, at="9999-12-31T23:59:59.999999Z")
        with wording.raises(QuestionError, 9999):
            find_cell(late, snapshot, version)
        before = CellQuestion.of("pages", key={"k0": "/a"}, at="9999-12-31T23:58:59Z")
        assert find_cell(before, snapshot, version).end_ms is not None


def test_a_key_that_no_year_of_utc_holds_is_refused(store: DuckStore) -> None:
    early = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
    with wording.raises(QuestionError, "k7", "TIMESTAMP"):
        ask(store, "typed", key={"k7": early})
