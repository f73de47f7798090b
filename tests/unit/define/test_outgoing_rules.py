"""Sinks and alerts: SQL and Python make equal objects, which survive JSON, and plans say what becomes of them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import headrace as hr
from headrace.define.catalog import Catalog, load, parse
from headrace.define.connectors import CONNECTORS
from headrace.define.fingerprint import fingerprint, from_json, to_json
from headrace.define.model import Alert, Output, Sink
from headrace.define.outgoing_rules import row_keys, row_types
from headrace.errors import DefinitionError
from headrace.language.terms import Expression
from headrace.plan.differences import compare
from headrace.types import BIGINT, BOOLEAN, STRING, TIMESTAMP
from headrace.workspace.applied_catalog import read_running, write_running
from tests import wording

BASE = """
CREATE STREAM visits (page STRING, status INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL 10 SECONDS);
CREATE MATERIALIZED VIEW traffic AS SELECT page, count(*) AS hits FROM visits GROUP BY page, window(at, '1 minute');
CREATE MATERIALIZED VIEW totals AS SELECT page, count(*) AS hits FROM visits GROUP BY page;
"""
SINK = """CREATE SINK hook FROM traffic WHERE hits > 10
WITH (connector = 'http', url = 'http://a/b', token = 'secret:T', batch.rows = 5) EMIT ON WINDOW CLOSE;"""
ALERT = "CREATE ALERT busy AS SELECT page, hits * 2 AS twice FROM traffic WHERE hits > 5 FOR INTERVAL 2 MINUTES;"
QUIET = "CREATE ALERT quiet ON STREAM visits WHEN ABSENT FOR INTERVAL 5 MINUTES WITH (webhook = 'http://a');"
RUNNING = parse(BASE + SINK + ALERT + QUIET)
OPTIONS = (("batch.rows", "5"), ("token", "secret:T"), ("url", "http://a/b"))


def sink(text):
    (found,) = parse(BASE + text).sinks.values()
    return found


def files(clauses="", **options):
    given = "".join(f", {name} = '{value}'" for name, value in options.items())
    return f"CREATE SINK s FROM traffic WITH (connector = 'files', path = 'out'{given}) {clauses};"


def only(before, after):
    (change,) = compare(parse(BASE + before), parse(BASE + after)).changes
    return change


def test_a_sink():
    condition = Expression.stored("hits > 10", BOOLEAN)
    assert RUNNING.sinks["hook"] == Sink("hook", "traffic", "http", OPTIONS, condition, "update", True, True)


def test_alerts():
    alert = RUNNING.alerts["busy"]
    assert (alert.source, alert.for_ms, alert.absent_ms) == ("traffic", 120_000, None)
    assert [output.name for output in alert.outputs] == ["page", "twice"]
    assert alert.outputs[0] == Output("page", Expression.field("page", STRING))
    options = (("connector", "http"), ("url", "http://a"))
    assert RUNNING.alerts["quiet"] == Alert("quiet", "visits", absent_ms=300_000, options=options)


def test_columns_of_a_row():
    view = RUNNING.views["traffic"]
    assert row_types(view) == {
        "page": STRING,
        "window_start": TIMESTAMP,
        "window_end": TIMESTAMP,
        "hits": BIGINT,
        "settled": BOOLEAN,
    }
    assert row_keys(view) == ("page", "window_start")
    assert row_keys(RUNNING.views["totals"]) == ("page",)
    assert row_keys(RUNNING.streams["visits"]) == ()


def test_python_makes_the_same():
    visits = hr.Stream("visits", "page STRING, status INT, at TIMESTAMP", event_time="at", patience="10 seconds")
    traffic = hr.View("traffic", visits.group_by("page", hr.window("1 minute")).agg(hits=hr.count()))
    options = {"url": "http://a/b", "token": "secret:T", "batch.rows": 5}
    assert hr.Sink("hook", traffic, "http", options, where="hits > 10", on_close=True) == RUNNING.sinks["hook"]
    quiet = hr.Alert("quiet", visits, absent="5 minutes", options={"webhook": "http://a"})
    assert quiet == RUNNING.alerts["quiet"]
    busy = hr.Alert("busy", traffic, "hits > 5", columns=["page"], hold="2 minutes")
    assert busy == replace(RUNNING.alerts["busy"], outputs=RUNNING.alerts["busy"].outputs[:1])


def test_python_files_declare_them(tmp_path):
    (tmp_path / "a.py").write_text(
        "import headrace as hr\n"
        "s = hr.Stream('s', 'a INT')\n"
        "out = hr.Sink('out', s, 'files', {'path': 'out'})\n"
        "quiet = hr.Alert('quiet', s, absent='5 minutes')\n"
    )
    catalog = load(tmp_path)
    assert list(catalog.sinks) == ["out"]
    assert list(catalog.alerts) == ["quiet"]
    assert catalog.sinks["out"].mode == "append"


def test_json_gives_the_same_back(tmp_path):
    for definition in RUNNING.definitions:
        assert from_json(json.loads(json.dumps(to_json(definition)))) == definition
    assert len({fingerprint(definition) for definition in RUNNING.definitions}) == len(RUNNING)
    write_running(tmp_path / "catalog.json", RUNNING)
    assert read_running(tmp_path / "catalog.json") == RUNNING


@pytest.mark.parametrize(
    ("text", "mode", "on_close", "corrections"),
    [
        (files(), "update", False, True),
        (files("FORMAT UPSERT ENCODE JSON"), "update", False, True),
        (files("FORMAT PLAIN ENCODE PARQUET"), "append", True, False),
        (files(mode="append"), "append", True, False),
        (files(mode="complete"), "complete", False, True),
        (files("EMIT ON WINDOW CLOSE"), "update", True, True),
        (files("EMIT ON WINDOW CLOSE", corrections="off"), "update", True, False),
        (files("EMIT FINAL"), "update", True, True),
        (files("FORMAT APPEND EMIT ON WINDOW CLOSE"), "append", True, False),
        (files().replace("traffic", "visits"), "append", False, True),
    ],
)
def test_modes(text, mode, on_close, corrections):
    found = sink(text)
    assert (found.mode, found.on_close, found.corrections) == (mode, on_close, corrections)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (files("FORMAT APPEND", mode="update"), ('APPEND',)),
        (files("FORMAT DEBEZIUM ENCODE JSON"), ('DEBEZIUM',)),
        (files("FORMAT UPSERT ENCODE AVRO"), ('AVRO', 'ENCODE JSON')),
        (files("ENCODE JSON"), ('WHERE', 'WITH', 'FORMAT', 'EMIT', ';')),
        (files("FORMAT UPSERT ENCODE JSON", format="parquet"), ()),
        (files(mode="append", corrections="true"), ('FORMAT APPEND',)),
        (files(corrections="false"), ('EMIT ON WINDOW CLOSE',)),
        (files("EMIT ON WINDOW CLOSE", corrections="maybe"), ()),
        (files("EMIT ON WINDOW CLOSE", mode="complete"), ('complete',)),
        (files(**{"scan.startup.mode": "latest"}), ()),
        (files(format="orc"), ('parquet', 'json')),
        (files(**{"batch.rows": "many"}), ('1',)),
        (files("EMIT SOMETIMES"), ('ON WINDOW CLOSE', 'CHANGES', 'EMIT')),
        (files("WHERE hits > 1 WHERE hits > 2"), ('WHERE',)),
        (files("WHERE hits"), ('WHERE',)),
        ("CREATE SINK s FROM traffic;", ()),
        ("CREATE SINK s FROM traffic WITH (path = 'x');", ()),
        ("CREATE SINK traffic FROM traffic WITH (connector = 'files', path = 'x');", ()),
        ("CREATE SINK s FROM traffic WITH (connector = 'http', url = 'ftp://x');", ()),
        ("CREATE SINK s INTO t FROM traffic;", ('CREATE SINK', 'INTO')),
        ("CREATE ALERT a AS SELECT page FROM visits WHERE status > 1;", ()),
        ("CREATE ALERT a AS SELECT page FROM traffic GROUP BY page;", ('GROUP',)),
        ("CREATE ALERT a AS SELECT page FROM trafic WHERE hits > 1;", ('traffic',)),
        ("CREATE ALERT a AS SELECT hits + 1 FROM traffic WHERE hits > 1;", ()),
        ("CREATE ALERT a ON STREAM visits WHEN ABSENT FOR INTERVAL 5 MILLISECONDS;", ('1',)),
    ],
)  # fmt: skip
def test_refusals(text, values):
    with pytest.raises(DefinitionError) as refused:
        parse(BASE + text)
    wording.check(refused.value, *values)


def test_a_mistake_in_an_option_has_its_place():
    for text, column in ((files(pth="x"), 69), (files(format="orc"), 69), (files().replace("files", "fils"), 34)):
        with pytest.raises(DefinitionError) as refused:
            parse(BASE.replace("\n", " ") + "\n" + text)
        assert (refused.value.where.line, refused.value.where.column) == (2, column), text


def test_one_mistake_of_a_view_is_one_message():
    with pytest.raises(DefinitionError) as refused:
        parse(BASE.replace("count(*) AS hits", "nope(page) AS hits") + SINK)
    assert "hook" not in str(refused.value)


def test_plans():
    created = compare(Catalog(), RUNNING).changes
    assert [(change.kind, change.what, change.name) for change in created][3:] == [
        ("create", "sink", "hook"),
        ("create", "alert", "busy"),
        ("create", "alert", "quiet"),
    ]
    wording.check(created[3].reason)
    assert "token: secret:T" in created[3].details
    assert [change.name for change in compare(RUNNING, Catalog()).changes][:3] == ["busy", "quiet", "hook"]
    assert compare(RUNNING, RUNNING).empty


def test_a_harmless_change_goes_on():
    change = only(SINK, SINK.replace("http://a/b", "http://c/d").replace("secret:T", "topsecret"))
    wording.check(change.reason)
    assert change.details == ("token: secret:T → ***", "url: http://a/*** → http://c/***")
    assert only(SINK, SINK.replace("http://a/b", "http://a/c")).details == ("url: changed (hidden)",)
    hooked = QUIET.replace("http://a", "http://a/b")
    assert only(hooked, hooked.replace("a/b", "a/c")).details == ("url: changed (hidden)",)


@pytest.mark.parametrize(
    "edit", [("hits > 10", "hits > 11"), ("EMIT ON WINDOW CLOSE", ""), ("FROM traffic", "FROM visits")]
)
def test_another_change_starts_over(edit):
    after = SINK.replace(*edit)
    if "visits" in after:
        after = after.replace("hits > 10", "status > 1").replace("EMIT ON WINDOW CLOSE", "")
    wording.check(only(SINK, after).reason)


def test_another_folder_starts_over():
    wording.check(only(files(), files().replace("'out'", "'other'")).reason)


def test_a_plain_secret_is_in_no_plan():
    text = SINK.replace("secret:T", "hunter2").replace("http://a/b", "http://me:hunter2@a/b")
    shown = json.dumps(compare(Catalog(), parse(BASE + text)).as_dict())
    assert "hunter2" not in shown
    assert only(text, SINK.replace("secret:T", "hunter3")).details


def test_every_option_has_a_summary():
    for connector in CONNECTORS.values():
        for option in connector.options:
            assert option.summary.endswith("."), option


@pytest.mark.parametrize(
    "path", ["s3://bucket/out", "S3A://bucket/out", "gs://b", "file:///tmp/out", "hdfs:/out", "../out", "out/../../etc",
             " s3://bucket/out", "secret:OUT", "secret:a/../../../etc"]
)  # fmt: skip
def test_folders_that_are_elsewhere_are_refused(path):
    with wording.raises(DefinitionError, "s", "path", path):
        parse(BASE + f"CREATE SINK s FROM traffic WITH (connector = 'files', path = '{path}');")


@pytest.mark.parametrize("path", ["out", "out/..more", "/srv/../srv/out", "a:b"])
def test_folders_of_this_machine_are_taken(path):
    assert sink(f"CREATE SINK s FROM traffic WITH (connector = 'files', path = '{path}');").get("path") == path
