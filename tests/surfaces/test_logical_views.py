"""Logical views: asked by command, HTTP and Python, with a server and without; what they refuse; their page."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headrace.api.connect import connect
from headrace.errors import ConflictError, NotReadyError, QuestionError, SqlError, SqlLimitError
from headrace.serve.answer import Answer
from headrace.types import BIGINT, BOOLEAN, STRING, TIMESTAMP
from tests.surfaces.browser import chromium, open_tab
from tests.surfaces.conftest import Ran, Served
from tests.surfaces.sql_shop import NOON_MS, fill, fill_stopped, visit_of

LOGICAL = """
CREATE VIEW top_pages AS SELECT * FROM (SELECT page, window_start, hits, settled,
  row_number() OVER (PARTITION BY window_start ORDER BY hits DESC, page) AS rank FROM traffic) WHERE rank <= 1;
CREATE VIEW totals AS SELECT page, sum(hits) AS hits, approx_count_distinct_merge(visitors) AS visitors,
  bool_and(settled) AS settled FROM traffic GROUP BY page;
CREATE VIEW shares AS WITH every AS (SELECT sum(hits) AS hits FROM totals)
  SELECT t.page, t.hits / every.hits AS share FROM totals t, every ORDER BY share DESC, page;
CREATE VIEW broken AS SELECT page, CAST(page AS INT) AS number FROM traffic;
CREATE VIEW zero AS SELECT hits % 0 AS rest FROM traffic;
CREATE VIEW everything AS SELECT * FROM traffic;
CREATE VIEW large AS SELECT count(*) AS n FROM range(100000000) a, range(100000) b, traffic;
CREATE VIEW nested AS SELECT list(hits ORDER BY hits) AS hits, map {'a': max(hits)} AS m, min(window_start) AS first,
  CAST(sum(hits) AS HUGEINT) * 10000000000000000000 AS wide FROM traffic;
"""
NOON = datetime.fromtimestamp(NOON_MS / 1000, UTC)


@pytest.fixture
def logical(applied: Path, headrace: Callable[..., Ran]) -> Path:
    """A workspace with logical views, applied."""
    (applied / "definitions" / "logical.sql").write_text(LOGICAL)
    plan = headrace("plan", "-w", applied)
    assert "+ logical view top_pages  free: it is evaluated when it is queried" in plan.out
    assert headrace("apply", "--yes", "-w", applied).code == 0
    return applied


@pytest.fixture
def shop(logical: Path, serve: Callable[..., Served], tmp_path: Path) -> Served:
    """Served, with visits in the view that they read."""
    served = serve(logical)
    fill(served.runtime, tmp_path)
    return served


def test_http_answers_with_rows_and_the_state_of_each_part(shop: Served) -> None:
    reply = shop.http.get("/v1/views/shares")
    assert reply.status_code == 200, reply.text
    content = reply.json()
    assert content["rows"] == [
        {"page": "/home", "share": 0.6},
        {"page": "/cart", "share": 0.2},
        {"page": None, "share": 0.2},
    ]
    assert (content["version"], content["freshness_ms"], content["next_cursor"]) == (None, 0, None)
    assert content["as_of"]["commits"] == {"visits": 1}
    traffic = content["parts"]["traffic"]
    assert (traffic["version"], traffic["commits"], traffic["freshness_ms"]) == (1, {"visits": 1}, 0)
    assert traffic["settled_until"] == "2026-03-01T12:09:00Z"
    assert list(content["parts"]) == ["traffic"]


def test_types_windows_and_settled_pass_through(shop: Served) -> None:
    with connect(shop.url) as connection:
        answer = connection.ask("top_pages", order="newest")
        assert dict(answer.columns) == {
            "page": STRING, "window_start": TIMESTAMP, "hits": BIGINT, "settled": BOOLEAN, "rank": BIGINT,
        }  # fmt: skip
        assert [(row["page"], row["settled"]) for row in answer.rows()] == [
            (None, False), ("/cart", True), ("/home", True),
        ]  # fmt: skip
        assert answer.rows()[-1]["window_start"] == NOON
        assert connection.ask("top_pages", settled_only=True).rows() == answer.rows()[:0:-1]
        (nested,) = connection.ask("nested").rows()
        assert nested == {"hits": [1, 1, 1, 2], "m": {"a": 2}, "first": NOON, "wide": 5 * 10**19}
        assert answer.arrow().num_rows == 3
        assert "logical view" in answer._repr_html_()
        assert "logical view" in connection.view("top_pages")._repr_html_()
        assert Answer.from_dict(answer.as_dict()) == answer


def test_the_declared_columns_are_those_of_answers(shop: Served) -> None:
    with connect(shop.url) as connection:
        declared = {view.name: view.as_dict()["columns"] for view in connection.logical_views()}
        for name in ("everything", "top_pages", "totals", "shares"):
            columns = [{"name": column, "type": str(of)} for column, of in connection.ask(name).columns]
            assert columns == declared[name]


def test_merged_sketches_are_as_exact_as_in_sql(shop: Served) -> None:
    rows = shop.http.get("/v1/views/totals").json()["rows"]
    assert {row["page"]: row["visitors"] for row in rows} == {None: 1, "/cart": 1, "/home": 2}


def test_keys_having_order_and_pages(shop: Served) -> None:
    ask = shop.http.get
    assert [row["page"] for row in ask("/v1/views/totals?key.page=/home").json()["rows"]] == ["/home"]
    assert [row["hits"] for row in ask(r"/v1/views/totals?key.page=\N&key.page=/cart").json()["rows"]] == [1, 1]
    assert ask("/v1/views/totals?key.hits=3&key.settled=true").json()["rows"][0]["page"] == "/home"
    time = "/v1/views/top_pages?key.window_start=2026-03-01T12:00:00Z"
    assert [row["page"] for row in ask(time).json()["rows"]] == ["/home"]
    having = ask("/v1/views/totals", params={"having": "hits = 1 -- few", "order_by": "page DESC NULLS LAST"})
    assert [row["page"] for row in having.json()["rows"]] == ["/cart", None]
    pages, cursor = [], ""
    while cursor is not None:
        content = ask("/v1/views/totals", params={"limit": 1, "cursor": cursor}).json()
        pages += content["rows"]
        cursor = content["next_cursor"]
    assert [row["page"] for row in pages] == [None, "/cart", "/home"]
    other = ask("/v1/views/totals?limit=1").json()["next_cursor"]
    assert "another query" in ask(f"/v1/views/shares?cursor={other}").json()["error"]["message"]


def pages_of(shop: Served, first: str) -> list[str | None]:
    """The pages of a view from a cursor on, one row each."""
    rows, cursor = [], first
    while cursor is not None:
        content = shop.http.get("/v1/views/totals", params={"limit": 1, "cursor": cursor}).json()
        rows += content["rows"]
        cursor = content["next_cursor"]
    return [row["page"] for row in rows]


def test_all_pages_are_of_the_moment_of_the_first(shop: Served, tmp_path: Path) -> None:
    first = shop.http.get("/v1/views/totals?limit=1").json()
    assert (first["rows"][0]["page"], first["more_rows"]) == (None, 2)
    fill(shop.runtime, tmp_path, visits=[visit_of("/a", 2), visit_of("/home", 2)])
    assert pages_of(shop, first["next_cursor"]) == ["/cart", "/home"]
    second = shop.http.get("/v1/views/totals", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [row["hits"] for row in second["rows"]] == [1, 3]
    assert second["as_of"] == first["as_of"]
    now = shop.http.get("/v1/views/totals?limit=1").json()
    assert pages_of(shop, now["next_cursor"]) == ["/a", "/cart", "/home"]
    with connect(shop.url) as connection:
        assert len(connection.ask("totals").rows()) == 4


def test_pages_that_are_not_kept_are_evaluated_unless_what_they_read_has_changed(shop: Served, tmp_path: Path) -> None:
    first = shop.http.get("/v1/views/totals?limit=1").json()
    shop.runtime.answering._pages._entries.clear()
    assert pages_of(shop, first["next_cursor"]) == ["/cart", "/home"]
    shop.runtime.answering._pages._entries.clear()
    fill(shop.runtime, tmp_path, visits=[visit_of("/a", 2)])
    reply = shop.http.get("/v1/views/totals", params={"limit": 1, "cursor": first["next_cursor"]})
    error = reply.json()["error"]
    assert reply.status_code == 409
    assert "what view 'totals' is computed from has changed since the page that the cursor came" in error["message"]
    assert "`headrace sql --limit all` gives all rows of one moment" in error["fix"]


def test_the_stalest_part_is_named(shop: Served) -> None:
    content = shop.http.get("/v1/views/totals").json()
    assert (content["stalest"], content["freshness_ms"]) == ("traffic", content["parts"]["traffic"]["freshness_ms"])
    assert "stalest" not in shop.http.get("/v1/views/traffic").json()


def test_as_of_in_sql_is_of_what_it_reads(shop: Served) -> None:
    error = shop.http.post("/v1/sql", json={"query": "SELECT * FROM shares VERSION AS OF 1"}).json()["error"]
    assert error["message"] == "view 'shares' is logical, and AS OF in a query is of a materialized view or a table"
    assert "`headrace ask shares` takes --version-as-of and --timestamp-as-of" in error["fix"]


def test_a_lookup_has_the_order_of_its_keys(shop: Served) -> None:
    with connect(shop.url) as connection:
        answer = connection.lookup("totals", [{"page": "/home"}, {"page": "/none"}, {"page": None}])
        assert [row["hits"] for row in answer.rows()] == [3, 1]
        assert answer.missing == ({"page": "/none"},)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"start": "-1h"}, "view 'totals' is logical, so it cannot answer start"),
        ({"window": "1h"}, "cannot answer window"),
        ({"by": "page"}, "cannot answer by"),
        ({"version_as_of": "x"}, "version_as_of is not a number of commits"),
        ({"corrections": "true"}, "ask what it reads (traffic), or write a SELECT over it"),
        ({"key.pag": "x"}, "has no column 'pag'; expected page, hits, visitors, settled; did you mean 'page'?"),
        ({"key.hits": "many"}, "key 'hits' is of type BIGINT"),
        ({"having": "hit > 1"}, 'Referenced column "hit" not found'),
        ({"cursor": "xyz"}, "the cursor cannot be read"),
    ],
)  # fmt: skip
def test_questions_that_only_panes_answer_are_refused(shop: Served, parameters: dict[str, str], says: str) -> None:
    error = shop.http.get("/v1/views/totals", params=parameters).json()["error"]
    sentence = "; ".join(filter(None, (error["message"], error["expected"], error["fix"])))
    assert says.replace("; expected ", "; ") in sentence


def test_settled_only_needs_the_column(shop: Served) -> None:
    error = shop.http.get("/v1/views/shares?settled_only=true").json()["error"]
    assert "view 'shares' has no column settled" in error["message"]


def test_what_only_materialized_views_have_is_refused(shop: Served) -> None:
    with connect(shop.url) as connection:
        for work in (connection.versions, connection.audits, connection.refresh, connection.rollback):
            with pytest.raises(
                QuestionError, match=r"view 'shares' is logical: .*; name a view that it reads: traffic"
            ):
                work("shares")
        with pytest.raises(QuestionError, match="has no events of its own"):
            connection.explain("totals", key={"page": "/home"})
        with pytest.raises(QuestionError, match="has no changes"):
            connection.subscribe("totals", name="s")
    assert "has no changes" in shop.http.get("/v1/views/totals/changes").text


def test_failures_are_sentences_that_name_the_view(logical: Path, serve: Callable[..., Served], tmp_path: Path) -> None:
    served = serve(logical)
    fill(served.runtime, tmp_path)
    children = served.runtime.answering._children
    with connect(served.url) as connection:
        with pytest.raises(
            SqlError, match=r"view 'broken' cannot be computed: Could not convert string '/\w+' to INT32"
        ):
            connection.ask("broken")
        whole_s, children.timeout_s = children.timeout_s, 1.0
        with pytest.raises(
            SqlLimitError, match="view 'large' cannot be computed: the computation was stopped at its dead"
        ):
            connection.ask("large")
        children.timeout_s = whole_s  # the others must not be stopped on a slow machine
        with pytest.raises(
            SqlError, match=r"view 'zero' cannot be computed: Division by zero in .* Use TRY\("
        ) as error:
            connection.ask("zero")
        assert "SET" not in str(error.value)
        for condition in (
            "true) UNION ALL (SELECT page FROM traffic",
            "true); SELECT (1",
            "read_text('/etc/passwd') = ''",
        ):
            with pytest.raises(SqlError):
                connection.ask("totals", having=condition)
        assert connection.ask("totals").rows()


def test_too_little_memory_is_told(logical: Path, serve: Callable[..., Served], tmp_path: Path) -> None:
    many = "CREATE VIEW many AS SELECT list(repeat('x', 1000) || a.range) AS texts FROM range(1000000) a, traffic;"
    (logical / "definitions" / "many.sql").write_text(many)
    served = serve(logical, sql_memory_mb=256)
    served.verbs.apply()
    fill(served.runtime, tmp_path)
    with (
        connect(served.url) as connection,
        pytest.raises(SqlLimitError, match="the computation needs more memory than"),
    ):
        connection.ask("many")


def test_sql_reads_logical_views_beside_the_others(shop: Served) -> None:
    query = "SELECT s.share, t.hits FROM Shares s JOIN traffic t USING (page) WHERE t.settled ORDER BY 1 DESC, 2 DESC"
    content = shop.http.post("/v1/sql", json={"query": query}).json()
    assert [(row["share"], row["hits"]) for row in content["rows"]] == [(0.6, 2), (0.6, 1), (0.2, 1)]
    assert list(content["views"]) == ["traffic"]
    error = shop.http.post("/v1/sql", json={"query": "SELECT * FROM share"}).json()["error"]
    assert "did you mean 'shares'?" in error["fix"]


def test_lists_and_status_name_them(shop: Served, headrace: Callable[..., Ran], logical: Path) -> None:
    listed = shop.http.get("/v1/views").json()["logical"]
    assert [view["name"] for view in listed] == [
        "broken",
        "everything",
        "large",
        "nested",
        "shares",
        "top_pages",
        "totals",
        "zero",
    ]
    shares = next(view for view in listed if view["name"] == "shares")
    assert (shares["reads"], shares["parts"], shares["freshness_ms"]) == (["totals"], ["traffic"], 0)
    assert shares["columns"] == [{"name": "page", "type": "STRING"}, {"name": "share", "type": "DOUBLE"}]
    out = headrace("views", "-w", logical).out
    assert "logical view" in out
    assert "top_pages" in headrace("status", "-w", logical).out
    assert headrace("views", "-w", logical, "--json").json[-1]["name"] == "zero"


def test_the_command_and_an_edit(logical: Path, serve: Callable[..., Served], headrace: Callable[..., Ran]) -> None:
    fill_stopped(logical)
    shop = serve(logical)
    out = headrace("ask", "shares", "-w", logical).out
    assert "0.6" in out
    assert "3 rows · logical view · freshness: up to date" in out
    assert "from traffic: version 1 · as of 1 commit of visits" in out
    assert "window_start" in headrace("ask", "top_pages", "-w", logical).out
    definitions = logical / "definitions" / "logical.sql"
    cursor = shop.http.get("/v1/views/totals?limit=1").json()["next_cursor"]
    definitions.write_text(LOGICAL.replace("sum(hits) AS hits, approx", "max(hits) AS hits, approx"))
    plan = headrace("apply", "--yes", "-w", logical).out
    assert "~ logical view totals  free: the next query uses the new definition" in plan
    assert "query changed" in plan
    with connect(shop.url) as connection:
        assert connection.ask("totals", key={"page": "/home"}).rows()[0]["hits"] == 2
        with pytest.raises(ConflictError, match="view 'totals' was edited after the page that the cursor came from"):
            connection.ask("totals", limit=1, cursor=cursor)
    definitions.write_text(LOGICAL.replace("CREATE VIEW totals", "CREATE VIEW sums"))
    refused = headrace("apply", "--yes", "-w", logical)
    assert "view 'shares' reads 'totals', which does not exist" in refused.err
    definitions.unlink()
    assert "- logical view totals  nothing of it is stored" in headrace("apply", "--yes", "-w", logical).out


def test_logical_views_without_a_server(logical: Path, headrace: Callable[..., Ran]) -> None:
    with connect(logical) as connection, pytest.raises(NotReadyError, match="no view has ever been computed"):
        connection.ask("totals")
    fill_stopped(logical)
    with connect(logical) as connection:
        answer = connection.ask("totals")
        assert [row["hits"] for row in answer.rows()] == [1, 1, 3]
        assert answer.freshness_reason == "the server is not running"
        with pytest.raises(QuestionError, match="is logical"):
            connection.versions("totals")
    assert "top_pages" in headrace("views", "-w", logical).out


def test_a_part_that_is_not_there_yet(logical: Path, serve: Callable[..., Served], tmp_path: Path) -> None:
    served = serve(logical)
    assert served.http.get("/v1/views/totals").json()["rows"] == []
    fill(served.runtime, tmp_path, visits=[visit_of("/a", 0)])
    assert served.http.get("/v1/views/totals").json()["rows"][0]["hits"] == 1


def test_a_column_of_a_version_that_is_being_built(logical: Path, serve: Callable[..., Served]) -> None:
    fill_stopped(logical)
    served = serve(logical)
    shop = logical / "definitions" / "shop.sql"
    shop.write_text(shop.read_text().replace("sum(bytes)", "max(bytes) AS largest,\n       sum(bytes)"))
    (logical / "definitions" / "big.sql").write_text("CREATE VIEW big AS SELECT page, largest FROM traffic;")
    served.verbs.apply()  # without Spark the build waits, and the version before it serves
    error = served.http.get("/v1/views/big").json()["error"]
    assert "logical view 'big' cannot be evaluated over the versions that serve now" in error["message"]
    assert "largest" in error["found"]
    assert served.http.get("/v1/views/totals").json()["rows"]


def test_the_page_of_a_logical_view(shop: Served) -> None:
    with chromium() as browser:
        tab = open_tab(browser)
        tab.page.goto(shop.url)
        tab.page.get_by_role("region", name="logical views").get_by_role("link", name="shares").click()
        tab.page.get_by_role("heading", name="shares").wait_for()
        text = tab.page.inner_text("main")
        assert "logical view of totals" in text
        assert "ORDER BY share DESC" in text
        assert "0.6" in text
        tab.page.get_by_role("region", name="views that it is computed from").get_by_role(
            "link", name="traffic"
        ).click()
        tab.page.get_by_role("heading", name="traffic").wait_for()
        tab.check()
