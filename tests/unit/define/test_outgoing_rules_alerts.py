"""Definitions of alerts: SQL and Python make equal objects, and mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.define.catalog import load, parse
from headrace.define.fingerprint import from_json, to_json
from headrace.define.model import Alert
from headrace.errors import DefinitionError
from tests import wording

BASE = """
CREATE STREAM visits (page STRING, status INT, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);
CREATE MATERIALIZED VIEW health AS SELECT page, count(*) AS hits,
  100.0 * count(*) FILTER (WHERE status >= 500) / count(*) AS error_rate
FROM visits GROUP BY page, window(at, '1 minute');
CREATE MATERIALIZED VIEW totals AS SELECT page, count(*) AS hits FROM visits GROUP BY page;
"""


def alert(text: str) -> Alert:
    (alert,) = parse(BASE + text).alerts.values()
    assert from_json(to_json(alert)) == alert
    return alert


def test_a_condition_that_must_hold_for_a_time() -> None:
    made = alert("CREATE ALERT a AS SELECT page, error_rate FROM health WHERE error_rate > 5 FOR INTERVAL 2 MINUTES;")
    assert (made.source, made.for_ms, made.absent_ms, made.on_close) == ("health", 120_000, None, False)
    assert [output.name for output in made.outputs] == ["page", "error_rate"]


def test_clauses_in_any_order() -> None:
    rest = ("FOR INTERVAL 1 MINUTE", "WITH (severity = 'critical')", "EMIT ON WINDOW CLOSE")
    one = alert(f"CREATE ALERT a AS SELECT * FROM health WHERE hits > 5 {rest[0]} {rest[1]} {rest[2]};")
    assert one == alert(f"CREATE ALERT a AS SELECT * FROM health WHERE hits > 5 {rest[2]} {rest[1]} {rest[0]};")
    assert one.on_close


@pytest.mark.parametrize("words", ["NO EVENTS", "ABSENT"])
def test_absence_of_events(words: str) -> None:
    made = alert(f"CREATE ALERT quiet ON STREAM visits WHEN {words} FOR INTERVAL 5 MINUTES;")
    assert (made.source, made.absent_ms, made.where) == ("visits", 300_000, None)


def test_a_webhook_is_the_connector_http() -> None:
    made = alert("CREATE ALERT a AS SELECT * FROM health WHERE hits > 5 WITH (webhook = 'http://localhost:9/x');")
    assert dict(made.options) == {"connector": "http", "url": "http://localhost:9/x"}


def test_kafka_as_the_target() -> None:
    made = alert(
        "CREATE ALERT a AS SELECT * FROM health WHERE hits > 5 "
        "WITH (connector = 'kafka', topic = 'alarms', properties.bootstrap.servers = 'localhost:9092', repeat = '1 h');"
    )
    assert dict(made.options)["topic"] == "alarms"


def test_python_makes_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.sql").write_text(BASE)
    (tmp_path / "b.py").write_text(
        "import headrace as hr\n"
        "s = hr.Stream('taps', 'id STRING, at TIMESTAMP NOT NULL', event_time='at', patience='1 minute')\n"
        "v = hr.View('per_id', s.group_by('id', hr.window('1 minute')).agg(n=hr.count()))\n"
        "hr.Alert('many', v, 'n > 5', columns=['id', 'n'], hold='2 minutes', on_close=True,\n"
        "         options={'webhook': 'http://localhost:9/x'})\n"
        "hr.Alert('none', s, absent='5 minutes')\n"
    )
    made = load(tmp_path).alerts
    text = (
        "CREATE STREAM taps (id STRING, at TIMESTAMP NOT NULL, WATERMARK FOR at AS at - INTERVAL 1 MINUTE);"
        "CREATE MATERIALIZED VIEW per_id AS SELECT id, count(*) AS n FROM taps GROUP BY id, window(at, '1 minute');"
        "CREATE ALERT many AS SELECT id, n FROM per_id WHERE n > 5 FOR INTERVAL 2 MINUTES EMIT ON WINDOW CLOSE "
        "WITH (webhook = 'http://localhost:9/x');"
        "CREATE ALERT none ON STREAM taps WHEN NO EVENTS FOR INTERVAL 5 MINUTES;"
    )
    assert made == parse(text).alerts


SESSIONS = (
    "CREATE MATERIALIZED VIEW calls AS SELECT page, count(*) AS hits FROM visits "
    "GROUP BY page, session_window(at, '30 minutes');"
)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("CREATE ALERT a AS SELECT * FROM healt WHERE hits > 5;", ("health",)),
        ("CREATE ALERT a AS SELECT * FROM visits WHERE status > 5;", ()),
        ("CREATE ALERT a AS SELECT * FROM health WHERE hit > 5;", ("hits",)),
        ("CREATE ALERT a AS SELECT * FROM health WHERE hits;", ("BOOLEAN",)),
        ("CREATE ALERT a AS SELECT * FROM health WHERE hits > 5 WITH (severty = 'x');", ("severity",)),
        ("CREATE ALERT a AS SELECT * FROM health WHERE hits > 5 WITH (webhook = 'nowhere');", ()),
        ("CREATE ALERT a AS SELECT * FROM health WHERE hits > 5 WITH (connector = 'files');", ("http", "kafka")),
        ("CREATE ALERT a AS SELECT * FROM health WHERE hits > 5 WITH (connector = 'kafka');", ()),
        ("CREATE ALERT a AS SELECT * FROM totals WHERE hits > 5 EMIT ON WINDOW CLOSE;", ()),
        ("CREATE ALERT a ON VIEW totals WHEN NO EVENTS FOR INTERVAL 5 MINUTES;", ("ON STREAM",)),
        (f"{SESSIONS} CREATE ALERT a ON VIEW calls WHEN NO EVENTS FOR INTERVAL 5 MINUTES;", ("calls",)),
        ("CREATE ALERT a ON STREAM visits WHEN NO EVENTS FOR INTERVAL 1 MILLISECOND;", ("1",)),
        ("CREATE ALERT a ON STREAM visits WHEN QUIET FOR INTERVAL 5 MINUTES;", ("NO EVENTS", "ABSENT")),
        ("CREATE ALERT a AS SELECT * FROM health;", ("WHERE",)),
        ("CREATE ALERT a AS SELECT * FROM health WHERE hits > 5 FOR '1 m' FOR '2 m';", ("FOR",)),
    ],
)
def test_mistakes_are_named(text: str, values: tuple[str, ...]) -> None:
    with pytest.raises(DefinitionError) as raised:
        parse(BASE + text)
    wording.check(raised.value, *values)
