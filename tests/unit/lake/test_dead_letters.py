"""Dead letters are listed newest first in pages, counted by kind of reason, and shown whole and safely."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from headrace.cli.output import printable
from headrace.errors import NotFoundError
from headrace.lake.dead_letter_pages import SHOWN_BYTES, DeadLetters
from headrace.lake.dead_letters import DeadLetterPage
from tests import wording
from tests.unit.lake.dead_lake import DeadLake, stream_of

SQL = "CREATE STREAM s (id INT NOT NULL, name STRING)"
GOOD = b'{"id":1}'
HOSTILE = b'{"id":"\x1b[31m\xff\x07\xe2\x80\xae"}'


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[DeadLake]:
    lake = DeadLake(tmp_path, stream_of(SQL))
    lake.add(GOOD, b'{"id":"a"}', b'{"id":"b, found at byte 7"}', GOOD)
    lake.add(b'{"id":null}', b"not json", b'{"id":3000000000}', HOSTILE)
    lake.add(b'{"id":"%s"}' % (b"\xc3\xa4" * SHOWN_BYTES), GOOD)
    yield lake
    lake.close()


def test_pages_from_the_newest(lake: DeadLake) -> None:
    values, cursor, pages = [], None, 0
    while pages == 0 or cursor is not None:
        page = lake.dead.page(3, cursor)
        assert page.total == 7
        values += [row.value for row in page.dead_letters]
        cursor, pages = page.next_cursor, pages + 1
    assert pages == 3
    assert [value[:12] for value in values] == [
        '{"id":"ääääää'[:12], HOSTILE.decode(errors="backslashreplace")[:12], '{"id":300000', "not json", '{"id":null}',
        '{"id":"b, fo', '{"id":"a"}',
    ]  # fmt: skip
    newest = lake.dead.page(1).dead_letters[0]
    assert not newest.whole
    assert newest.value == '{"id":"' + "ä" * ((SHOWN_BYTES - 7) // 2)  # half a character is omitted
    assert newest.bytes == 7 + 2 * SHOWN_BYTES + 2
    assert newest.base64 is None


def test_reasons_are_counted_without_their_values(lake: DeadLake) -> None:
    reasons = {row.reason: row.count for row in lake.dead.reasons()}
    assert sum(reasons.values()) == 7
    (texts,) = [count for reason, count in reasons.items() if reason == "field 'id' takes INT (a whole number)"]
    assert texts == 3
    assert not any("found" in reason or "byte 7" in reason for reason in reasons)
    assert [row.value for row in lake.dead.page(reason="MISSING or null").dead_letters] == ['{"id":null}']


def test_one_is_shown_whole(lake: DeadLake) -> None:
    (hostile,) = [row for row in lake.dead.page().dead_letters if row.base64]
    letter = lake.dead.show(hostile.position)
    assert base64.b64decode(letter.base64) == HOSTILE
    assert letter.arrived.endswith("Z")
    newest = lake.dead.page(1).dead_letters[0].position
    assert lake.dead.show(newest).value == '{"id":"' + "ä" * SHOWN_BYTES + '"}'
    with wording.raises(NotFoundError, 3):
        lake.dead.show(3)


def test_nothing_that_moves_a_terminal_is_printed(lake: DeadLake) -> None:
    for row in lake.dead.page().dead_letters:
        assert printable(row.value + row.reason).isprintable()
    assert printable("a\x1b[31m\u202e\ud800\r\n\tö") == r"a\x1b[31m\u202e\ud800\r\n\tö"


def test_a_stream_without_a_table_has_none() -> None:
    none = DeadLetters("s", None)
    assert none.page() == DeadLetterPage("s", 0, (), None)
    assert none.reasons() == []


def test_a_page_is_read_back_from_json(lake: DeadLake) -> None:
    page, (reason, *_) = lake.dead.page(2), lake.dead.reasons()
    assert DeadLetterPage.from_dict(orjson.loads(orjson.dumps(page))) == page
    content = page.as_dict()
    assert orjson.dumps(content) == orjson.dumps(page)
    assert list(content) == ["stream", "total", "dead_letters", "next_cursor"]
    letter = ["position", "commit", "arrived", "reason", "value", "bytes", "whole", "base64"]
    assert [list(row) for row in content["dead_letters"]] == [letter] * 2
    assert list(reason.as_dict()) == ["reason", "count", "newest", "position"]
