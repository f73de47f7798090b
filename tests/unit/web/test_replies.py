"""Long-running replies: progress lines, early and late failures, and cancellation when the client disconnects."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import orjson
import pytest
from fastapi import FastAPI, Request
from starlette.responses import Response

from headrace.api.remote import RemoteWorkspace
from headrace.errors import HeadraceError, NotReadyError, QuestionError
from headrace.spark.jobs import Job, Progress
from headrace.web.application import TIMEOUTS
from headrace.web.http_server import HttpListener, bind, url_of
from headrace.web.replies import NDJSON, add_error_handlers, reply_when_done
from tests import http
from tests.waiting import wait_until

PROGRESS = Progress(3, 10, "events")


@dataclass
class Slow:
    """Work that ends when the test says so."""

    url: str = ""
    may_continue: threading.Event = field(default_factory=threading.Event)
    jobs: list[Job] = field(default_factory=list)

    def good(self, job: Job) -> dict[str, Any]:
        self.jobs.append(job)
        job.tell(PROGRESS)
        assert self.may_continue.wait(180)
        return {"rows": [1]}

    def bad(self, job: Job) -> dict[str, Any]:
        self.good(job)
        raise QuestionError("too late", fix="ask sooner")

    def refused(self, job: Job) -> dict[str, Any]:
        raise NotReadyError("Spark is starting")


@pytest.fixture
def slow() -> Iterator[Slow]:
    slow_work, app, listener = Slow(), FastAPI(), bind("127.0.0.1", 0)
    listener.listen()  # requests before the server's thread runs wait for it
    add_error_handlers(app)
    app.state.timeouts = TIMEOUTS

    @app.get("/{what}")
    async def work(what: str, request: Request) -> Response:
        run: Callable[[Job], dict[str, Any]] = getattr(slow_work, what)
        return await reply_when_done(request, run)

    server = HttpListener(app, 10)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    slow_work.url = url_of(listener)
    yield slow_work
    slow_work.may_continue.set()
    server.stop()
    thread.join()
    listener.close()


def lines(slow: Slow, path: str) -> list[dict[str, Any]]:
    """The lines of a reply; the work continues after its first progress."""
    contents = []
    with http.stream("GET", f"{slow.url}{path}", headers={"accept": NDJSON}) as reply:
        assert reply.headers["content-type"] == NDJSON
        for line in reply.iter_lines():
            contents.append(orjson.loads(line))
            slow.may_continue.set()
    return contents


def test_progress_and_then_the_answer(slow: Slow) -> None:
    first, *_, last = lines(slow, "/good")
    assert first == {"progress": {"done": 3, "known": 10, "unit": "events"}}
    assert last == {"answer": {"rows": [1]}}


def test_a_late_failure_is_the_last_line(slow: Slow) -> None:
    error = lines(slow, "/bad")[-1]["error"]
    assert (error["code"], error["message"], error["fix"]) == ("question", "too late", "ask sooner")


def test_without_ndjson_there_is_one_reply(slow: Slow) -> None:
    slow.may_continue.set()
    assert http.get(f"{slow.url}/good").json() == {"rows": [1]}
    assert http.get(f"{slow.url}/bad").status_code == 400
    assert http.get(f"{slow.url}/refused").status_code == 503


@pytest.mark.parametrize("headers", [{"accept": NDJSON}, {}])
def test_work_is_cancelled_when_the_client_disconnects(slow: Slow, headers: dict[str, str]) -> None:
    with (
        pytest.raises(httpx2.ReadTimeout),
        httpx2.Client(base_url=slow.url, trust_env=False, timeout=httpx2.Timeout(60, read=0.2)) as client,
    ):
        client.get("/good", headers=headers)
    wait_until(lambda: slow.jobs)
    (job,) = slow.jobs
    wait_until(lambda: job.cancelled)


def test_a_client_reports_progress_and_errors(slow: Slow) -> None:
    remote, job = RemoteWorkspace(slow.url), Job()
    hear = job.tell

    def tell(progress: Progress) -> None:
        hear(progress)
        slow.may_continue.set()

    job.tell = tell  # type: ignore[method-assign]
    assert remote.follow("GET", "/good", job) == {"rows": [1]}
    assert job.progress() == PROGRESS
    for path, message in (("/bad", "too late"), ("/refused", "Spark is starting")):
        with pytest.raises(HeadraceError, match=message):
            remote.follow("GET", path, Job())
    remote.close()
