"""POST /v1/streams/{s}/events in every format and compression: one verdict per event, all or nothing stored."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.cli.app import run
from tests.surfaces.conftest import Served, visit
from tests.surfaces.forms import BAD, FORMS, GOOD, TEXT_STREAM, as_parquet

EVENTS = "/v1/streams/visits/events"


@pytest.fixture
def served(applied: Path, serve: Callable[..., Served]) -> Served:
    (applied / "definitions" / "lines.sql").write_text(TEXT_STREAM)
    assert run(["apply", "--yes", "-w", str(applied)]) == 0
    return serve(applied)


@pytest.mark.parametrize("packing", ["", "gzip", "zstd"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("stated", [True, False])
def test_each_format_has_the_same_verdicts(served: Served, form: str, packing: str, stated: bool) -> None:
    kind, write = FORMS[form]
    body = write(GOOD, BAD, GOOD)
    headers = {"content-type": kind} if stated else {}
    if packing:
        body = gzip.compress(body) if packing == "gzip" else pa.compress(body, codec="zstd", asbytes=True)
        headers["content-encoding"] = packing
    reply = served.http.post(EVENTS, content=body, headers=headers)
    content = reply.json()
    assert (reply.status_code, content["accepted"], [item["index"] for item in content["refused"]]) == (
        200,
        2,
        [1],
    )
    assert "'at' takes TIMESTAMP" in content["refused"][0]["reason"]
    with_bad = served.http.post(EVENTS, content=body, headers=headers, params={"keep_bad": "true"}).json()
    assert (with_bad["accepted"], with_bad["refused"]) == (3, [])


def test_csv_with_stated_columns_and_delimiter(served: Served) -> None:
    body = b"ann|/home|200|5|2026-03-01 12:00:00\nbob|/|200\n"
    parameters = {"fields": "visitor,page,status,bytes,at", "delimiter": "|"}
    reply = served.http.post(EVENTS, content=body, params=parameters, headers={"content-type": "text/csv"}).json()
    assert (reply["accepted"], reply["refused"]) == (1, [{"index": 1, "reason": reply["refused"][0]["reason"]}])
    assert (
        "an array of 3 values (a CSV row whose number of cells differs from the header" in reply["refused"][0]["reason"]
    )


def test_lines_of_text_are_accepted_only_by_text_streams(served: Served) -> None:
    path = "/v1/streams/lines/events"
    body = b" one \r\n\ntwo"
    for headers in ({"content-type": "text/plain"}, {"content-type": "text/plain; charset=utf-8"}, {}):
        assert served.http.post(path, content=body, headers=headers).json()["accepted"] == 2
    reply = served.http.post(path, json=[visit()])
    assert reply.status_code == 400
    assert "stream 'lines' has the format TEXT; found events as json" in _sentence(reply.json())


@pytest.mark.parametrize(
    ("headers", "body", "status", "words"),
    [
        ({"content-type": "image/png"}, b"x", 415, "content type 'image/png' is not supported"),
        ({"content-encoding": "br"}, b"x", 415, "content encoding 'br' is not supported; expected gzip, zstd or none"),
        ({"content-encoding": "gzip"}, b"no gzip", 400, "the gzip data cannot be unpacked"),
        ({"content-encoding": "gzip"}, gzip.compress(b"{}")[:-4], 400, "the gzip data cannot be unpacked"),
        ({"content-encoding": "zstd"}, b"", 400, "the body is empty"),
        ({"content-type": "text/csv"}, b"a,b\n1,2\n", 400, "contains no field of the stream"),
        ({"content-type": "text/csv"}, b"", 400, "the body is empty"),
        ({"content-type": "application/vnd.apache.parquet"}, b"x", 400, "the Parquet file cannot be read"),
    ],
)
def test_an_unsupported_body_is_refused_with_a_reason(
    served: Served, headers: dict[str, str], body: bytes, status: int, words: str
) -> None:
    reply = served.http.post(EVENTS, content=body, headers=headers)
    assert (reply.status_code, words in _sentence(reply.json())) == (status, True), reply.json()


def test_a_body_that_exceeds_the_limit_when_unpacked_is_refused(applied: Path, serve: Callable[..., Served]) -> None:
    served = serve(applied, max_body_mb=1)
    spaces = gzip.compress(b" " * (2 << 20))
    long = as_parquet(*({"page": "/" + "x" * 1000} for _ in range(2000)))
    assert len(spaces) < 10_000
    assert len(long) < 100_000
    for body, headers in (
        (spaces, {"content-encoding": "gzip"}),
        (pa.compress(b" " * (2 << 20), codec="zstd", asbytes=True), {"content-encoding": "zstd"}),
        (long, {"content-type": "application/vnd.apache.parquet"}),
    ):
        reply = served.http.post(EVENTS, content=body, headers=headers)
        assert reply.status_code == 413, reply.json()
        assert "max_body_mb" in reply.json()["error"]["expected"]


def test_a_request_with_too_many_refused_events_is_refused(served: Served) -> None:
    reply = served.http.post(EVENTS, content=b"1\n" * 100_001, headers={"content-type": "application/x-ndjson"})
    assert reply.status_code == 400
    assert "more than 100,000 events of the request are refused" in _sentence(reply.json())
    assert "first at index 0" in _sentence(reply.json())


def _sentence(content: dict[str, Any]) -> str:
    return "; ".join(
        f"{part} {content['error'][part]}" if part != "message" else content["error"][part]
        for part in ("message", "found", "expected", "fix")
        if content["error"][part]
    )
