"""Generated frames: what the fast parsers accept, the second one does too, with equal values; alone or together."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from itertools import islice, product

import pyarrow as pa
import pytest

from headrace.define.catalog import parse
from headrace.define.model import Stream
from headrace.parse.block_checks import are_utf8
from headrace.parse.event_parser import Parsed
from headrace.parse.frames import frame_lines
from tests.unit.parse.forms import ARRIVED_US, FORMS, comparable, fast, parsers, second, stream_of, uniform

FRAMES = {"single": 6_000, "nested": 3_600, "paths": 6_000, "map paths": 200, "maps": 200, "deep maps": 200}
STREAMS = {
    "single": """id BIGINT, word STRING, small INT, ratio DOUBLE, price DECIMAL(8,2), flag BOOLEAN, day DATE,
                 at TIMESTAMP""",
    "nested": """word STRING, tags ARRAY<STRING>, items ARRAY<STRUCT<price: DECIMAL(8,2), on: DATE, at: TIMESTAMP>>,
                 address STRUCT<city: STRING, geo: STRUCT<lat: DOUBLE, lon: DOUBLE>, since: DATE>,
                 grid ARRAY<ARRAY<INT>>""",
    "paths": """label STRING FROM 'word', `a city` STRING FROM '$.address.city', lat DOUBLE FROM '$.address.geo.lat',
                address STRUCT<since: DATE, geo: STRUCT<lon: DOUBLE>>, price DECIMAL(8,2) FROM '$.items[0].price',
                later DATE FROM '$.items[1].on', tag STRING FROM '$.tags[1]', cell INT FROM '$.grid[0][1]',
                number BIGINT FROM 'id', ratio DOUBLE FROM 'id', `no.where` STRING FROM '$.address.none.deep'""",
    "map paths": """id BIGINT, geo MAP<STRING, DOUBLE> FROM '$.address.geo', counts MAP<STRING, INT>""",
    "maps": "id BIGINT, counts MAP<STRING, INT>, texts MAP<STRING, STRING>, days MAP<STRING, ARRAY<STRUCT<on: DATE>>>",
    "deep maps": "id BIGINT, maps ARRAY<MAP<STRING, DOUBLE>>, amounts MAP<STRING, DECIMAL(8,2)>",
}
GOOD = {
    "id": "7", "word": '"w"', "small": "-3", "ratio": "0.5", "price": "12.30", "flag": "false", "day": '"2026-03-01"',
    "at": '"2026-03-01T12:00:00Z"', "tags": '["a", null]', "items": '[{"price": 1.5, "on": "2026-03-01"}, {}]',
    "address": '{"city": "Rome", "geo": {"lat": 1, "lon": 2.5}}', "grid": "[[1], [], null]",
    "counts": '{"a": 1, "b": null}',
    "texts": '{"\\u00e9": "x", "": "y"}', "days": '{"a": [{"on": "2026-03-01"}]}', "maps": '[{"a": 1.5}, null]',
    "amounts": '{"a": 1.50}', "other": "[1, {}]",
}  # fmt: skip
INNER = (
    '"x"', "1", "1.5", "null", "{}", "[]", '"2026-03-01"', '{"on": "2026-02-30"}', '{"lat": 1e999}', '{"a": "b"}',
    "NaN", '{"city": 5, "city": 6}', "true", '"\\ud800"', '{"price": "0.10"}', "-0.0", "1e2", "12345678901234567890",
)  # fmt: skip
ALL_GOOD = {  # values of one type that the fastest parser reads together
    "STRING": ['"w"', '""', '"é😀"'],
    "BOOLEAN": ["true", "false", "null"],
    "INT": ["0", "7", "12345678", "-5", "1900000000", "null"],
    "BIGINT": ["0", "123456789012345678", "-5", "99", "null"],
    "DOUBLE": ["0.5", "-1e3", "7", "null"],
    "DECIMAL(8,2)": ["0.5", "-123456.78", "7", "null"],
    "DATE": ['"2026-03-31"', '"1970-01-01"', '"2025-02-28"'],
    "TIMESTAMP": ['"2026-03-31T12:00:00Z"', '"2026-04-30 23:59:59.123456+05:30"', '"2026-02-28T01:02Z"'],
}
ALIKE = {"other": '"x"', "more": "-1.5e3"}
PIECES = (
    b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b" ", b"\t", b"\x00", b"\x1f", b"\xff", b"\xc3", b"0", b"-", b".",
    b"e", b"\\u0000", b"\\ud83d", b"\\ude00", b"\\/", b"NaN", b"Inf", b"-Infinity", b"\xef\xbb\xbf", b"null", b"'",
    b"\xf0\x9f\x98\x80", b'"id":1', b'"at":', b"/**/",
)  # fmt: skip
TIMES = (
    "2026-03-01", "2026-03-01T12:00:00Z", "2026-03-01T12:00:00.123456Z", "2026-03-01 12:00:00", "2026-03-01T12",
    "2026-03-01T12Z", "2026-03-01T12:30", "2026-03-01T12:30Z", "2026-03-01T12:00:00.1", "2026-03-01T12:00:00+0530",
    "2026-03-01T12:00:00-05", "2026-03-01T12:00:00+05:60", "2026-03-01T12:00:00.1234567Z", "2026-03-01T12:00:00.Z",
    "2026-03-01t12:00:00z", "2026-03-01T12:00:00 Z", " 2026-03-01T12:00:00Z", "2026-03-01T12:00:00Z ", "20260301",
    "2026-3-1", "2026-03-01Z", "-2026-03-01", "12026-03-01T12:00:00Z", "2026-03-01T12:60:00Z", "2026-03-01T12:00:60Z",
    "2026-03-01T24:00:00", "2026-02-29T12:00:00Z", "0000-01-01", "0001-01-01T00:00:00+01:00", "2026-03-01T12:00:00+24",
    "9999-12-31T23:59:59-01:00", "2026-03-01T12:00:00+5", "2026-03-01T12:00:00,5Z", "２026-03-01", "2026-03-01T", "",
)  # fmt: skip
BARE = (
    "0", "-0", "00", "-00", "01", "-1", "+1", "-", "--1", "1-1", "1_0", "0x10", "1.", ".5", "1.50", "-0.0", "01.5",
    "1e2", "1E+2", "1e", "1e400", "1e-400", "123456.78", "1234567.8", "0.001", "2147483647", "-2147483649",
    "9223372036854775807", "-9223372036854775808", "9223372036854775808", "12345678901234567890123", "null", "NULL",
    "nul", "nulls", "true", "false", "True", "t", "NaN", "Infinity", "-Infinity", "inf", "nan", "٣", "1\t", "1 ", " 1",
    "[]", "{}", '""', '"1.5"',
)  # fmt: skip
TEXTS = (
    "w", "", " ", "é", "\\u00e9", "a,", ",", ', "', "\\", "\\\\", '\\"', "a\tb", "\x7f", "null", "5", "{", "}", ":",
    "😀", '","word":"', '"', "\\n", "\ufeff", "\udcff",
)  # fmt: skip


@cache
def stream(name: str) -> Stream:
    (definition,) = parse(f"CREATE STREAM s ({STREAMS[name]})").streams.values()
    return definition


def keys(of: Stream) -> list[str]:
    """The keys of an event that the fields are in."""
    return list(dict.fromkeys(str(field.steps[0]) for field in of.fields))


def generate(of: Stream, seed: int) -> Iterator[bytes]:
    """Events of all shapes: good, with one field of some other form, with a field twice, and with bytes changed."""
    chance = random.Random(seed)
    names = keys(of)
    forms = [form for form in FORMS if form]
    while True:
        event = [(name, GOOD[name]) for name in (*names, "other") if chance.random() < 0.8]
        if chance.random() < 0.6 and event:
            form = chance.choice(forms) if chance.random() < 0.5 else _nested(chance)
            event[chance.randrange(len(event))] = (chance.choice([*names, "other"]), form)
        if chance.random() < 0.1:
            event.append((chance.choice([*names, "other"]), chance.choice(forms)))
        colon = chance.choice([":", ":", " : "])
        line = ("{" + ",".join(f'"{name}"{colon}{form}' for name, form in event) + "}").encode()
        if chance.random() < 0.3:
            at = chance.randrange(len(line))
            line = line[:at] + chance.choice(PIECES) + line[at + chance.randrange(3) :]
        if line.strip() and b"\n" not in line:
            yield line.strip()


def _nested(chance: random.Random) -> str:
    inner = [chance.choice(INNER) for _ in range(chance.randrange(3))]
    if chance.random() < 0.5:
        return "[" + ", ".join(inner) + "]"
    return "{" + ", ".join(f'"{chance.choice(["a", "city", "geo", "on", "price"])}": {item}' for item in inner) + "}"


@pytest.mark.parametrize("name", STREAMS)
def test_the_parsers_agree(name: str) -> None:
    of, accepted, silent = stream(name), 0, 0
    lines = list(islice(generate(of, 4), FRAMES[name]))
    for line in lines:
        verdict, fast_verdict = second(of, line), fast(of, line)
        accepted += not isinstance(verdict, str)
        silent += not isinstance(verdict, str) and fast_verdict is None
        assert fast_verdict is None or fast_verdict == verdict, line
    # The test would be pointless if most frames were refused, or the fast parser rarely had a result.
    assert 0.3 < accepted / len(lines) < 0.9
    most_silent = {"deep maps": 1.0, "paths": 0.3}.get(name, 0.1)  # where a step meets no object, only the second reads
    assert silent <= accepted * most_silent, silent / accepted


@pytest.mark.parametrize("name", STREAMS)
def test_neighbours_do_not_matter(name: str) -> None:
    of = stream(name)
    parser = parsers(of)[2]
    lines = list(islice(generate(of, 5), 2_000))
    for batch in (lines, lines[::-1]):
        parsed = parser.parse(frame_lines(b"\n".join(batch)), ARRIVED_US)
        assert parsed.reasons is not None
        rows = parsed.columns.to_pylist()
        for line, row, reason in zip(batch, rows, parsed.reasons.to_pylist(), strict=True):
            verdict = second(of, line)
            assert reason == (verdict if isinstance(verdict, str) else None), line
            assert reason is not None or comparable(row) == verdict, line


def alike(of: Stream, seed: int) -> Iterator[list[bytes]]:
    """Events of one shape, some of them with values of other forms, with a field left out, or with bytes changed."""
    chance = random.Random(seed)
    texts = {"STRING": TEXTS, "DATE": TIMES, "TIMESTAMP": TIMES}
    while True:
        names = {field.name: field.type.name for field in of.fields if chance.random() < 0.9}
        names |= {name: type_ for name, type_ in (("other", "STRING"), ("more", "INT")) if chance.random() < 0.3}
        order = chance.sample(sorted(names), len(names))
        comma, colon = chance.choice([(",", ":"), (", ", ": "), (" ,", " :")])
        lines = []
        spoiled = chance.choice([0, 1, 2, 20])
        events = [{name: ALIKE.get(name) or GOOD[name] for name in order} for _ in range(chance.randrange(1, 12))]
        for _ in range(spoiled if order else 0):
            event, name = chance.choice(events), chance.choice(order)
            forms = [f'"{text}"' for text in texts[names[name]]] if names[name] in texts else BARE
            event[name] = chance.choice(forms if chance.random() < 0.8 else FORMS[1:])
        if spoiled and chance.random() < 0.3:
            chance.choice(events).pop(chance.choice([*order, ""]), None)
        for event in events:
            line = "{" + comma.join(f'"{name}"{colon}{form}' for name, form in event.items()) + "}"
            lines.append(line.encode(errors="surrogateescape"))
        if spoiled and chance.random() < 0.3:
            line = chance.choice(lines)
            at = chance.randrange(len(line))
            lines.append(line[:at] + chance.choice(PIECES) + line[at + chance.randrange(3) :])
        yield [line.strip() for line in lines if line.strip()]


def forms_of(type_: str) -> list[str]:
    """Values of all kinds for a field of this type, most of them bad."""
    quoted = {"STRING": TEXTS, "DATE": TIMES, "TIMESTAMP": TIMES}.get(type_, TEXTS[:1])
    return [*(f'"{text}"' for text in quoted), *BARE, *FORMS[1:]]


def check_verdicts(of: Stream, lines: list[bytes], parsed: Parsed) -> None:
    """Each event has the verdict and the values that the second parser gives it."""
    assert parsed.reasons is not None
    for line, row, reason in zip(lines, parsed.columns.to_pylist(), parsed.reasons.to_pylist(), strict=True):
        verdict = second(of, line)
        assert reason == (verdict if isinstance(verdict, str) else None), line
        assert reason is not None or comparable(row) == verdict, line


def encoded(fields: dict[str, str]) -> bytes:
    """An event with these values."""
    return ("{" + ",".join(f'"{name}":{form}' for name, form in fields.items()) + "}").encode(errors="surrogateescape")


@pytest.mark.parametrize("type_", ALL_GOOD)
def test_a_doubtful_value_leaves_out_only_its_event(type_: str) -> None:
    """The fastest parser still reads the events before and after it."""
    of, good = stream_of(type_), ALL_GOOD[type_]
    for position in (0, 5, 9):
        for form in forms_of(type_):
            lines = [encoded({"v": good[index % len(good)], "other": '"x"'}) for index in range(9)]
            lines.insert(position, encoded({"v": form, "other": '"x"'}))
            for index, (line, values) in enumerate(zip(lines, uniform(of, lines), strict=True)):
                assert values == second(of, line) or (values is None and index == position), (line, form)


def test_a_doubtful_value_of_an_undeclared_field_leaves_out_only_its_event() -> None:
    of = stream_of("INT")
    for good, forms in (('"x"', [f'"{text}"' for text in TEXTS]), ("1.5", BARE)):
        for form in forms:
            lines = [encoded({"v": str(index), "other": good}) for index in range(9)]
            lines.insert(4, encoded({"v": "5", "other": form}))
            for index, (line, values) in enumerate(zip(lines, uniform(of, lines), strict=True)):
                assert values == second(of, line) or (values is None and index == 4), (line, form)


@pytest.mark.parametrize("share", [0.002, 0.02, 0.1])
def test_many_events_with_a_few_bad_values(share: float) -> None:
    """Each event has the verdict and the values that the second parser gives it."""
    of, chance = stream("single"), random.Random(9)
    parser = parsers(of)[2]
    lines = []
    for index in range(4_000):
        event = {field.name: GOOD[field.name] for field in of.fields} | {"id": str(index), "word": f'"w{index}"'}
        for field in of.fields:
            if chance.random() < share / len(of.fields):
                event[field.name] = chance.choice(forms_of(field.type.name))
        lines.append(encoded(event))
    parsed = parser.parse(frame_lines(b"\n".join(lines)), ARRIVED_US)
    check_verdicts(of, lines, parsed)


def test_half_characters_of_two_events_are_no_character() -> None:
    of = stream_of("STRING")
    lines = [b'{"v":"w"}'] * 8 + [b'{"v":"\xc3"}', b'{"v":"\xa9"}']
    assert uniform(of, lines) == [{"v": "'w'"}] * 8 + [None] * 2


def test_an_event_of_the_shape_with_a_time_that_is_not_utf8() -> None:
    """The first event is of another shape, so that this is the first time that is read."""
    of = stream_of("TIMESTAMP")
    lines = [b"{}", b'{"v":"2026-03-01T12:00:00\xff"}', *[b'{"v":"2026-03-01T12:00:00Z"}'] * 14]
    assert uniform(of, lines) == [None] * 2 + [second(of, lines[-1])] * 14


def test_which_values_are_utf8() -> None:
    """By a regular expression of bytes, as Python decodes them."""
    edges = [b"\x00", b"\x7f", b"\x80", b"\x8f", b"\x90", b"\x9f", b"\xa0", b"\xbf", b"\xc0", b"\xc1", b"\xc2", b"\xdf"]
    edges += [bytes([byte]) for byte in range(0xE0, 0x100)]
    values = [b"".join(parts) for length in range(4) for parts in product(edges, repeat=length)]
    values += [first + b"".join(rest) for first in edges[-16:] for rest in product(edges[2:9], repeat=3)]
    mask = are_utf8(pa.array(values, pa.binary())).tolist()
    for value, is_good in zip(values, mask, strict=True):
        try:
            value.decode()
        except UnicodeDecodeError:
            assert not is_good, value
        else:
            assert is_good, value


def test_events_of_one_shape() -> None:
    """What the fastest parser reads of some events, the second one accepts, with equal values."""
    of = stream("single")
    count = silent = 0
    for lines in islice(alike(of, 6), 3_000):
        for line, values in zip(lines, uniform(of, lines), strict=True):
            verdict = second(of, line)
            count += not isinstance(verdict, str)
            silent += not isinstance(verdict, str) and values is None
            assert values is None or values == verdict, (line, lines)
    assert silent < count * 0.6


def test_single_events_of_any_shape() -> None:
    of = stream("single")
    for line in islice(generate(of, 7), 3_000):
        (values,) = uniform(of, [line])
        assert values is None or values == second(of, line), line


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b" \n\n"])
def test_many_events_of_a_few_shapes(line_end: bytes) -> None:
    """Those of the most common shape are read first, then those of the next; the order stays."""
    of = stream("single")
    parser = parsers(of)[2]
    odd = list(islice(generate(of, 8), 100))
    lines = []
    for index in range(9_000):
        shape = 0 if index % 50 < 40 else 1 if index % 50 < 49 else 2
        word = '"w\\"x"' if index % 500 == 7 else "null" if shape == 1 else f'"w{index}"'
        line = f'{{"id":{index},"word":{word},"at":"2026-03-01T12:00:00.{index % 1000:03d}Z","ratio":{index / 7}'
        lines.append(
            odd[index // 90] if index % 90 == 5 else (line + (',"flag":true}' if shape == 2 else "}")).encode()
        )
    parsed = parser.parse(frame_lines(line_end.join(lines)), ARRIVED_US)
    check_verdicts(of, lines, parsed)


def test_each_byte_of_a_short_integer_is_a_digit() -> None:
    of = stream_of("INT")
    for byte in set(range(256)) - {*b"0123456789\n"}:
        for place in range(8):
            digits = bytearray(b"12345678")
            digits[place] = byte
            line = b'{"v":%b}' % digits
            (values,) = uniform(of, [line])
            assert values is None or values == second(of, line), line
    numbers = [0, 7, 10, 99, 100, 12_345, 999_999, 1_234_567, 10_000_000, 99_999_999]
    assert uniform(of, [b'{"v":%d}' % number for number in numbers]) == [{"v": str(number)} for number in numbers]
