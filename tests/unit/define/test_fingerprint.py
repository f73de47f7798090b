"""Definitions survive JSON exactly, and equal ones have one fingerprint."""

from __future__ import annotations

import json

from headrace.define.catalog import parse
from headrace.define.fingerprint import fingerprint, from_json, to_json

TEXT = """
CREATE STREAM s (ts BIGINT NOT NULL, page STRING, price DECIMAL(10,2), at TIMESTAMP AS timestamp_millis(ts),
                 WATERMARK FOR at AS at - INTERVAL 5 SECONDS);
CREATE STREAM plain (a INT);
CREATE MATERIALIZED VIEW v SCHEDULE EVERY 1 HOUR AS
SELECT page, sum(price) FILTER (WHERE page <> 'é''') AS total, count(*) AS n, approx_count_distinct(ts) AS u
FROM s WHERE price > 0 GROUP BY page, window(at, '1 hour', '5 minutes');
CREATE MATERIALIZED VIEW bare AS SELECT avg(a) AS mean FROM plain;
"""


def definitions(text=TEXT):
    catalog = parse(text)
    return [*catalog.streams.values(), *catalog.views.values()]


def test_json_gives_the_same_back():
    for definition in definitions():
        assert from_json(json.loads(json.dumps(to_json(definition)))) == definition


def test_names_of_window_bounds_are_part_of_a_definition():
    with_name = definitions(TEXT.replace("SELECT page,", "SELECT page, window_end AS until,"))[2]
    assert from_json(json.loads(json.dumps(to_json(with_name)))) == with_name
    assert fingerprint(with_name) != fingerprint(definitions()[2])


def test_fingerprints_tell_definitions_apart():
    assert len({fingerprint(definition) for definition in definitions()}) == 4


def test_fingerprints_ignore_formatting():
    other = TEXT.replace("price > 0", "( PRICE>0 ) /* positive */").replace("1 hour", "60 minutes")
    assert [fingerprint(d) for d in definitions(other)] == [fingerprint(d) for d in definitions()]


def test_fingerprints_do_not_change_between_releases():
    """A new value here means that every view of every workspace would be computed again."""
    assert [fingerprint(d) for d in definitions()] == FINGERPRINTS


FINGERPRINTS = ["9fcb101ffdf6b041", "caf990ed3473ba37", "00808a9066a82cfb", "f39d3fe7a93689e5"]
