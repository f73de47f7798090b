"""FORMAT TEXT and FORMAT JSON of a stream: declared in SQL and in Python, stored in JSON, checked."""

from __future__ import annotations

import pytest

import headrace as hr
from headrace.define.catalog import parse
from headrace.define.fingerprint import fingerprint, from_json, to_json
from headrace.errors import DefinitionError
from headrace.plan.differences import compare
from tests import wording

FIELDS = "value STRING NOT NULL, host STRING AS split_part(value, ' ', 1)"


def stream(text: str):
    (stream_,) = parse(text).streams.values()
    return stream_


@pytest.mark.parametrize(
    "text", [f"CREATE STREAM s ({FIELDS}) FORMAT TEXT;", f"CREATE STREAM s FORMAT text ({FIELDS})"]
)
def test_sql_and_python_give_equal_definitions(text: str) -> None:
    text_stream = stream(text)
    assert text_stream.format == "text"
    assert text_stream == hr.Stream("s", FIELDS, format="text")
    assert from_json(to_json(text_stream)) == text_stream
    assert fingerprint(text_stream) != fingerprint(stream(f"CREATE STREAM s ({FIELDS})"))


def test_json_is_the_default_and_has_the_old_fingerprint() -> None:
    plain, json_stream = stream("CREATE STREAM s (a INT)"), stream("CREATE STREAM s (a INT) FORMAT JSON")
    assert plain == json_stream == hr.Stream("s", "a INT")
    assert "format" not in to_json(plain)


def test_another_format_is_not_a_free_change() -> None:
    before, after = parse("CREATE STREAM s (value STRING)"), parse("CREATE STREAM s (value STRING) FORMAT TEXT")
    (change,) = compare(before, after).changes
    assert change.kind == "refuse"
    assert change.details == ("format: JSON → TEXT",)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("CREATE STREAM s (line STRING) FORMAT TEXT", ("STRING",)),
        ("CREATE STREAM s (value INT) FORMAT TEXT", ("INT",)),
        ("CREATE STREAM s (value STRING, b INT) FORMAT TEXT", ()),
        ("CREATE STREAM s (value STRING) FORMAT CSV", ("TEXT",)),
        ("CREATE STREAM s (value STRING) WITH (format = 'avro')", ("TEXT",)),
        ("CREATE STREAM s (value STRING) FORMAT TEXT FORMAT JSON", (";",)),
    ],
)
def test_errors_name_what_to_write(text: str, values: tuple[str, ...]) -> None:
    with pytest.raises(DefinitionError) as caught:
        parse(text)
    wording.check(caught.value, *values)
